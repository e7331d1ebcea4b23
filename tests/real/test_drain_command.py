"""`haulout drain` on a real API server, as users with more or fewer rights."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rig.api import PDBS, ApiError, Json
from tests.rig.faults import DropEvents, FaultProxy, Write
from tests.rig.fleet import Owner, node_object, pod_object
from tests.rig.kwok import Kwok
from tests.rig.operator import HAULOUT, environment
from tests.rig.plane import ControlPlane
from tests.rig.wait import PATIENCE, eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl", "kwok")

WEBHOOKS = "admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
READ = ["get", "list", "watch"]
NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": [*READ, "patch"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": READ}
EVICT = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
BUDGETS = {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": READ}
DAEMONS = {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": READ}

Drain = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(plane: ControlPlane, tmp_path: Path) -> Start:
    """Start the command as a user with exactly these rights."""

    def begin(rights: list[Json], *words: str) -> subprocess.Popen[str]:
        user = plane.limited_user(rights)
        eventually(lambda: plane.api(user).items("pods") is not None, "the rights count", refused=(ApiError,))
        env = environment(KUBECONFIG=str(plane.kubeconfig(user)))
        argv = [str(HAULOUT), "drain", "--delete-emptydir-data", *words]
        return subprocess.Popen(argv, cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return begin


@pytest.fixture
def drain(start: Start) -> Drain:
    """Run the command to its end."""

    def run(rights: list[Json], *words: str) -> subprocess.CompletedProcess[str]:
        with start(rights, *words) as draining:
            printed, said = draining.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(draining.args, draining.returncode, printed, said)

    return run


def is_cordoned(plane: ControlPlane, node: str) -> bool:
    return bool(plane.api().get("nodes", node)["spec"].get("unschedulable"))


def is_guarded(plane: ControlPlane, node: str) -> bool:
    try:
        plane.api().patch("nodes", node, {"metadata": {"annotations": {"touched": "yes"}}})
    except ApiError as error:
        return error.code == 500
    return False


def add_budget(plane: ControlPlane, ns: str, app: str, healthy: int) -> None:
    """Create a closed budget. No controller changes its status here."""
    selector = {"matchLabels": {"app.kubernetes.io/name": app}}
    made = plane.api().create(
        PDBS, {"metadata": {"name": app}, "spec": {"maxUnavailable": 0, "selector": selector}}, ns
    )
    status = {"currentHealthy": healthy, "desiredHealthy": healthy, "expectedPods": healthy, "disruptionsAllowed": 0}
    body = {"status": {**status, "observedGeneration": made["metadata"]["generation"]}}
    plane.api().patch(PDBS, app, body, ns, sub="status")


def test_with_the_rights_that_kubectl_needs_nodes_are_drained(
    plane: ControlPlane, kwok: Kwok, namespace: str, prefix: str, drain: Drain
) -> None:
    nodes = kwok.nodes(prefix, 2)
    pods = kwok.pods(namespace, nodes, 3, owner=Owner("ReplicaSet", prefix), stops_after="100ms")
    done = drain([NODES, PODS, EVICT, BUDGETS, DAEMONS], *nodes)
    assert (done.returncode, done.stderr) == (0, "")
    assert {f"pod {namespace}/{pod} gone" for pod in pods} < set(done.stdout.splitlines())
    assert plane.api().items("pods", namespace) == []
    assert all(is_cordoned(plane, node) for node in nodes)
    plane.wipe(prefix)


def test_a_pod_that_is_bound_before_the_cordon_and_never_shown_is_evicted_before_the_command_ends(
    plane: ControlPlane, proxy: FaultProxy, namespace: str, prefix: str, tmp_path: Path
) -> None:
    node, late = f"{prefix}-node", f"{prefix}-late"
    plane.load([node_object(node)])
    silent = proxy.rule(DropEvents(lambda event: event["object"]["metadata"].get("name") == late), path="/api/v1/pods$")

    def bind(write: Write) -> bool:
        """Bind a pod just before the server stores the cordon."""
        if (write.method, write.moment) == ("PATCH", "before"):
            plane.load([pod_object(late, namespace, node, grace=0)])
        return True

    proxy.on_write = bind
    since = plane.audit.mark()
    env = environment(KUBECONFIG=str(plane.kubeconfig("operator", server=proxy.url)))
    argv = [str(HAULOUT), "drain", "--force", "--delete-emptydir-data", node]
    done = subprocess.run(argv, cwd=tmp_path, env=env, text=True, capture_output=True, check=False, timeout=PATIENCE)
    left = [pod["metadata"]["name"] for pod in plane.api().items("pods", namespace)]
    assert (done.returncode, left, silent.acted) == (0, [], 1)
    assert f"pod {namespace}/{late} gone" in done.stdout
    lists = plane.audit.entries(since=since, user="operator", verb="list", what="pods")
    assert len([entry for entry in lists if f"spec.nodeName%3D{node}" in entry.uri]) == 2
    plane.wipe(prefix)


def test_whoever_may_not_cordon_changes_nothing(
    plane: ControlPlane, kwok: Kwok, namespace: str, prefix: str, drain: Drain
) -> None:
    (node,) = kwok.nodes(prefix, 1)
    kwok.pods(namespace, [node], 1, owner=Owner("ReplicaSet", prefix))
    done = drain([{**NODES, "verbs": READ}, PODS, EVICT, BUDGETS, DAEMONS], node)
    assert done.returncode == 1
    assert "cannot patch resource" in done.stderr
    assert "to undo" not in done.stderr
    assert not is_cordoned(plane, node)
    plane.wipe(prefix)


def test_a_webhook_that_is_away_is_told_of_and_waited_for(plane: ControlPlane, prefix: str, tmp_path: Path) -> None:
    node, registration = f"{prefix}-node", f"{prefix}.haulout.test"
    plane.load([node_object(node, labels={"guarded": prefix})])
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]}
    webhook = {
        "name": registration,
        "rules": [rule],
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "objectSelector": {"matchLabels": {"guarded": prefix}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    plane.api().create(WEBHOOKS, {"metadata": {"name": registration}, "webhooks": [webhook]})
    eventually(lambda: is_guarded(plane, node), "the webhook is asked")
    env = environment(KUBECONFIG=str(plane.kubeconfig("operator")))
    argv = [str(HAULOUT), "drain", node]
    with subprocess.Popen(
        argv, cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as draining:
        assert draining.stderr is not None
        warning = draining.stderr.readline()
        plane.api().delete(WEBHOOKS, registration)
        draining.communicate(timeout=PATIENCE)
    assert warning.startswith(f"Warning: node {node} cannot be cordoned yet, it is tried again: ")
    assert f'failed calling webhook "{registration}"' in warning
    assert (draining.returncode, is_cordoned(plane, node)) == (0, True)
    plane.wipe(prefix)


def test_whoever_may_not_evict_is_told_so_and_what_stands(
    plane: ControlPlane, kwok: Kwok, namespace: str, prefix: str, drain: Drain
) -> None:
    (node,) = kwok.nodes(prefix, 1)
    kwok.pods(namespace, [node], 2, owner=Owner("ReplicaSet", prefix))
    done = drain([NODES, PODS, BUDGETS, DAEMONS], node)
    assert done.returncode == 1
    assert 'cannot create resource "pods/eviction"' in done.stderr
    assert done.stderr.splitlines()[-1] == f"to undo: haulout uncordon {node}"
    assert len(plane.api().items("pods", namespace)) == 2
    plane.wipe(prefix)


def test_pods_that_may_not_be_listed_end_it_before_it_begins(
    plane: ControlPlane, kwok: Kwok, prefix: str, drain: Drain
) -> None:
    (node,) = kwok.nodes(prefix, 1)
    user = plane.limited_user([NODES])
    done = subprocess.run(
        [str(HAULOUT), "drain", node],
        env=environment(KUBECONFIG=str(plane.kubeconfig(user))),
        text=True,
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert not is_cordoned(plane, node)
    plane.wipe(prefix)


@pytest.mark.parametrize("rights", [[BUDGETS, DAEMONS], []], ids=["budgets are read", "budgets may not be read"])
def test_a_closed_budget_holds(
    plane: ControlPlane, kwok: Kwok, namespace: str, prefix: str, start: Start, rights: list[Json]
) -> None:
    (node,) = kwok.nodes(prefix, 1)
    kwok.pods(namespace, [node], 2, owner=Owner("ReplicaSet", prefix))
    add_budget(plane, namespace, prefix, healthy=2)
    with start([NODES, PODS, EVICT, *rights], node, "-o", "json") as draining:
        assert draining.stderr is not None
        assert any(line.startswith("  2 pods: ") for line in iter(draining.stderr.readline, ""))
        draining.send_signal(signal.SIGINT)
        printed, _ = draining.communicate(timeout=PATIENCE)
    assert draining.returncode == 130
    told = json.loads(printed)
    assert [cause["code"] for cause in told["causes"]] == ["pdb-blocks"]
    assert len(told["causes"][0]["pods"]) == len(told["nodes"][0]["notEvicted"]) == 2
    plane.wipe(prefix)
