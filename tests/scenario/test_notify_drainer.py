"""The drainer and the returner of notify on the embedded cluster, in virtual time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from haulout.core.action import Delete, Evict
from haulout.core.drain.options import PodRules
from haulout.embedded import DISRUPTION_BUDGETS, NODES, PODS, Change, Json
from haulout.kernel.requests import Refused
from haulout.surfaces.notify.wire import OBJECTS_DRAINED, SLA_EXPIRED, STARTED
from tests.build.muted import lose
from tests.build.notices import HOME, Notices, options
from tests.build.workloads import budget, daemon_set, deployment, pod


def ops(drainer: Json | None = None, returner: Json | None = None, sla: str = "1h") -> Notices:
    operators = {
        **({"drainer": {"enabled": True, **drainer}} if drainer is not None else {}),
        **({"returner": {"enabled": True, **returner}} if returner is not None else {}),
    }
    return Notices(options(json.dumps({"slaPeriod": sla, "operators": operators})))


def pods(given: Notices, node: str = "n0") -> list[str]:
    return sorted(
        each["metadata"]["name"] for each in given.world.objects.list(PODS) if each["spec"].get("nodeName") == node
    )


def single(name: str, **spec: Any) -> Json:
    return pod(name, nodeName="n0", **spec)


class TestDrainer:
    def test_it_evicts_waits_a_moment_and_reports(self) -> None:
        given = ops({})
        given.world.make(deployment("web", replicas=3), daemon_set("agent"))
        given.run(30).started("a").run(60)
        assert given.status("a") == OBJECTS_DRAINED
        assert given.annotations("a")["haulout.dev/owner-drainer"] == "in-box"
        assert [name for name in pods(given) if not name.startswith("agent")] == []
        assert given.conditions("a")["drainProgress"] == "drained"
        assert any(each.counter == "nm_drain_duration_seconds" for each in given.measured)

    def test_finite_pods_are_waited_for_until_the_sla(self) -> None:
        policies = [{"restartPolicies": ["Never"], "action": "Wait"}]
        given = ops({"policies": policies})
        given.world.make(single("train", restartPolicy="Never"))
        given.run(5).started("a").run(600)
        assert (given.status("a"), pods(given)) == (STARTED, ["train"])
        assert given.conditions("a")["drainProgress"] == "blocked"
        given.run(3700)
        assert pods(given) == []
        assert given.path("a")[-2:] == [SLA_EXPIRED, OBJECTS_DRAINED]

    def test_a_pod_that_is_waited_for_and_whose_end_no_watch_has_told_is_found_to_be_gone(self) -> None:
        given = ops({"policies": [{"restartPolicies": ["Never"], "action": "Wait"}]})
        given.world.make(single("train", restartPolicy="Never"))
        given.run(5).started("a").run(60)
        lose(given.driver, "train")
        given.world.objects.delete(PODS, "default", "train", grace=0)
        given.run(60)
        assert (given.status("a"), pods(given)) == (STARTED, [])
        given.run(600)
        assert given.status("a") == OBJECTS_DRAINED

    @pytest.mark.parametrize("alone", [True, False], ids=["as pika", "run"])
    def test_pods_that_ask_to_be_waited_for_are_until_the_sla(self, alone: bool) -> None:
        content = {"slaPeriod": "1h", "operators": {"drainer": {"enabled": True}}}
        rules = PodRules() if alone else PodRules(annotation=True)
        given = Notices(options(json.dumps(content), alone=alone, rules=rules))
        body = single("train", restartPolicy="Never")
        body["metadata"]["annotations"] = {"haulout.dev/drain": "wait"}
        given.world.make(body)
        given.run(5).started("a").run(3000)
        assert pods(given) == ["train"]
        given.run(700)
        assert (pods(given), given.path("a")[-2:]) == ([], [SLA_EXPIRED, OBJECTS_DRAINED])

    def test_pods_without_a_controller_block(self) -> None:
        given = ops({})
        given.world.make(single("bare"))
        given.run(5).started("a").run(600)
        assert pods(given) == ["bare"]

    def test_after_the_sla_nothing_changes_where_it_is_told_to_keep(self) -> None:
        given = ops({"afterSLA": "Keep"})
        given.world.make(single("bare"))
        given.run(5).started("a").run(8000)
        assert pods(given) == ["bare"]

    @pytest.mark.parametrize(("word", "left"), [("ignore", ["bare"]), ("evict", [])])
    def test_pods_may_say_what_is_to_be_done(self, word: str, left: list[str]) -> None:
        given = ops({})
        body = single("bare")
        body["metadata"]["annotations"] = {"haulout.dev/drain": word}
        given.world.make(body)
        given.run(5).started("a").run(60)
        assert (given.status("a"), pods(given)) == (OBJECTS_DRAINED, left)

    def test_a_budget_is_passed_some_time_after_the_sla(self) -> None:
        given = ops({"pdbTimeout": "10m"}, sla="10m")
        given.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
        given.run(30).started("a").run(900)
        assert given.status("a") == SLA_EXPIRED
        assert given.conditions("a")["drainProgress"] == "blocked"
        given.run(400)
        assert given.status("a") == OBJECTS_DRAINED

    @pytest.mark.parametrize(("timeout", "after"), [("0s", 605), ("10m", 1205)], ids=["at once", "after a while"])
    def test_after_the_sla_only_pods_that_a_budget_refuses_are_deleted(self, timeout: str, after: int) -> None:
        given = ops({"pdbTimeout": timeout}, sla="10m")
        given.world.make(pod("kept", app="kept", nodeName="n0"), budget("kept", maxUnavailable=0))
        late = pod("free", app="free", nodeName="n0")
        late["metadata"]["finalizers"] = ["example.com/hangs"]
        given.world.make(late)
        given.run(5).started("a").run(after)
        removals = {body.target.name: type(body) for body, _ in given.answered if isinstance(body, Evict | Delete)}
        assert removals == {"kept": Delete, "free": Evict}

    def test_a_pod_that_a_failing_webhook_keeps_is_not_deleted_past_its_eviction(self) -> None:
        given = ops({"pdbTimeout": "0s", "unmanagedPods": "Evict"}, sla="10m")
        given.world.make(single("kept"))
        given.refuses[Evict, "Pod"] = Refused(500, "a webhook has failed")
        given.run(5).started("a").run(1200)
        assert pods(given) == ["kept"]

    def test_under_a_budget_with_room_each_pod_is_evicted_in_its_turn(self) -> None:
        given = ops({"pdbTimeout": "0s"}, sla="10m")
        given.world.make(*(pod(f"p{number}", app="web", nodeName="n0") for number in range(6)))
        given.world.make(budget("web", minAvailable=0))
        given.run(5).started("a").run(700)
        removals = [type(body) for body, _ in given.answered if isinstance(body, Evict | Delete)]
        assert (removals, pods(given)) == ([Evict] * 6, [])

    def test_what_somebody_else_drains_is_left_alone(self) -> None:
        given = ops({})
        given.world.make(deployment("web", replicas=3))
        given.run(30).make("a", annotations={"maintenance/readyForMaintenance": "false"}).run().claim("n0", "mid")
        before = pods(given)
        given.run(120)
        assert (given.status("a"), pods(given)) == (STARTED, before)

    def test_it_stops_when_the_maintenance_is_deleted(self) -> None:
        given = ops({})
        given.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
        given.run(30).started("a").run(5).delete("a").run(5)
        before = pods(given)
        given.world.change(DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 0}})
        given.run(120)
        assert pods(given) == before

    def test_the_progress_says_how_long_it_waits_for_finite_pods(self) -> None:
        given = ops({"policies": [{"restartPolicies": ["Never"], "action": "Wait"}]})
        body = single("train", restartPolicy="Never")
        body["metadata"]["annotations"] = {"haulout.dev/expected-duration": "32m30s"}
        given.world.make(body)
        given.run(60).started("a").run(30)
        assert given.message("a", "drainProgress") == "1 of 1 pods left; blocked: default/train (waiting, est. 31m)"
        writes = len(given.writes)
        given.run(240)
        assert len(given.writes) == writes
        given.run(400)
        assert given.message("a", "drainProgress") == "1 of 1 pods left; blocked: default/train (waiting, est. 21m)"
        assert given.reasons("a").count("DrainBlocked") == 1
        assert len(given.writes) <= writes + 2

    def test_so_many_pods_go_at_a_time_and_one_that_its_budget_keeps_takes_no_place(self) -> None:
        given = ops({"maxConcurrentEvictions": 2, "unmanagedPods": "Evict"})
        going: list[int] = []

        def look(change: Change) -> None:
            found = [each for each in given.world.objects.list(PODS) if each["spec"].get("nodeName") == "n0"]
            going.append(sum("deletionTimestamp" in each["metadata"] for each in found))

        given.world.make(budget("a", maxUnavailable=0), budget("b", maxUnavailable=0))
        given.world.make(*(pod(f"{app}{number}", app=app, nodeName="n0") for app in "abcd" for number in range(3)))
        given.world.objects.subscribe(PODS, look)
        given.run(30).started("a").run(120)
        assert max(going) == 2
        assert pods(given) == ["a0", "a1", "a2", "b0", "b1", "b2"]

    def test_a_pod_that_hangs_takes_no_place_for_longer_than_its_grace(self) -> None:
        given = ops({"maxConcurrentEvictions": 1, "unmanagedPods": "Evict"})
        hangs = single("a", terminationGracePeriodSeconds=20)
        hangs["metadata"]["finalizers"] = ["example.com/hangs"]
        given.world.make(hangs, single("b"))
        given.run(5).started("a").run(60)
        assert pods(given) == ["a"]

    def test_all_maintenances_of_a_node_are_reported(self) -> None:
        given = ops({}).started("a", mid="id1").make("b", mid="id2").run().label("n0", "id2").run(30)
        assert (given.status("a"), given.status("b")) == (OBJECTS_DRAINED, OBJECTS_DRAINED)

    def test_volumes_are_waited_for_only_where_there_can_be_any(self) -> None:
        """The embedded cluster knows no VolumeAttachments, as a plan does."""
        assert ops({"waitForVolumeDetach": True}).started("a").run(60).status("a") == OBJECTS_DRAINED

    def test_a_drain_that_takes_twice_the_sla_is_told_every_hour(self) -> None:
        given = ops({"afterSLA": "Keep"})
        given.world.make(single("bare"))
        given.run(5).started("a").run(3 * 3600 + 100)
        assert given.reasons("a").count("DrainStuck") == 2


def mark(given: Notices, node: str = "n0") -> Notices:
    given.world.change(NODES, node, {"metadata": {"annotations": {"haulout.dev/cordoned-by": f"{HOME}/a"}}})
    return given


class TestReturner:
    def validated(self, returner: Json | None = None) -> Notices:
        given = mark(ops(None, returner or {})).drained("a").annotate("a", client="complete").run()
        return mark(given).annotate("a", validation="validated").run(5)

    def test_a_validated_maintenance_ends_and_its_node_comes_back(self) -> None:
        given = self.validated()
        assert (given.found("a"), given.cordoned("n0"), given.claims("n0")) == (None, False, [])
        assert "haulout.dev/cordoned-by" not in given.node("n0")["metadata"].get("annotations", {})
        assert "NodeReturned" in given.reasons("n0")

    def test_nothing_is_deleted_where_that_is_off(self) -> None:
        assert self.validated({"deleteValidated": False}).found("a") is not None

    def test_a_cordon_of_somebody_else_stays(self) -> None:
        given = ops(None, {}).drained("a").delete("a").run(60)
        assert given.cordoned("n0")
        assert given.reasons("a").count("WaitingForUncordon") == 1

    def test_unless_all_are_to_be_returned(self) -> None:
        given = ops(None, {"uncordon": "Always"}).drained("a").delete("a").run(5)
        assert (given.found("a"), given.cordoned("n0")) == (None, False)

    def test_half_done_work_keeps_the_node(self) -> None:
        given = mark(ops(None, {})).drained("a").annotate("a", client="incomplete").run()
        mark(given).delete("a").run(60)
        assert given.cordoned("n0")
        assert "ReturnBlocked" in given.reasons("n0")
        given.world.change(NODES, "n0", {"metadata": {"annotations": {"haulout.dev/force-return": "true"}}})
        given.run(5)
        assert (given.found("a"), given.cordoned("n0")) == (None, False)

    def test_one_that_holds_the_node_keeps_it(self) -> None:
        given = mark(ops(None, {})).drained("a", mid="id1").make("b", mid="id2").run().label("n0", "id2").run()
        mark(given).delete("a").run(60)
        assert given.cordoned("n0")

    def test_a_cordon_that_nobody_needs_is_lifted_after_a_while(self) -> None:
        given = mark(ops(None, {}).cordon("n0")).run(20)
        assert given.cordoned("n0")
        given.run(20)
        assert not given.cordoned("n0")

    def test_a_stale_mark_goes_at_once(self) -> None:
        given = mark(ops(None, {})).run()
        assert "haulout.dev/cordoned-by" not in given.node("n0")["metadata"].get("annotations", {})
