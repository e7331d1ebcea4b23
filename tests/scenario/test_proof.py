"""No irreversible act relies on the Pod table alone: the node's pods are listed once more after its cordon (K18)."""

from __future__ import annotations

import pytest

from haulout.cluster.key import node_key
from haulout.cluster.view import View
from haulout.core.drain.progress import reasons
from haulout.embedded import NODES
from haulout.kernel.requests import Refused
from haulout.surfaces.kubernikus.wire import ServerDeletion
from haulout.surfaces.profiles.passes.result import Mode
from tests.build.drains import Drains
from tests.build.maintenances import Maintenances, options
from tests.build.muted import Lists, lose, mute
from tests.build.workloads import budget, daemon_set, deployment, is_leaving, pod
from tests.scenario import test_esx as esx
from tests.scenario import test_kubernikus as kubernikus
from tests.scenario import test_profiles_drain as profiles

LATE = pod("late", nodeName="n0")
FORBIDDEN = Refused(403, 'pods is forbidden: User "operator" cannot list resource "pods"')


def is_late_leaving(names: list[str], leaving: list[str]) -> bool:
    """Whether the pod, which takes three seconds to stop, is still there and terminating."""
    return "late" in names and "late" in leaving


def leaving(world: object) -> list[str]:
    return [each["metadata"]["name"] for each in world.pods() if is_leaving(each)]  # type: ignore[attr-defined]


class TestNodeMaintenance:
    def test_a_pod_whose_end_no_watch_has_told_holds_the_drain_for_ten_minutes(self) -> None:
        world = Maintenances()
        lists = Lists(world.driver)
        world.world.make(LATE)
        lose(world.driver, "late")
        world.run(30).make("a", "n0").run(590)
        assert (world.pods("n0"), world.phase("a"), lists.nodes) == ([], "Running", [])
        world.run(20)
        assert (world.phase("a"), lists.nodes) == ("Succeeded", ["n0", "n0"])

    def test_a_pod_that_stays_is_listed_every_ten_minutes_and_not_at_a_restart(self) -> None:
        world = Maintenances()
        lists = Lists(world.driver)
        world.world.make(pod("kept", nodeName="n0"), budget("kept", minAvailable=1))
        world.run(30).make("a", "n0").run(1810)
        assert (world.phase("a"), lists.nodes) == ("Running", ["n0"] * 3)
        again = Lists(world.begin().driver)
        world.run(590)
        assert again.nodes == []
        world.run(20)
        assert again.nodes == ["n0"]

    def test_a_pod_that_no_watch_shows_is_found_and_evicted_before_it_succeeds(self) -> None:
        world = Maintenances()
        lists = Lists(world.driver)
        mute(world.driver)
        world.world.make(LATE)
        world.run(30).make("a", "n0").run(2)
        assert is_late_leaving(world.pods("n0"), leaving(world.world))
        assert (world.phase("a"), world.status("a").get("drainProgress", 0)) == ("Running", 0)
        assert world.conditions("a").get("Drained") != "True"
        world.run(10)
        assert (world.pods("n0"), world.phase("a"), world.status("a")["drainProgress"]) == ([], "Succeeded", 100)
        assert world.conditions("a")["Drained"] == "True"
        assert lists.nodes == ["n0", "n0"], "one that found it, and one that proves the node empty"

    def test_a_drain_costs_one_list(self) -> None:
        world = Maintenances()
        lists = Lists(world.driver)
        world.world.make(deployment("web", replicas=6), daemon_set("agent"))
        world.run(30).make("a", "n0").run(30)
        assert (world.phase("a"), lists.nodes) == ("Succeeded", ["n0"])
        world.run(3600)
        again = Lists(world.begin().driver)
        world.run(3600)
        assert (lists.nodes, again.nodes) == (["n0"], []), "what is stored as succeeded is not proven again"

    def test_a_node_that_was_uncordoned_meanwhile_is_proven_empty_again(self) -> None:
        world = Maintenances()
        lists = Lists(world.driver)
        world.make("a", "n0").run(5)
        assert (world.phase("a"), lists.nodes) == ("Succeeded", ["n0"])
        mute(world.driver)
        world.world.make(LATE)
        world.run(30)
        assert (world.pods("n0"), world.phase("a")) == (["late"], "Succeeded")
        world.world.change(NODES, "n0", {"spec": {"unschedulable": None}})
        world.run(2)
        assert is_late_leaving(world.pods("n0"), leaving(world.world))
        assert world.phase("a") == "Running"
        world.run(10)
        assert (world.pods("n0"), world.phase("a"), lists.nodes) == ([], "Succeeded", ["n0"] * 3)

    def test_a_list_that_is_refused_proves_nothing_is_said_and_tried_again_ever_later(self) -> None:
        world = Maintenances()
        lists = Lists(world.driver)
        lists.refusal = FORBIDDEN
        world.make("a", "n0").run(60)
        assert (world.phase("a"), world.status("a").get("drainProgress", 0)) == ("Running", 0)
        assert "pods is forbidden" in world.status("a")["lastError"]
        assert len(lists.nodes) == 6, "after 1, 2, 4, 8, 16 and 32 seconds"
        lists.refusal = None
        world.run(60)
        assert (world.phase("a"), len(lists.nodes)) == ("Succeeded", 7)
        assert "lastError" not in world.status("a")

    def test_conditions_of_the_node_wait_for_the_proof(self) -> None:
        world = Maintenances(options=options(node_conditions=True))
        lists = Lists(world.driver)
        lists.refusal = FORBIDDEN
        world.make("a", "n0").run(10)
        shown = {each["type"]: each["status"] for each in world.node("n0")["status"]["conditions"]}
        assert (shown["Drained"], shown["DrainInProgress"]) == ("False", "True")
        lists.refusal = None
        world.run(60)
        shown = {each["type"]: each["status"] for each in world.node("n0")["status"]["conditions"]}
        assert (shown["Drained"], shown["MaintenanceInProgress"]) == ("True", "True")


