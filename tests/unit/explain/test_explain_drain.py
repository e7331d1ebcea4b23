"""What `haulout explain` prints about a NodeMaintenance and its node during the drain."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from haulout.cluster.key import Key, node_key
from haulout.cluster.view import View
from haulout.core.decision import Decider, Decision
from haulout.core.declaration import Enabled
from haulout.core.holds import Claim, Want
from haulout.embedded import PODS
from haulout.explain.documents import as_json, explanation_document
from haulout.explain.node import Explanation, as_text, explain, explain_listed
from haulout.kernel.proofs import settle
from haulout.surfaces.nodemaintenance.declare import SURFACE
from haulout.surfaces.nodemaintenance.surface import NODEMAINTENANCE
from tests.build.drains import Drains
from tests.build.maintenances import MAINTENANCES, Maintenances, maintenance_key
from tests.build.workloads import World, budget, deployment, pod

CLOSED = "PodDisruptionBudget default/web: allows no evictions even with all 3 pods healthy (minAvailable: 3)"
ACT = "add a replica to Deployment default/web or lower minAvailable of PodDisruptionBudget default/web (now 3)"


KIND, *_ = SURFACE.explains
ASKED = (Enabled(NODEMAINTENANCE),)


def blocked() -> Maintenances:
    ops = Maintenances()
    ops.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
    return ops.run(30).make("a", "n0").run(3)


def of_maintenance(ops: Maintenances, name: str = "a") -> Explanation:
    found = explain_listed(ops.kernel, NODEMAINTENANCE, KIND, maintenance_key(name), ops.world.time.now())
    assert found is not None
    return found


def of_node(ops: Maintenances, name: str) -> Explanation:
    found = explain(ops.kernel, ASKED, node_key(name), ops.world.time.now())
    assert found is not None
    return found


def test_down_to_the_budget_and_to_the_one_act() -> None:
    ops = blocked()
    (pod,) = ops.pods("n0")
    lines = as_text(of_maintenance(ops), ops.world.time.now()).partition("\nlook up:")[0].splitlines()
    assert lines[0] == "nodemaintenance a of node n0 (cordoned)"
    assert lines[-7:] == [
        "  NodeMaintenance a is Running",
        f"    pod default/{pod}: PodDisruptionBudget default/web allows no disruption now",
        f"      {CLOSED}",
        "blocked by:",
        f"  {CLOSED}",
        "what would help:",
        f"  {ACT}",
    ]


def test_of_the_node_it_is_the_same() -> None:
    ops = blocked()
    lines = as_text(of_node(ops, "n0"), ops.world.time.now()).partition("\nlook up:")[0].splitlines()
    assert lines[0] == "node n0 (cordoned)"
    assert lines[-2:] == ["what would help:", f"  {ACT}"]


def test_json_has_the_act_at_its_root_and_on_top() -> None:
    told = json.loads(as_json(explanation_document(of_maintenance(blocked()))))
    assert (told["object"], told["node"], told["act"]) == ({"kind": "nodemaintenance", "name": "a"}, "n0", ACT)
    assert told["reasons"][0]["because"][0]["because"][0]["act"] == ACT


def test_who_has_the_turn() -> None:
    """Drained already, but another surface is at work on the node."""
    ops = Maintenances(None, None, Decider("other", "Node", _at_work), turns=True).make("a", "n0").run(30)
    lines = as_text(of_maintenance(ops), ops.world.time.now()).partition("\nlook up:")[0].splitlines()
    assert lines[-4:] == [
        "    waiting for its turn on node n0: other is working on the node",
        "      other is working on the node",
        "blocked by:",
        "  other is working on the node",
    ]


def test_a_maintenance_that_waits_for_nothing_is_no_cause() -> None:
    ops = Maintenances().make("a", "n0").begin()
    settle(ops.kernel, ops.world.time.now())
    lines = as_text(of_node(ops, "n0"), ops.world.time.now()).partition("\nlook up:")[0].splitlines()
    assert "  NodeMaintenance a is new" in lines
    assert "blocked by:" not in lines


def _at_work(key: Key, view: View, now: datetime) -> Decision:
    return Decision(claims=(Claim(key, key, frozenset({Want.EXCLUSIVE}), begun=True),))


def test_a_taint_whose_maintenance_is_gone() -> None:
    """A client removed the finalizer while the operator was down."""
    ops = Maintenances().make("a", "n0").run(5)
    ops.world.objects.patch(MAINTENANCES, "", "a", {"metadata": {"finalizers": None}})
    ops.delete("a")
    ops.begin().run(5)
    lines = as_text(of_node(ops, "n0"), ops.world.time.now()).partition("\nlook up:")[0].splitlines()
    assert lines[-2:] == [
        "what would help:",
        "  check that the work on it is over, then run: haulout let-go node/n0",
    ]
    ops.make("b", "n0").run(5).delete("b").run(5)
    assert (ops.marks("n0"), ops.lease("n0")) == ((False, [], None), None)


def lasting(world: World) -> World:
    """A node n0 with one pod that uses up its 30 s of grace."""
    world.make(pod("slow", nodeName="n0"))
    world.change(PODS, "slow", {"metadata": {"finalizers": ["example.com/f"]}})
    return world


def test_when_the_last_grace_period_ends() -> None:
    ops = Maintenances()
    lasting(ops.world)
    ops.run(30).make("a", "n0").run(5)
    ends_at = deletion_of(ops.world, "slow")
    for found in (of_maintenance(ops), of_node(ops, "n0")):
        assert json.loads(as_json(explanation_document(found)))["lastGraceEndsAt"] == f"{ends_at:%Y-%m-%dT%H:%M:%SZ}"
        assert (
            f"  the last grace period ends {ends_at:%Y-%m-%d %H:%M:%S} UTC (in 20 s)"
            in as_text(found, ends_at - timedelta(seconds=20)).partition("\nlook up:")[0].splitlines()
        )
        assert (
            f"  the last grace period ended {ends_at:%Y-%m-%d %H:%M:%S} UTC (1 min ago)"
            in as_text(found, ends_at + timedelta(minutes=1)).partition("\nlook up:")[0].splitlines()
        )


def test_no_end_is_known_while_a_budget_blocks() -> None:
    ops = blocked()
    lasting(ops.world)
    ops.run(5)
    assert [reason.code for reason in of_maintenance(ops).reasons[0].because] == ["finalizer", "pdb-blocks"]
    assert of_node(ops, "n0").last_grace_ends_at is None
    assert "lastGraceEndsAt" not in as_json(explanation_document(of_maintenance(ops)))
    assert "grace period" not in as_text(of_maintenance(ops), ops.now)


def test_when_the_last_grace_period_of_another_surfaces_drain_ends() -> None:
    drains = Drains()
    lasting(drains.world)
    drains.run(30).drain("n0").run(5)
    found = explain(drains.kernel, (), node_key("n0"), drains.world.time.now())
    assert found is not None
    assert found.last_grace_ends_at == deletion_of(drains.world, "slow")


def deletion_of(world: World, name: str) -> datetime:
    return datetime.fromisoformat(world.get(PODS, name)["metadata"]["deletionTimestamp"])


def test_a_finalizer() -> None:
    ops = Maintenances()
    ops.world.make(deployment("web", replicas=1))
    ops.run(30)
    pod = ops.world.pods()[0]
    name = pod["metadata"]["name"]
    ops.world.change(PODS, name, {"metadata": {"finalizers": ["example.com/f"]}})
    ops.make("a", pod["spec"]["nodeName"]).run(60)
    found = of_maintenance(ops)
    assert found.act == f"remove finalizer example.com/f from pod default/{name}, or see why its owner does not"


def test_pods_behind_one_budget_share_its_line() -> None:
    ops = Maintenances()
    ops.world.make(deployment("web", replicas=60), budget("web", maxUnavailable=0))
    ops.run(30).make("a", "n0").run(3)
    pods = len(ops.pods("n0"))
    assert pods > 10
    lines = as_text(of_maintenance(ops), ops.world.time.now()).partition("\nlook up:")[0].splitlines()
    assert sum("allows no disruption now" in line for line in lines) == 10
    assert f"    and {pods - 10} more" in lines
    assert sum("PodDisruptionBudget default/web: " in line for line in lines) == 2


def test_one_that_has_succeeded_waits_for_its_end() -> None:
    ops = Maintenances().run(5).make("a", "n0").run(5)
    assert of_maintenance(ops).act == "end it when the work is done: kubectl delete nm a"


def test_a_node_that_is_gone() -> None:
    ops = Maintenances().run(5).make("a", "ghost").run(5)
    lines = as_text(of_maintenance(ops), ops.world.time.now()).partition("\nlook up:")[0].splitlines()
    assert lines[:2] == [
        "nodemaintenance a of node ghost (not there)",
        '  NodeMaintenance a has failed: nodes "ghost" not found',
    ]


def test_one_that_is_not_there() -> None:
    ops = Maintenances().run(5)
    assert explain_listed(ops.kernel, NODEMAINTENANCE, KIND, maintenance_key("ghost"), ops.world.time.now()) is None


def test_a_node_that_concerns_nobody() -> None:
    ops = blocked()
    lines = as_text(of_node(ops, "n1"), ops.world.time.now()).partition("\nlook up:")[0].splitlines()
    assert lines == [
        "node n1",
        "  no surface that is configured here concerns it (--config names a configuration)",
    ]


def test_a_drain_of_a_surface_that_does_not_tell_of_it() -> None:
    drains = Drains()
    drains.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
    drains.run(30).drain("n0").run(3)
    now = drains.world.time.now()
    found = explain(drains.kernel, (), node_key("n0"), now)
    assert found is not None
    lines = as_text(found, now).partition("\nlook up:")[0].splitlines()
    assert lines[:2] == ["node n0 (cordoned)", "  it is drained for toy"]
    assert lines[-2:] == ["what would help:", f"  {ACT}"]
