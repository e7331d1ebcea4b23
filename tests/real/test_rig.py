"""The test equipment itself: each piece does on a real API server what other tests rely on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.rig import process as rig
from tests.rig.api import DEPLOYMENTS, LEASES, PDBS, Api, ApiError, Json, path_of
from tests.rig.audit import AuditLog
from tests.rig.fleet import KWOK_NODE, fleet, node_object
from tests.rig.kwok import Kwok
from tests.rig.operator import HAULOUT
from tests.rig.plane import ControlPlane
from tests.rig.process import CHECKOUT, Process, Scratch, free_port
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl")


def config_map(name: str, **data: str) -> Json:
    return {"metadata": {"name": name}, "data": data}


def test_control_plane_restarts_on_its_storage_without_history(scratch: Scratch) -> None:
    with ControlPlane(scratch.directory("restarted")) as plane:
        api, path = plane.api(), "/api/v1/namespaces/default/configmaps"
        for name in ("a", "b"):
            api.create("configmaps", config_map(name), "default")
        first = api.request("GET", path, query={"limit": "1"})["metadata"]
        api.create("configmaps", config_map("c"), "default")
        plane.forget_history()
        assert api.get("configmaps", "a", "default")
        with pytest.raises(ApiError, match="410 Expired"):
            api.request("GET", path, query={"limit": "1", "continue": first["continue"]})
        with api.watch("configmaps", "default", resourceVersion=first["resourceVersion"]) as watch:
            assert [(event["type"], event["object"]["code"]) for event in watch.take(1)] == [("ERROR", 410)]
    assert not plane.apiserver.running
    assert not plane.etcd.process.running


def test_kubectl_uses_the_token_of_the_user(plane: ControlPlane) -> None:
    whoami = plane.kubectl("auth", "whoami", "-o", "json", user="operator").stdout
    assert json.loads(whoami)["status"]["userInfo"]["username"] == "operator"


def test_limited_user_may_do_what_its_rules_say_and_no_more(plane: ControlPlane, namespace: str) -> None:
    user = plane.limited_user([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}], ns=namespace)
    assert eventually(lambda: plane.api(user).items("configmaps", namespace) == [], "allowed", refused=(ApiError,))
    with pytest.raises(ApiError, match="403 Forbidden"):
        plane.api(user).items("nodes")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        pytest.param("process.Process", ["sleep", "600"], id="any program"),
        pytest.param("warm.WarmProcess", [str(HAULOUT), "cluster", "--kubeconfig=k"], id="forked"),
    ],
)
def test_processes_end_with_a_test_run_that_is_killed(tmp_path: Path, kind: str, words: list[str]) -> None:
    code = (
        "import sys, time, pathlib\n"
        "from tests.rig import process, warm\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        f"child = {kind}('child', {words}, folder, cwd=folder).start()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        child = Path("/proc") / run.stdout.readline().decode().strip()
        eventually((tmp_path / "child.log").exists, "the child runs")
        run.kill()
    eventually(lambda: not child.exists(), "the child is gone")


def test_no_port_is_given_to_two_test_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even while no process listens on any of them."""
    few = range(32000, 32256)
    monkeypatch.setattr(rig, "PORTS", few)
    code = (
        "from tests.rig import process\n"
        f"process.PORTS = {few}\n"
        "print(*(process.free_port() for _ in range(48)), flush=True)\n"
        "input()\n"
    )
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        theirs = [int(word) for word in other.stdout.readline().split()]
        ours = [free_port() for _ in range(48)]
        other.kill()
    assert len({*theirs, *ours}) == 96


def test_process_can_be_frozen_thawed_and_stopped(tmp_path: Path) -> None:
    def state() -> str:
        return (Path("/proc") / str(process.pid) / "stat").read_text().rpartition(")")[2].split()[0]

    process = Process("sleeper", ["sleep", "600"], tmp_path).start()
    eventually(lambda: state() == "S", "asleep")
    process.freeze()
    eventually(lambda: state() == "T", "frozen")
    assert process.stop() == -signal.SIGTERM


def test_loaded_objects_are_seen_by_lists_and_watches(plane: ControlPlane, namespace: str) -> None:
    version = plane.api().request("GET", "/api/v1/nodes", query={"limit": "1"})["metadata"]["resourceVersion"]
    with plane.api().watch("nodes", resourceVersion=version) as watch:
        assert plane.load(fleet(namespace, 30, ns=namespace, pods_per_node=3)) == 120
        names = {event["object"]["metadata"]["name"] for event in watch.take(30)}
    nodes = [node for node in plane.api().items("nodes") if node["metadata"]["name"].startswith(namespace)]
    pods = plane.api().items("pods", namespace)
    assert names == {node["metadata"]["name"] for node in nodes}
    assert len(pods) == 90
    assert 8_000 < len(json.dumps(nodes[0], separators=(",", ":"))) < 10_000
    assert 7_000 < len(json.dumps(pods[0], separators=(",", ":"))) < 9_000


