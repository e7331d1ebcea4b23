"""`haulout explain` and `haulout bundle` as a person runs them, while the operator drains a node."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from haulout.embedded import DISRUPTION_BUDGETS, EVENTS, PODS, Json
from tests.build.maintenances import LEASES, MAINTENANCES, definition
from tests.build.served import HAULOUT, PATIENCE, Served
from tests.build.workloads import budget, node, pod

SETTINGS = """
# password: in-a-comment
listen: {http: "0", health: "0", webhooks: "0"}
leader: {elect: false}
surfaces: {nodemaintenance: {}}
"""
MAP = {"maintenance.yaml": "notify: {hook: https://hooks.slack.com/services/T0/B0/x, channel: c}\n", "blob": "{{"}
HOOKED = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "worker-0.1"},
    "involvedObject": {"kind": "Machine", "namespace": "default", "name": "worker-0"},
    "reason": "PreDrainHookAdded",
}
ACT = "raise maxUnavailable of PodDisruptionBudget default/shop (now 0)"


def maintenance(name: str, of: str) -> Json:
    return {
        "apiVersion": "nodemaintenance.medik8s.io/v1beta1",
        "kind": "NodeMaintenance",
        "metadata": {"name": name},
        "spec": {"nodeName": of, "reason": "new disk"},
    }


def machine(name: str, **labels: str) -> Json:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "Machine",
        "metadata": {
            "name": name,
            "labels": {
                f"runtime-extension-maintenance-controller.cloud.sap/{key}": text for key, text in labels.items()
            },
        },
    }


def own_pod() -> Json:
    made = pod("haulout-0", nodeName="s2", volumes=[{"name": "config", "configMap": {"name": "haulout"}}])
    made["metadata"]["labels"] = {"app.kubernetes.io/name": "haulout"}
    made["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "in-a-variable"}]
    return made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The operator runs, and its drain of one node is kept by a budget."""
    with Served(tmp_path_factory.mktemp("support")) as made:
        made.has_leader()
        (made.folder / "haulout.yaml").write_text(SETTINGS)
        made.make(definition(), definition("Machine", "cluster.x-k8s.io", "v1beta1", namespaced=True))
        made.make(
            machine("worker-0", enabled="true"), machine("misspelt", enabled="True"), machine("of-others"), HOOKED
        )
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "haulout"}, "data": MAP}
        made.make(node("s2"), config, own_pod())
        made.add_busy_node("s1", "shop", 2, budget("shop", maxUnavailable=0))
        operator = made.start("run")
        try:
            made.make(maintenance("mend", "s1"))
            made.until(lambda: bool(status(made).get("blockedPods")))
            made.until(lambda: "BeginMaintenance" in told(made))
            yield made
        finally:
            end(operator)


def status(served: Served) -> Json:
    found = served.call(lambda world: world.server.get(MAINTENANCES, "", "mend"))
    assert found is not None
    result: Json = found.get("status", {})
    return result


def told(served: Served) -> set[str]:
    events = served.call(lambda world: world.server.list(EVENTS, "default"))
    return {event["reason"] for event in events}


def end(operator: subprocess.Popen[str]) -> None:
    operator.send_signal(signal.SIGTERM)
    operator.communicate(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("words", "first"),
    [
        pytest.param(["s1"], "node s1 (cordoned)", id="the node"),
        pytest.param(["node", "s1"], "node s1 (cordoned)", id="the node by its kind"),
        pytest.param(["nm", "mend"], "nodemaintenance mend of node s1 (cordoned)", id="the maintenance"),
        pytest.param(["nm/mend"], "nodemaintenance mend of node s1 (cordoned)", id="in one word"),
    ],
)
def test_explain_names_the_root_and_the_act(served: Served, words: list[str], first: str) -> None:
    done = served.run("explain", *words)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == first
    assert "  NodeMaintenance mend is Running (new disk)" in lines
    assert lines[-3:-1] == ["what would help:", f"  {ACT}"]


def test_explain_what_is_not_there(served: Served) -> None:
    done = served.run("explain", "nm", "ghost")
    assert (done.returncode, done.stderr) == (1, "Error: there is no NodeMaintenance named ghost\n")
    done = served.run("explain", "pods", "x")
    assert done.returncode == 2
    assert (
        "'pods' cannot be explained (there are: node, nodedisruptionbudget, nodemaintenance, nodemaintenanceset, machine, "
        in done.stderr
    )