@pytest.mark.parametrize("alone", [True, False])
def test_the_eviction_trigger_passes_once_a_pod_that_no_watch_shows_is_gone(alone: bool) -> None:
    fleet = profiles.Fleet(text=profiles.DRAINED_FIRST, mode=Mode(alone=alone)).run(1)
    lists = Lists(fleet.driver)
    mute(fleet.driver)
    fleet.world.make(LATE)
    fleet.run(30).go().run(2)
    assert is_late_leaving(fleet.pods(), leaving(fleet.world))
    assert fleet.state == "operational"
    fleet.run(10)
    assert (fleet.pods(), fleet.state, lists.nodes) == ([], "in-maintenance", ["n0", "n0"])


def test_the_eviction_trigger_of_a_node_that_is_cordoned_and_empty_costs_one_list_and_one_patch() -> None:
    fleet = profiles.Fleet(text=profiles.DRAINED_FIRST).run(1)
    lists = Lists(fleet.driver)
    fleet.world.change(NODES, "n0", {"spec": {"unschedulable": True}})
    fleet.run(1).go().run(1)
    assert (fleet.state, lists.nodes) == ("in-maintenance", ["n0"])
    assert "haulout.dev/drain-started-at" not in fleet.annotations


@pytest.mark.parametrize("alone", [True, False])
def test_a_machine_is_switched_off_once_a_pod_that_no_watch_shows_is_gone(alone: bool) -> None:
    fleet = esx.Fleet(alone=alone).host(esx.DOWN).run(1)
    lists = Lists(fleet.driver)
    mute(fleet.driver)
    fleet.world.make(LATE)
    fleet.run(30).allow().run(2)
    assert is_late_leaving(fleet.pods(), leaving(fleet.world))
    assert fleet.asked_for == []
    fleet.run(10)
    assert (fleet.pods(), fleet.asked_for, lists.nodes) == ([], [esx.STOP], ["n0", "n0"])
    fleet.run(125)
    assert (fleet.asked_for, len(lists.nodes)) == ([esx.STOP] * 3, 2), "what is asked again stands on the same proof"
    again = Lists(fleet.restart().driver)
    fleet.run(1)
    assert again.nodes == ["n0"], "another process proves it before it asks"


@pytest.mark.parametrize("alone", [True, False])
def test_a_server_is_deleted_once_a_pod_that_no_watch_shows_is_gone(alone: bool) -> None:
    fleet = kubernikus.ready(kubernikus.Fleet(alone=alone, secret=("ns", "s"))).run(1)
    lists = Lists(fleet.driver)
    mute(fleet.driver)
    fleet.world.make(LATE)
    fleet.run(30).label("true").run(2)
    assert is_late_leaving(fleet.pods(), leaving(fleet.world))
    assert fleet.asked_for == []
    fleet.run(10)
    assert (fleet.pods(), fleet.asked_for) == ([], [ServerDeletion("n0", ("ns", "s"))])
    assert lists.nodes == ["n0", "n0"]


class TestReasons:
    def told(self, drains: Drains) -> list[tuple[str, str]]:
        view = View(drains.kernel.store, explaining=True)
        found = reasons(view, drains.row("n0"), drains.world.time.now())
        return [(reason.code, reason.act) for reason in found]

    def test_what_is_being_checked(self) -> None:
        drains = Drains()
        drains.world.change(NODES, "n0", {"spec": {"unschedulable": True}})
        drains.run(1)
        assert self.told(drains) == [("proving-empty", "")]
        assert self.told(drains.drain("n0").run(1)) == []

    def test_a_missing_right_is_named(self) -> None:
        drains = Drains()
        lists = Lists(drains.driver)
        lists.refusal = FORBIDDEN
        drains.drain("n0").run(1)
        (tree,) = drains.reasons("n0")
        assert (tree.code, tree.subject) == ("proof-failed", node_key("n0"))
        assert "pods is forbidden" in tree.text
        assert tree.act == "allow Haulout to list pods in all namespaces (`haulout rbac` prints the roles)"