def test_objects_loaded_before_the_start_are_served(scratch: Scratch) -> None:
    plane = ControlPlane(scratch.directory("preloaded"))
    plane.etcd.start()
    try:
        plane.load(fleet("early", 500, pods_per_node=1))
        plane.start_apiserver()
        assert len(plane.api().items("nodes")) == 500
        assert len(plane.api().items("pods", "default")) == 500
    finally:
        plane.stop()


def test_wipe_removes_what_has_the_prefix_and_nothing_else(plane: ControlPlane, prefix: str) -> None:
    plane.load([node_object(f"{prefix}-a"), node_object(f"not-{prefix}")])
    plane.wipe(prefix)
    names = {node["metadata"]["name"] for node in plane.api().items("nodes")}
    assert f"{prefix}-a" not in names
    assert f"not-{prefix}" in names
    plane.wipe(f"not-{prefix}")


class TestAudit:
    def test_counts_what_was_sent_and_by_whom(self, plane: ControlPlane, namespace: str) -> None:
        operator, before = plane.api("operator"), plane.audit.mark()
        for name in ("a", "b", "c"):
            operator.create("configmaps", config_map(name), namespace)
        operator.items("configmaps", namespace)
        operator.patch("configmaps", "a", {"data": {"x": "1"}}, namespace)
        operator.find("configmaps", "missing", namespace)
        operator.watch("configmaps", namespace).close()
        plane.api("test").delete("configmaps", "b", namespace)
        assert plane.audit.counts(since=before, user="operator") == {
            "create configmaps": 3,
            "list configmaps": 1,
            "patch configmaps": 1,
            "get configmaps": 1,
            "watch configmaps": 1,
        }
        assert plane.audit.counts(since=before, user="test") == {"delete configmaps": 1}

    def test_entries_name_the_object_and_the_code(self, plane: ControlPlane, namespace: str) -> None:
        before = plane.audit.mark()
        plane.api("operator").find("pods", "missing", namespace)
        (entry,) = plane.audit.entries(since=before, user="operator")
        assert (entry.act, entry.of, entry.code, entry.writes) == ("get pods", f"{namespace}/missing", 404, False)

    def test_watch_that_is_still_open_counts(self, plane: ControlPlane, namespace: str) -> None:
        before = plane.audit.mark()
        with plane.api("operator").watch("pods", namespace):
            assert plane.audit.counts(since=before, user="operator") == {"watch pods": 1}
        assert plane.audit.counts(since=before, user="operator") == {"watch pods": 1}

    def test_a_write_whose_effect_is_seen_before_its_answer_is_waited_for(self, tmp_path: Path) -> None:
        log = tmp_path / "audit.jsonl"

        def write(stage: str, name: str) -> None:
            at = datetime.now(UTC).isoformat()
            body = {"auditID": name, "stage": stage, "verb": "create", "user": {}, "requestURI": "/"}
            with log.open("a") as file:
                file.write(json.dumps({**body, "objectRef": {"name": name}, "requestReceivedTimestamp": at}) + "\n")

        answers = threading.Timer(0.2, write, ("ResponseComplete", "slow"))

        def leave_mark(word: str) -> None:
            write("ResponseComplete", word)
            answers.start()

        write("RequestReceived", "slow")
        (entry,) = AuditLog(log, leave_mark).entries()
        answers.join()
        assert (entry.name, entry.writes) == ("slow", True)

    def test_uncordon_can_be_told_from_a_label(self, plane: ControlPlane, namespace: str) -> None:
        plane.load([node_object(f"{namespace}-a", unschedulable=True)])
        before = plane.audit.mark()
        plane.api("operator").patch("nodes", f"{namespace}-a", {"metadata": {"labels": {"x": "y"}}})
        plane.api("operator").patch("nodes", f"{namespace}-a", {"spec": {"unschedulable": None}})
        label, uncordon = plane.audit.entries(since=before, user="operator")
        assert label.body == {"metadata": {"labels": {"x": "y"}}}
        assert uncordon.body == {"spec": {"unschedulable": None}}

    def test_health_checks_are_left_out(self, plane: ControlPlane) -> None:
        before = plane.audit.mark()
        plane.api("operator").request("GET", "/readyz")
        assert not plane.audit.counts(since=before, user="operator")


