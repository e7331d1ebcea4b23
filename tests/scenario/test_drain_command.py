"""`haulout drain` and `haulout uncordon` as a person runs them, against the embedded cluster over HTTPS."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from haulout.base import yaml
from haulout.core.budgets.declare import SURFACE as SHARED
from haulout.core.logbook.wire import OPEN_LABEL
from haulout.core.pause import ANNOTATION
from haulout.embedded import DISRUPTION_BUDGETS, NODES, PODS, Json, Resource
from tests.build.maintenances import DEFINITIONS
from tests.build.served import PATIENCE, Served
from tests.build.workloads import budget, node, pod, replica_set, template


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served")) as made:
        yield made


RECORDS = Resource("haulout.dev", "v1alpha1", "maintenancerecords")
BUDGETS = Resource("haulout.dev", "v1alpha1", "nodedisruptionbudgets")


def is_cordoned(served: Served, name: str) -> bool:
    return bool(served.node(name)["spec"].get("unschedulable"))


def counted(served: Served, name: str) -> int:
    """Return how many healthy pods the controller has counted under a budget."""
    found = served.call(lambda world: world.server.get(DISRUPTION_BUDGETS, "default", name)) or {}
    return int(found.get("status", {}).get("currentHealthy", 0))


def interrupted(running: subprocess.Popen[str], *awaited: str) -> tuple[str, str, int]:
    """Interrupt a command when lines that begin so have been printed, in whatever order. Return both outputs and its code."""
    assert running.stdout is not None
    printed, missing = "", set(awaited)
    for line in iter(running.stdout.readline, ""):
        printed += line
        missing = {each for each in missing if not line.startswith(each)}
        if not missing:
            break
    running.send_signal(signal.SIGINT)
    rest, said = running.communicate(timeout=PATIENCE)
    assert not missing, said
    return printed + rest, said, running.returncode


def test_a_node_is_drained(served: Served) -> None:
    served.add_busy_node("d1", "free", 3)
    names = [f"default/{one['metadata']['name']}" for one in served.pods_on("d1")]
    done = served.run("drain", "d1")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "node/d1 cordoned"
    assert lines[-1] == "node/d1 drained"
    assert {f"evicting pod {name}" for name in names} < set(lines)
    assert {f"pod {name} gone" for name in names} < set(lines)
    assert served.pods_on("d1") == []
    assert "haulout.dev/cordon" not in served.node("d1")["metadata"].get("annotations", {})


def test_the_reason_stays_until_the_node_is_brought_back(served: Served) -> None:
    served.add_busy_node("r1", "reason", 1)
    assert served.run("drain", "r1", "--reason", "disk swap").returncode == 0
    assert served.node("r1")["metadata"]["annotations"]["haulout.dev/cordon-reason"] == "disk swap"
    assert "it was cordoned by hand: disk swap" in served.run("uncordon", "r1").stderr
    assert "haulout.dev/cordon-reason" not in served.node("r1")["metadata"].get("annotations", {})


def test_a_drain_by_hand_warns_of_a_pause_and_goes_on(served: Served) -> None:
    served.call(lambda world: world.server.create(DEFINITIONS, yaml.load(SHARED.definition("nodedisruptionbudgets"))))
    for name, labels in (("p1", "paused"), ("p2", "other")):
        served.add_busy_node(name, labels, 1)
    spec = {"paused": {"reason": "outage", "by": "ada", "at": "2026-01-01T00:00:00Z"}}
    body = {
        "apiVersion": "haulout.dev/v1alpha1",
        "kind": "NodeDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": spec,
    }
    served.call(lambda world: world.server.create(BUDGETS, body))
    served.call(lambda world: world.server.patch(NODES, "", "p1", {"metadata": {"annotations": {ANNOTATION: "disk"}}}))
    done = served.run("drain", "p1")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "node/p1 drained")
    assert "Warning: Node p1 is paused: disk. A drain by hand goes on" in done.stderr
    assert "Warning: NodeDisruptionBudget all is paused by ada since 2026-01-01 00:00 UTC: outage" in done.stderr
    served.call(lambda world: world.server.delete(BUDGETS, "", "all"))
    assert served.run("drain", "p2").stderr == ""


def serve_records(served: Served) -> None:
    name, definition = "maintenancerecords.haulout.dev", yaml.load(SHARED.definition("maintenancerecords"))
    served.call(lambda world: world.server.get(DEFINITIONS, "", name) or world.server.create(DEFINITIONS, definition))


def records_of(served: Served, node: str) -> list[Json]:
    found = served.call(lambda world: world.server.list(RECORDS))
    return [each for each in found if each["spec"]["node"]["name"] == node]


def test_each_drain_leaves_one_record_until_the_node_is_brought_back(served: Served) -> None:
    serve_records(served)
    served.add_busy_node("l1", "logged", 1)
    for _ in range(2):
        assert served.run("drain", "l1", "--reason", "disk swap").returncode == 0
    (record,) = records_of(served, "l1")
    assert (record["spec"]["surface"], record["spec"]["reason"]) == ("byhand", "disk swap")
    assert record["metadata"]["labels"][OPEN_LABEL] == "true"
    status = record["status"]
    assert ([each["name"] for each in status["phases"]], "outcome" in status) == (["begun", "drained"], False)
    assert status["drain"] == {"evicted": 1, "deleted": 0, "ignored": 0}
    assert served.run("uncordon", "l1").returncode == 0
    (record,) = records_of(served, "l1")
    assert (record["status"]["outcome"], OPEN_LABEL in record["metadata"]["labels"]) == ("Completed", False)
    assert [each["name"] for each in record["status"]["phases"]] == ["begun", "drained", "ended"]


def test_a_drain_that_timed_out_has_failed_until_another_one_succeeds(served: Served) -> None:
    serve_records(served)
    served.add_busy_node("l2", "stays", 1)
    served.make(budget("stays", maxUnavailable=0))
    assert served.run("drain", "l2", "--timeout", "1s").returncode == 4
    (record,) = records_of(served, "l2")
    assert (record["status"]["outcome"], record["status"]["error"][:9]) == ("Failed", "timed out")
    assert served.run("uncordon", "l2").returncode == 0
    (record,) = records_of(served, "l2")
    assert (record["status"]["outcome"], OPEN_LABEL in record["metadata"]["labels"]) == ("Failed", False)


def test_a_drain_for_a_reason_warns_where_nothing_records_it(served: Served) -> None:
    serve_records(served)
    served.call(lambda world: world.server.delete(DEFINITIONS, "", "maintenancerecords.haulout.dev"))
    served.add_busy_node("l3", "unlogged", 1)
    done = served.run("drain", "l3", "--reason", "disk swap")
    assert done.returncode == 0
    assert done.stderr.startswith("Warning: the drain is not recorded: there is no logbook:")


def test_on_a_terminal_there_is_a_bar_for_each_node(served: Served) -> None:
    served.add_busy_node("t1", "drawn", 2)
    code, drawn = served.run_on_terminal("drain", "t1")
    assert code == 0
    assert "━" in drawn
    assert "drained, 2 pods gone" in drawn
    assert "1 of 1 nodes drained" in drawn
    assert "evicting pod" not in drawn


def test_several_nodes_keep_to_one_budget(served: Served) -> None:
    pool = {"pool": "paced"}
    served.make(node("d2", pool="paced", tier="old"), node("d3", pool="paced", tier="old"))
    served.make(
        replica_set("paced", 4, template("paced", notes={"stops-after": "500ms"}, nodeSelector=pool)),
        budget("paced", maxUnavailable=1),
    )
    served.until(lambda: len(served.pods_on("d2")) == len(served.pods_on("d3")) == 2)
    served.until(lambda: counted(served, "paced") == 4)
    served.make(node("d4", pool="paced"))
    healthy: list[int] = []
    watch = lambda change: healthy.append(change.object["status"].get("currentHealthy", 4))  # noqa: E731
    served.call(lambda world: world.server.subscribe(DISRUPTION_BUDGETS, watch))
    done = served.run("drain", "-l", "tier=old", "-o", "json")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert (told["outcome"], told["exitCode"], told["causes"]) == ("done", 0, [])
    assert [(one["name"], one["total"], len(one["gone"])) for one in told["nodes"]] == [("d2", 2, 2), ("d3", 2, 2)]
    assert "node/d2 cordoned" in done.stderr
    assert len(served.pods_on("d4")) == 4
    assert min(healthy) == 3


def test_pods_that_must_not_be_evicted_block_the_drain(served: Served) -> None:
    served.make(node("d5"), pod("lone", nodeName="d5"))
    refused = served.run("drain", "d5")
    assert refused.returncode == 3
    why = "cannot delete cannot delete Pods that declare no controller (use --force to override): default/lone"
    assert f"node/d5 blocked: {why}" in refused.stdout
    assert refused.stderr.splitlines()[0].startswith("blocked after ")
    assert refused.stderr.splitlines()[-1] == "to undo: haulout uncordon d5"
    assert len(served.pods_on("d5")) == 1
    forced = served.run("drain", "d5", "--force=true")
    assert forced.returncode == 0
    assert forced.stdout.splitlines()[0] == "node/d5 already cordoned"
    assert "Warning: deleting Pods that declare no controller: default/lone" in forced.stdout


class Shut(msgspec.Struct, frozen=True):
    """A node of its own with two pods behind a closed budget."""

    served: Served
    node: str
    app: str

    @property
    def act(self) -> str:
        return f"raise maxUnavailable of PodDisruptionBudget default/{self.app} (now 0)"


numbers = itertools.count()


@pytest.fixture
def shut(served: Served) -> Shut:
    made = Shut(served, f"closed-{(number := next(numbers))}", f"shut{number}")
    served.add_busy_node(made.node, made.app, 2, budget(made.app, maxUnavailable=0))

    served.until(lambda: counted(served, made.app) == 2)
    return made


class TestBehindAClosedBudget:
    def test_a_dry_run_touches_nothing_and_tells(self, shut: Shut) -> None:
        done = shut.served.run("drain", shut.node, "--dry-run=server")
        assert done.returncode == 3
        lines = done.stdout.splitlines()
        assert lines[0] == f"node/{shut.node} would be cordoned"
        assert [line.split("-")[0] for line in lines[1:3]] == [f"  would not evict pod default/{shut.app}"] * 2
        assert lines[-1] == f"  to go on: {shut.act}"
        assert not is_cordoned(shut.served, shut.node)

    def test_time_runs_out(self, shut: Shut) -> None:
        done = shut.served.run("drain", shut.node, "--timeout", "1s", "-o", "json")
        assert done.returncode == 4
        told = json.loads(done.stdout)
        assert (told["outcome"], told["exitCode"], told["nodes"][0]["outcome"]) == ("timed-out", 4, "timed-out")
        assert len(told["nodes"][0]["notEvicted"]) == 2

    def test_nobody_waits(self, shut: Shut) -> None:
        done = shut.served.run("drain", shut.node, "--no-wait", "-o", "json")
        assert done.returncode == 3
        causes = json.loads(done.stdout)["causes"]
        assert [(cause["code"], cause["act"]) for cause in causes] == [("pdb-blocks", shut.act)]
        assert f"    to go on: {shut.act}" in done.stderr.splitlines()
        assert done.stderr.splitlines()[-1] == f"to undo: haulout uncordon {shut.node}"

    def test_interrupted_it_says_what_stands(self, shut: Shut) -> None:
        also = f"also-{shut.app}"
        shut.served.make(pod(also, nodeName=shut.node))
        # What the cluster knows already, the command may not have heard of.
        running = shut.served.start("drain", shut.node, "--force")
        _, told, code = interrupted(running, "waiting:", f"pod default/{also} gone")
        said = told.splitlines()
        assert code == 130
        assert said[0].startswith("interrupted after ")
        assert said[1] == f"  node/{shut.node}: cordoned; 1 of 3 pods gone, 2 not evicted"
        assert said[2] == f"    gone: default/{also}"
        assert said[3].startswith(f"    not evicted: default/{shut.app}-")
        assert said[-1] == f"to undo: haulout uncordon {shut.node}"

    def test_budgets_do_not_count_where_eviction_is_disabled(self, shut: Shut) -> None:
        done = shut.served.run("drain", shut.node, "--disable-eviction", "--grace-period=0")
        assert done.returncode == 0
        assert f"deleting pod default/{shut.app}-" in done.stdout
        assert shut.served.pods_on(shut.node) == []


def test_a_pod_with_a_finalizer_is_told_of_with_the_end_of_its_grace_period(served: Served) -> None:
    served.make(node("d7"), pod("kept", nodeName="d7"))
    served.change(PODS, "kept", {"metadata": {"finalizers": ["example.com/keep"]}})
    printed, said, code = interrupted(served.start("drain", "d7", "--force"), "  to go on: remove finalizer ")
    assert code == 130
    assert re.search(r"^node/d7: the last grace period ends \d\d:\d\d:\d\d UTC$", printed, re.MULTILINE)
    assert "    terminating: default/kept" in said.splitlines()
    assert "remove finalizer example.com/keep from pod default/kept" in said
    # The kubelet's last word brings the end forward.
    served.until(lambda: served.pods_on("d7")[0]["metadata"].get("deletionGracePeriodSeconds") == 0)
    done = served.run("drain", "d7", "--force", "--timeout=1s", "-o", "json")
    (kept,) = served.pods_on("d7")
    assert done.returncode == 4
    assert json.loads(done.stdout)["nodes"][0]["lastGraceEndsAt"] == kept["metadata"]["deletionTimestamp"]
    served.change(PODS, "kept", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("command", ["drain", "uncordon"])
def test_a_node_that_is_not_there(served: Served, command: str) -> None:
    served.make(node(f"here-{command}"))
    done = served.run(command, f"here-{command}", "ghost", "spook")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: there is no node named ghost, spook; nothing was done\n"
    assert not is_cordoned(served, f"here-{command}")


def test_a_failure_is_a_document_too(served: Served) -> None:
    done = served.run("drain", "-l", "tier=none", "-o", "json")
    assert (done.returncode, done.stderr) == (1, "Error: no node has these labels\n")
    told = json.loads(done.stdout)
    assert (told["outcome"], told["exitCode"], told["error"]) == ("failed", 1, "no node has these labels")


def test_a_cluster_that_goes_away_is_told_of(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.add_busy_node("n", "shut", 1, budget("shut", maxUnavailable=0))
        running = served.start("drain", "n")
        assert running.stdout is not None
        assert running.stderr is not None
        assert any(line.startswith("waiting: ") for line in iter(running.stdout.readline, ""))
    assert running.stderr.readline().startswith("Warning: the watch of the cluster is interrupted: ")
    running.send_signal(signal.SIGINT)
    said = running.stderr.read()
    assert running.wait(PATIENCE) == 130
    running.stdout.close()
    running.stderr.close()
    assert said.endswith("to undo: haulout uncordon n\n")


def test_a_cluster_that_is_not_there(served: Served) -> None:
    broken = served.folder / "broken"
    text = (served.folder / "kubeconfig").read_text()
    broken.write_text(text.replace(f":{served.world.face.url.rsplit(':', 1)[1]}", ":1"))
    done = served.run("drain", "d1", "--kubeconfig", str(broken))
    assert done.returncode == 1
    assert "no connection: Connection refused" in done.stderr


def test_uncordon_says_who_holds_a_node_and_does_as_it_is_told(served: Served) -> None:
    served.make(node("u1"), node("u2"))
    labels = {"cloud.sap/maintenance-state": "in-maintenance"}
    notes = {"haulout.dev/cordon": '{"before":false,"by":["profiles"]}'}
    taint = {"key": "medik8s.io/drain", "effect": "NoSchedule"}
    served.change(
        NODES,
        "u2",
        {"metadata": {"annotations": notes, "labels": labels}, "spec": {"unschedulable": True, "taints": [taint]}},
    )
    assert served.run("uncordon", "u2", "--dry-run").stdout == "node/u2 would be uncordoned\n"
    done = served.run("uncordon", "u1", "u2")
    assert (done.returncode, done.stdout) == (0, "node/u1 already uncordoned\nnode/u2 uncordoned\n")
    assert done.stderr.splitlines() == [
        "Warning: node/u2: a maintenance profile is at work on it (label cloud.sap/maintenance-state=in-maintenance)",
        "Warning: node/u2: a NodeMaintenance holds it (taint medik8s.io/drain) and may cordon it again",
        "Warning: node/u2: profiles cordoned it (annotation haulout.dev/cordon)",
    ]
    assert not is_cordoned(served, "u2")
    assert served.node("u2")["metadata"]["annotations"]["haulout.dev/cordon"] == notes["haulout.dev/cordon"]
