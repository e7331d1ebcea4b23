"""`haulout cluster` used by kubectl, and by an operator as if it were a real cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.profiles import GO, PROFILE, STATE, entries_of, label_of, roll_config, sampled
from tests.rig.embedded import EmbeddedCluster
from tests.rig.operator import HAULOUT, MaintenanceController, environment
from tests.rig.plane import Cluster, ControlPlane, tool
from tests.rig.process import Process, Scratch, free_port
from tests.rig.session import require_tools
from tests.rig.wait import eventually

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "example.test/web:1"}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 3, selector: {matchLabels: {app: web}}}
"""

TEAM = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: teams.example.test}
spec:
  group: example.test
  scope: Namespaced
  names: {plural: teams, kind: Team, shortNames: [tm]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer, description: How many.}}}}
"""
BLUE = """
apiVersion: example.test/v1
kind: Team
metadata: {name: blue}
spec: {size: 3}
"""


@pytest.fixture(scope="module")
def cluster(scratch: Scratch) -> Iterator[EmbeddedCluster]:
    """An embedded cluster whose time runs ten times as fast, so that tests do not wait for pods to stop."""
    require_tools("kubectl")
    with EmbeddedCluster(scratch.directory("embedded"), nodes=3, flags=("--zones=3", "--speed=10")) as made:
        made.kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=60s")
        yield made


@pytest.fixture
def space(cluster: EmbeddedCluster, prefix: str) -> Iterator[str]:
    cluster.kubectl("create", "namespace", prefix)
    yield prefix
    cluster.kubectl("delete", "namespace", prefix)


def test_a_drain_is_refused_by_the_budget_until_it_allows_for_it(
    cluster: EmbeddedCluster, space: str, tmp_path: Path
) -> None:
    kubectl = cluster.kubectl
    assert kubectl("apply", "-n", space, "-f-", stdin=WEB).stdout.splitlines() == [
        "deployment.apps/web created",
        "poddisruptionbudget.policy/web created",
    ]
    assert "unchanged" in kubectl("apply", "-n", space, "-f-", stdin=WEB).stdout
    kubectl("rollout", "status", "-n", space, "deployment/web", "--timeout=60s")
    kubectl("wait", "-n", space, "deployment/web", "--for=condition=Available", "--timeout=60s")
    pods = json.loads(kubectl("get", "pods", "-n", space, "-o", "json").stdout)["items"]
    node = pods[0]["spec"]["nodeName"]

    refusal = "Cannot evict pod as it would violate the pod's disruption budget."
    # It would try again for ever.
    argv = [tool("kubectl"), f"--kubeconfig={cluster.kubeconfig()}", "drain", node]
    with Process("drain", argv, tmp_path) as refused:
        eventually(lambda: refusal in refused.text(), "the drain is refused")
    assert "SchedulingDisabled" in kubectl("get", "node", node).stdout

    kubectl("patch", "pdb", "web", "-n", space, "--type=merge", "-p", '{"spec": {"minAvailable": 2}}')
    assert f"node/{node} drained" in kubectl("drain", node, "--timeout=60s").stdout
    kubectl("rollout", "status", "-n", space, "deployment/web", "--timeout=60s")
    left = json.loads(kubectl("get", "pods", "-n", space, "-o", "json").stdout)["items"]
    assert len(left) == 3
    assert node not in {pod["spec"]["nodeName"] for pod in left}
    kubectl("uncordon", node)
    assert "SchedulingDisabled" not in kubectl("get", "nodes").stdout


def test_a_watch_tells_of_labels_taints_and_annotations(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    kubectl = cluster.kubectl
    node = kubectl("get", "nodes", "-o", "name").stdout.split()[0]
    argv: list[str | Path] = [
        tool("kubectl"),
        f"--kubeconfig={cluster.kubeconfig()}",
        "get",
        node,
        "--watch",
        "-L",
        "team",
    ]
    watch = Process("watch", argv, tmp_path).start()
    try:
        eventually(lambda: "NAME" in watch.text(), "kubectl watches")
        kubectl("label", node, "team=blue")
        eventually(lambda: "blue" in watch.text(), "the watch tells of the label")
    finally:
        watch.stop()
    assert "already has a value" in kubectl("label", node, "team=red", check=False).stderr
    kubectl("label", node, "team-")
    kubectl("annotate", node, "example.test/note=seen")
    kubectl("taint", "node", node.removeprefix("node/"), "example.test/busy=yes:NoSchedule")
    described = kubectl("describe", node).stdout
    assert "example.test/note: seen" in described
    assert "example.test/busy=yes:NoSchedule" in described
    kubectl("taint", "node", node.removeprefix("node/"), "example.test/busy-")
    assert "team=blue" not in kubectl("get", node, "--show-labels").stdout


def test_what_has_a_finalizer_goes_when_it_is_removed(cluster: EmbeddedCluster, space: str) -> None:
    kubectl = cluster.kubectl
    kubectl("create", "configmap", "held", "-n", space, "--from-literal=a=1")
    kubectl("patch", "configmap", "held", "-n", space, "-p", '{"metadata": {"finalizers": ["example.test/hold"]}}')
    kubectl("delete", "configmap", "held", "-n", space, "--wait=false")
    kept = json.loads(kubectl("get", "configmap", "held", "-n", space, "-o", "json").stdout)["metadata"]
    assert kept["deletionTimestamp"]
    waited = kubectl("wait", "configmap/held", "-n", space, "--for=delete", "--timeout=1s", check=False)
    assert "timed out waiting for the condition" in waited.stderr
    kubectl("patch", "configmap", "held", "-n", space, "--type=json", "-p", REMOVE_FINALIZERS)
    kubectl("wait", "configmap/held", "-n", space, "--for=delete", "--timeout=30s")
    assert "NotFound" in kubectl("get", "configmap", "held", "-n", space, check=False).stderr


REMOVE_FINALIZERS = '[{"op": "remove", "path": "/metadata/finalizers"}]'


def test_workloads_are_scaled_restarted_and_deleted_with_their_pods(cluster: EmbeddedCluster, space: str) -> None:
    kubectl = cluster.kubectl
    kubectl("create", "deployment", "web", "-n", space, "--image=example.test/web:1", "--replicas=1")
    kubectl("scale", "deployment/web", "-n", space, "--replicas=2")
    kubectl("wait", "deployment/web", "-n", space, "--for=jsonpath={.status.readyReplicas}=2", "--timeout=60s")
    kubectl("rollout", "restart", "deployment/web", "-n", space)
    kubectl("rollout", "status", "deployment/web", "-n", space, "--timeout=60s")
    kubectl("set", "image", "deployment/web", "-n", space, "web=example.test/web:2")
    kubectl("rollout", "status", "deployment/web", "-n", space, "--timeout=60s")
    images = kubectl("get", "pods", "-n", space, "-o", "jsonpath={.items[*].spec.containers[*].image}").stdout
    assert set(images.split()) >= {"example.test/web:2"}
    kubectl("delete", "deployment/web", "-n", space, "--cascade=foreground")
    kubectl("wait", "pod", "-n", space, "-l", "app=web", "--for=delete", "--timeout=60s")
    assert kubectl("get", "replicasets,pods", "-n", space, "-o", "name").stdout == ""


def test_custom_kinds_are_defined_explained_and_listed(cluster: EmbeddedCluster, space: str) -> None:
    kubectl = cluster.kubectl
    kubectl("apply", "-f-", stdin=TEAM)
    kubectl("wait", "crd/teams.example.test", "--for=condition=Established", "--timeout=30s")
    kubectl("apply", "-n", space, "-f-", stdin=BLUE)
    header, row = kubectl("get", "tm", "-n", space).stdout.splitlines()
    assert (header.split(), row.split()) == (["NAME", "SIZE"], ["blue", "3"])
    assert "How many." in kubectl("explain", "teams.spec.size").stdout
    unknown = kubectl("apply", "-n", space, "-f-", stdin=f"{BLUE}colour: blue\n", check=False)
    assert 'unknown field "colour"' in unknown.stderr
    kubectl("delete", "crd", "teams.example.test")
    assert "teams" not in kubectl("api-resources", "-o", "name").stdout


def await_no_installation(cluster: EmbeddedCluster) -> None:
    """Wait until what another test has installed is gone: its namespace takes nothing new while its pods end."""
    cluster.kubectl("wait", "--for=delete", "namespace/haulout-system", "--timeout=90s", check=False)


def test_haulout_is_installed_there_as_anywhere(cluster: EmbeddedCluster) -> None:
    printed = subprocess.run([HAULOUT, "manifests"], check=True, capture_output=True, text=True).stdout
    kubectl = cluster.kubectl
    await_no_installation(cluster)
    made = kubectl("apply", "-f-", stdin=printed).stdout.splitlines()
    try:
        assert {line.rpartition(" ")[2] for line in made} == {"created"}
        assert {"service/haulout created", "service/haulout-webhook created", "deployment.apps/haulout created"} <= {
            *made
        }
        again = kubectl("apply", "-f-", stdin=printed).stdout.splitlines()
        # It leaves out what the server adds to the rules, which are not merged: kubectl sends those whenever it is asked, as
        # it does with the selector of a budget.
        assert [line.partition(".")[0] for line in again if not line.endswith(" unchanged")] == [
            "poddisruptionbudget",
            "mutatingwebhookconfiguration",
            "validatingwebhookconfiguration",
        ]
        ports = "jsonpath={.items[*].spec.ports[*].port}"
        assert kubectl("get", "svc", "-n", "haulout-system", "-o", ports).stdout.split() == ["8080", "443"]
    finally:
        # Its webhook would be asked, and is not there.
        kubectl("delete", "--ignore-not-found", "--wait=false", "-f-", stdin=printed)


def rolled(cluster: Cluster, names: list[str], directory: Path) -> dict[str, Any]:
    """Return what an operator with an ordinary kubeconfig has done to these nodes when nothing is left to do."""
    api = cluster.api()
    for name in names:
        api.create("nodes", {"metadata": {"name": name, "labels": {PROFILE: "roll", GO: "true"}}})
    with (
        sampled(cluster, f"{PROFILE}=roll") as seen,
        MaintenanceController(cluster, directory, roll_config(1)) as operator,
    ):
        eventually(lambda: all(seen.moves.get(name, [])[-3:] == AROUND for name in names), "all have been around")
        told = eventually(lambda: events(cluster, names, len(names) * len(AROUND)), "all events are there")
        assert operator.process.stop() == 0
    nodes = [api.get("nodes", name) for name in names]
    return {
        "moves": seen.moves,
        "at once": seen.most,
        "events": told,
        "labels": [{key: label_of(node, key) for key in (STATE, PROFILE, GO)} for node in nodes],
        "recorded": [sorted(entries_of(node)) for node in nodes],
    }


def events(cluster: Cluster, names: list[str], count: int) -> list[tuple[str, str, str, str]]:
    """Return object, type, reason and message of the events, once there are so many."""
    found = [event for event in cluster.api().items("events") if event["involvedObject"]["name"] in names]
    told = [(event["involvedObject"]["name"], event["type"], event["reason"], event["message"]) for event in found]
    return sorted(told) if len(told) >= count else []


AROUND = ["maintenance-required", "in-maintenance", "operational"]


@pytest.mark.tools("etcd", "kube-apiserver")
@pytest.mark.parametrize("words", [("apply",), ("apply", "--server-side"), ("create",), ("delete",)], ids=" ".join)
def test_kubectl_says_of_an_unknown_kind_what_it_says_of_it_to_a_real_cluster(
    cluster: EmbeddedCluster, plane: ControlPlane, words: tuple[str, ...]
) -> None:
    unknown = BLUE.replace("Team", "Nothing")
    embedded, real = (each.kubectl(*words, "-f-", stdin=unknown, check=False) for each in (cluster, plane))
    assert 'no matches for kind "Nothing" in version "example.test/v1"' in real.stderr
    assert (embedded.returncode, embedded.stdout, embedded.stderr) == (real.returncode, real.stdout, real.stderr)


@pytest.mark.tools("etcd", "kube-apiserver")
def test_an_operator_does_the_same_to_an_embedded_and_to_a_real_cluster(
    plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    names = [f"{prefix}-{number}" for number in range(6)]
    on_real = rolled(plane, names, tmp_path / "real")
    plane.wipe(prefix)
    with EmbeddedCluster(tmp_path / "embedded") as embedded:
        on_embedded = rolled(embedded, names, tmp_path / "operator")
    assert on_real["at once"] == 1
    assert on_embedded == on_real


def test_an_installation_leaves_the_cluster_usable_and_its_webhooks_reach_a_run_here(
    scratch: Scratch, tmp_path: Path
) -> None:
    def maintenance(name: str, node: str) -> str:
        body = {
            "apiVersion": "nodemaintenance.medik8s.io/v1beta1",
            "kind": "NodeMaintenance",
            "metadata": {"name": name},
            "spec": {"nodeName": node, "reason": "test"},
        }
        return json.dumps(body)

    def printed(*words: str) -> str:
        return subprocess.run([HAULOUT, *words], text=True, capture_output=True, check=True).stdout

    require_tools("kubectl")
    port = free_port()
    with EmbeddedCluster(scratch.directory("installed"), nodes=2) as cluster:
        cluster.kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=60s")
        cluster.kubectl("apply", "-f", "-", stdin=printed("manifests", "nodemaintenance", "--replicas=1"))
        cluster.kubectl("apply", "-f", "-", stdin=maintenance("unreviewed", "zone-a-01"))
        cluster.kubectl("delete", "nm", "unreviewed", "--wait=false")
        url = f"https://127.0.0.1:{port}"
        cluster.kubectl("apply", "-f", "-", stdin=printed("webhooks", "nodemaintenance", f"--url={url}"))
        settings = f'listen: {{http: "0", health: "0", webhooks: "127.0.0.1:{port}"}}\nnamespace: haulout-system\n'
        (tmp_path / "haulout.yaml").write_text(
            f"kubeconfig: {cluster.kubeconfig()}\n{settings}surfaces: {{nodemaintenance: {{}}}}\n"
        )
        with Process("run", [HAULOUT, "run"], tmp_path, env=environment(), cwd=tmp_path):
            eventually(lambda: refusal(cluster, maintenance("ghost", "nosuch")), "the webhook refuses an unknown node")
            cluster.kubectl("apply", "-f", "-", stdin=maintenance("known", "zone-a-01"))


def refusal(cluster: EmbeddedCluster, manifest: str) -> bool:
    """Whether the webhook has refused the object itself, rather than not having been reached."""
    done = cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=manifest, check=False)
    return "no node with name nosuch found" in done.stderr


def test_manifests_are_applied_by_the_server(cluster: EmbeddedCluster) -> None:
    """`kubectl apply --server-side` of our own manifests: anew, changed, in conflict with another client, and forced."""
    place = ("-n", "haulout-system")

    def manifests(image: str) -> str:
        return subprocess.run(
            [HAULOUT, "manifests", "--image", image], check=True, capture_output=True, text=True
        ).stdout

    def apply(image: str, *flags: str) -> subprocess.CompletedProcess[str]:
        return cluster.kubectl("apply", "--server-side", *flags, "-f-", stdin=manifests(image), check=False)

    def image() -> str:
        path = "jsonpath={.spec.template.spec.containers[0].image}"
        return cluster.kubectl("get", *place, "deployment", "haulout", "-o", path).stdout

    await_no_installation(cluster)
    try:
        for name in ("reg.test/haulout:1", "reg.test/haulout:2"):
            assert apply(name).returncode == 0
            assert image() == name
        cluster.kubectl("set", "image", *place, "deployment/haulout", "*=reg.test/haulout:9")
        refused = apply("reg.test/haulout:3")
        place_of_it = '.spec.template.spec.containers[name="haulout"].image'
        assert f'1 conflict: conflict with "kubectl-set" using apps/v1: {place_of_it}' in refused.stderr
        assert (refused.returncode, image()) == (1, "reg.test/haulout:9")
        assert apply("reg.test/haulout:3", "--force-conflicts").returncode == 0
        assert image() == "reg.test/haulout:3"
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-f-", stdin=manifests("reg.test/haulout:3"))


def test_kubectl_goes_over_to_server_side_apply(cluster: EmbeddedCluster, space: str) -> None:
    def apply(text: str, *flags: str) -> None:
        cluster.kubectl("apply", "-n", space, *flags, "-f-", stdin=text)

    apply(WEB)
    apply(WEB, "--server-side")
    apply(WEB.replace("replicas: 3", "replicas: 5"), "--server-side")
    found = json.loads(
        cluster.kubectl("get", "deployment", "-n", space, "web", "-o", "json", "--show-managed-fields").stdout
    )
    assert found["spec"]["replicas"] == 5
    managers = {(each["manager"], each["operation"]) for each in found["metadata"]["managedFields"]}
    assert ("kubectl", "Apply") in managers
    assert ("kubectl-client-side-apply", "Update") not in managers