@pytest.mark.tools("kwok")
class TestKwok:
    def test_pods_run_and_stop_after_their_grace(self, kwok: Kwok, namespace: str) -> None:
        api = kwok.plane.api()
        nodes = kwok.nodes(f"{namespace}-n", 3)
        (pod, *others) = kwok.pods(namespace, nodes, 2, grace=3)
        assert all(body["status"]["phase"] == "Running" for body in api.items("pods", namespace))
        going = api.request("DELETE", path_of("pods", pod, namespace))
        ends_at = datetime.fromisoformat(going["metadata"]["deletionTimestamp"])
        eventually(lambda: api.find("pods", pod, namespace) is None, "pod gone")
        assert datetime.now(UTC) >= ends_at
        assert sorted(body["metadata"]["name"] for body in api.items("pods", namespace)) == sorted(others)

    def test_pod_may_stop_before_its_grace_is_over(self, kwok: Kwok, namespace: str) -> None:
        api = kwok.plane.api()
        (pod,) = kwok.pods(namespace, kwok.nodes(f"{namespace}-n", 1), 1, grace=3600, stops_after="0s")
        api.delete("pods", pod, namespace)
        eventually(lambda: api.find("pods", pod, namespace) is None, "pod gone")

    def test_node_made_through_the_api_becomes_ready_and_loses_the_first_taint(
        self, kwok: Kwok, namespace: str
    ) -> None:
        api, own = kwok.plane.api(), {"key": "own", "value": "x", "effect": "NoSchedule"}
        name = f"{namespace}-a"
        api.create("nodes", {"metadata": {"name": name, "annotations": KWOK_NODE}, "spec": {"taints": [own]}})
        eventually(lambda: api.get("nodes", name)["spec"]["taints"] == [own], "only its own taint is left")
        assert ready_status(api.get("nodes", name)) == "True"

    def test_condition_that_a_test_wrote_survives_heartbeats(self, scratch: Scratch) -> None:
        with ControlPlane(scratch.directory("heartbeats")) as plane, Kwok(plane, heartbeat=2, leases=40) as kwok:
            api = plane.api()
            (name,) = kwok.nodes("n", 1)
            not_ready = {"type": "Ready", "status": "False", "reason": "Test"}
            api.patch("nodes", name, {"status": {"conditions": [not_ready]}}, sub="status", kind="strategic")
            at = heartbeat_of(api.get("nodes", name))
            eventually(lambda: heartbeat_of(api.get("nodes", name)) > at, "a heartbeat since")
            assert ready_status(api.get("nodes", name)) == "False"
            lease = eventually(lambda: api.find(LEASES, name, "kube-node-lease"), "a lease")
            assert lease["spec"]["leaseDurationSeconds"] == 40


def ready_status(node: Json) -> str:
    (status,) = (entry["status"] for entry in node["status"]["conditions"] if entry["type"] == "Ready")
    return str(status)


def heartbeat_of(node: Json) -> str:
    return str(max(entry["lastHeartbeatTime"] or "" for entry in node["status"]["conditions"]))


@pytest.mark.tools("kwok", "kube-controller-manager", "kube-scheduler")
class TestManagedPlane:
    def test_deployment_gets_its_pods_running(self, managed_kwok: Kwok, managed_namespace: str) -> None:
        ns, api = managed_namespace, managed_kwok.plane.api()
        deploy(managed_kwok, ns, replicas=2)
        assert len(api.items("pods", ns, fieldSelector="status.phase=Running")) == 2

    def test_eviction_is_refused_by_a_budget_and_allowed_without(
        self, managed_kwok: Kwok, managed_namespace: str
    ) -> None:
        ns, api = managed_namespace, managed_kwok.plane.api()
        deploy(managed_kwok, ns, replicas=2)
        budget = {"metadata": {"name": "all"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": ns}}}}
        api.create(PDBS, budget, ns)
        eventually(lambda: api.get(PDBS, "all", ns)["status"].get("currentHealthy") == 2, "budget counted")
        pod = api.items("pods", ns)[0]["metadata"]["name"]
        with pytest.raises(ApiError, match="429 TooManyRequests"):
            api.evict(pod, ns)
        api.delete(PDBS, "all", ns)
        eventually(lambda: evicted(api, pod, ns), "evicted")
        eventually(lambda: api.find("pods", pod, ns) is None, "stopped")


def evicted(api: Api, pod: str, ns: str) -> bool:
    try:
        api.evict(pod, ns, grace=0)
    except ApiError as error:
        if error.code == 429:
            return False
        raise
    return True


def deploy(kwok: Kwok, ns: str, *, replicas: int) -> None:
    kwok.nodes(f"{ns}-n", 2)
    labels = {"app": ns}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "registry.test/x"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    kwok.plane.api().create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}, ns)

    def ready() -> bool:
        return bool(kwok.plane.api().get(DEPLOYMENTS, "web", ns)["status"].get("readyReplicas") == replicas)

    eventually(ready, f"{replicas} pods ready")