class TestAsRuntimeExtensionMaintenanceController:
    NAME = "runtime-extension-maintenance-controller"

    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            pytest.param([], 1, "leader election needs a namespace", id="no namespace"),
            pytest.param(["--kubeconfig=absent"], 1, "kubeconfig cannot be read", id="no kubeconfig"),
            pytest.param(["--kubecontext=ghost"], 1, 'no context is called "ghost"', id="no such context"),
            pytest.param(["--metrics-bind-address=nowhere", "--leader-elect=false"], 1, "nowhere", id="no address"),
            pytest.param(["--nope"], 2, "flag provided but not defined: -nope\nUsage of", id="no such flag"),
            pytest.param(["--help"], 0, "Usage of runtime-extension-maintenance-controller:", id="help"),
        ],
    )
    def test_how_it_ends(self, served: Served, words: list[str], code: int, said: str) -> None:
        done = served.run("as", self.NAME, "--metrics-bind-address=0", *words)
        assert (done.returncode, done.stdout) == (code, "")
        assert said in done.stderr

    def test_by_its_own_name(self, served: Served) -> None:
        """As the original's chart starts it."""
        link = served.folder / self.NAME
        link.symlink_to(HAULOUT)
        done = subprocess.run([link, "-h"], text=True, capture_output=True, check=False, timeout=30)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.startswith(f"Usage of {self.NAME}:\n")

    def test_it_takes_the_originals_lease_and_gives_it_back(self, served: Served) -> None:
        process = served.start(
            "as", self.NAME, "--metrics-bind-address=0", "--leader-election-namespace=default", "ignored"
        )
        try:
            served.until(lambda: bool(self.lease(served).get("holderIdentity")))
            spec = self.lease(served)
        finally:
            end(process)
        assert (process.returncode, spec["leaseDurationSeconds"]) == (0, 15)
        assert not self.lease(served).get("holderIdentity")

    def lease(self, served: Served) -> Json:
        found = served.call(lambda world: world.server.get(LEASES, "default", self.NAME)) or {"spec": {}}
        spec: Json = found["spec"]
        return spec


def test_uncordon_names_the_maintenance(served: Served) -> None:
    done = served.run("uncordon", "s1", "--dry-run")
    assert done.stderr == (
        "Warning: node/s1: NodeMaintenance mend holds it and will cordon it again; to end it: kubectl delete nm mend\n"
    )


class TestBundle:
    @pytest.fixture(scope="class")
    @classmethod
    def archive(cls, served: Served) -> Path:
        path = served.folder / "case-7.tar.gz"
        done = served.run("bundle", "-n", "default", "-o", str(path))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{path}: ")
        assert "nodes looked at closely: s1\n" in done.stdout
        return path

    @pytest.fixture(scope="class")
    @classmethod
    def files(cls, archive: Path) -> dict[str, str]:
        with tarfile.open(archive) as opened:
            members = [(member.name, opened.extractfile(member)) for member in opened.getmembers()]
            return {name.removeprefix("case-7/"): file.read().decode() for name, file in members if file is not None}

    def test_is_for_its_owner_alone(self, archive: Path) -> None:
        assert stat.S_IMODE(archive.stat().st_mode) == 0o600

    @pytest.mark.parametrize(
        "start",
        [
            "version",
            "versions.json",
            "not-collected.txt",
            "cluster-scoped-resources/core/nodes/s1.json",
            "cluster-scoped-resources/core/nodes/s2.json",
            "cluster-scoped-resources/nodemaintenance.medik8s.io/nodemaintenances/mend.json",
            "cluster-scoped-resources/apiextensions.k8s.io/customresourcedefinitions/nodemaintenances.",
            "namespaces/default/core/pods/shop-",
            "namespaces/default/core/events.json",
            "namespaces/default/policy/poddisruptionbudgets/shop.json",
            "namespaces/medik8s-leases/coordination.k8s.io/leases/node-s1.json",
            "namespaces/kube-node-lease/coordination.k8s.io/leases/s1.json",
            "namespaces/default/cluster.x-k8s.io/machines/worker-0.json",
            "namespaces/default/cluster.x-k8s.io/machines/misspelt.json",
            "explain/s1.txt",
            "config/haulout.yaml",
            "config/default/haulout/maintenance.yaml",
        ],
    )
    def test_has(self, files: dict[str, str], start: str) -> None:
        assert any(name.startswith(start) for name in files), sorted(files)

    def test_machines_of_others_are_theirs(self, files: dict[str, str]) -> None:
        assert "namespaces/default/cluster.x-k8s.io/machines/of-others.json" not in files

    def test_versions(self, files: dict[str, str]) -> None:
        name, version, _ = files["version"].splitlines()
        assert name == "haulout"
        assert json.loads(files["versions.json"])["haulout"] == version.removeprefix("v")
        assert json.loads(files["versions.json"])["server"]["gitVersion"].startswith("v1.")

    def test_explanations_and_events(self, files: dict[str, str]) -> None:
        assert files["explain/s1.txt"].endswith(f"what would help:\n  {ACT}\nlook up: haulout help CODE [pdb-strict]\n")
        events = json.loads(files["namespaces/default/core/events.json"])["items"]
        assert {event["reason"] for event in events} >= {"BeginMaintenance", "PreDrainHookAdded"}

    def test_no_secrets(self, files: dict[str, str]) -> None:
        everything = "\n".join(files.values())
        assert all(secret not in everything for secret in ("in-a-comment", "in-a-variable", "hooks.slack.com"))
        assert "channel: c" in files["config/default/haulout/maintenance.yaml"]

    def test_says_what_could_not_be_read(self, files: dict[str, str]) -> None:
        said = files["not-collected.txt"].splitlines()
        assert "config/default/haulout/blob: it is no YAML, and may hold secrets" in said
        assert any(line.startswith("/api/v1/namespaces/default/pods/haulout-0/log: ") for line in said)


def test_a_bundle_of_nodes_by_name(served: Served) -> None:
    path = served.folder / "named.tar.gz"
    done = served.run("bundle", "s2", "-n", "default", "-o", str(path))
    assert "nodes looked at closely: s2\n" in done.stdout
    with tarfile.open(path) as opened:
        names = opened.getnames()
    assert "named/explain/s2.txt" in names
    assert "named/namespaces/default/core/pods/haulout-0.json" in names


def test_a_bundle_has_the_pods_of_other_nodes_that_a_budget_selects_by_expressions(tmp_path: Path) -> None:
    expressions = [{"key": "app", "operator": "In", "values": ["shop", "till"]}]
    pods = [pod("shop", nodeName="s1"), pod("till", nodeName="s2"), pod("other", nodeName="s2")]
    for each in pods:
        each["metadata"]["labels"] = {"app": each["metadata"]["name"]}
    with Served(tmp_path) as made:
        made.has_leader()
        made.make(node("s1"), node("s2"), *pods, budget("both", selector={"matchExpressions": expressions}))
        made.run("bundle", "s1", "-o", "b.tgz")
    with tarfile.open(tmp_path / "b.tgz") as opened:
        names = {Path(name).stem for name in opened.getnames() if "/core/pods/" in name}
    assert names == {"shop", "till"}


def test_a_bundle_of_a_node_that_is_not_there_is_an_error(served: Served) -> None:
    path = served.folder / "ghost.tar.gz"
    done = served.run("bundle", "s2", "ghost", "-n", "default", "-o", str(path))
    assert (done.returncode, done.stderr) == (1, "Error: there is no node named ghost; nothing was written\n")
    assert not path.exists()


def test_a_bundle_replaces_no_file_and_follows_no_link(served: Served, tmp_path: Path) -> None:
    (tmp_path / "there.tar.gz").write_text("mine")
    (tmp_path / "link.tar.gz").symlink_to(tmp_path / "target")
    for name in ("there", "link"):
        path = tmp_path / f"{name}.tar.gz"
        done = served.run("bundle", "s2", "-o", str(path))
        assert (done.returncode, done.stderr) == (1, f"Error: {path}: File exists\n")
    assert (tmp_path / "there.tar.gz").read_text() == "mine"
    assert not (tmp_path / "target").exists()


def test_pods_of_others_that_are_labelled_like_ours_are_not_read(served: Served) -> None:
    path = served.folder / "elsewhere.tar.gz"
    served.run("bundle", "s1", "-n", "elsewhere", "-o", str(path))
    with tarfile.open(path) as opened:
        names = opened.getnames()
    assert not [name for name in names if "haulout-0" in name or "config/default" in name]


def test_a_bundle_that_cannot_be_written(served: Served) -> None:
    done = served.run("bundle", "-o", "no/such/folder.tar.gz")
    assert (done.returncode, done.stderr) == (1, "Error: no/such/folder.tar.gz: No such file or directory\n")


def test_the_act_helps(served: Served) -> None:
    served.change(DISRUPTION_BUDGETS, "shop", {"spec": {"maxUnavailable": 2}})
    served.until(lambda: status(served).get("phase") == "Succeeded")
    done = served.run("explain", "nm", "mend")
    assert done.stdout.splitlines()[-2] == "  end it when the work is done: kubectl delete nm mend"


def test_explain_says_when_the_last_grace_period_ends(served: Served) -> None:
    """The pod keeps its finalizer to the end of the test, and the node with it."""
    served.make(node("s3"), pod("kept", nodeName="s3"))
    served.change(PODS, "kept", {"metadata": {"finalizers": ["example.com/keep"]}})
    served.make(maintenance("wait", "s3"))
    # The kubelet's last word brings the end forward.
    served.until(lambda: served.pods_on("s3")[0]["metadata"].get("deletionGracePeriodSeconds") == 0)
    (kept,) = served.pods_on("s3")
    for words in (["s3"], ["nm", "wait"]):
        assert "  the last grace period end" in served.run("explain", *words).stdout
        found = json.loads(served.run("explain", *words, "-o", "json").stdout)
        assert found["lastGraceEndsAt"] == kept["metadata"]["deletionTimestamp"]
