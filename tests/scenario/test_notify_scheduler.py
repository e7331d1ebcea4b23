"""The scheduler of notify on the embedded cluster, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from haulout.cluster.rows import Value
from haulout.cluster.view import MARK, FactDemand
from haulout.embedded import NODES, PODS, Json, Resource
from haulout.model.meta import wire_time
from haulout.surfaces.notify.scheduler import alerts, recording
from haulout.surfaces.notify.scheduler.present import samples
from haulout.surfaces.notify.wire import CORDONED_BY, INCOMPLETE, NODE_UID, SCHEDULED, STARTED
from tests.build.notices import Notices, options
from tests.build.workloads import node, pod

QUERY = {"url": "http://prometheus", "query": "ALERTS"}
NODE_BUDGETS = Resource("haulout.dev", "v1alpha1", "nodedisruptionbudgets")
ALL = {"name": "all", "nodeSelector": "", "maxUnavailable": 1}


def ops(nodes: int = 3, sla: str = "1h", alone: bool = True, **scheduler: Any) -> Notices:
    content = {"slaPeriod": sla, "operators": {"scheduler": {"enabled": True, "budgets": [ALL], **scheduler}}}
    return Notices(options(json.dumps(content), alone=alone), nodes=nodes)


def busy(name: str, where: str, lasts: str) -> Json:
    made = pod(name, nodeName=where, restartPolicy="Never")
    made["metadata"].setdefault("annotations", {}).update(
        {"haulout.dev/expected-duration": lasts, "haulout.dev/drain": "wait"}
    )
    return made


def reason(given: Notices, name: str) -> str:
    conditions = given.get(name)["status"].get("conditions", [])
    found = [each for each in conditions if each["type"] == "schedulerDecision"]
    return f"{found[0]['status']} {found[0]['reason']}" if found else ""


def message(given: Notices, name: str) -> str:
    conditions = given.get(name)["status"]["conditions"]
    return next(str(each["message"]) for each in conditions if each["type"] == "schedulerDecision")


def samples_of_gauges(given: Notices) -> Iterator[tuple[tuple[str, str], float]]:
    rows = given.kernel.store.rows("", MARK)
    yield from (((name, labels[0][1]), value) for name, labels, value in samples(rows))


def in_flight(given: Notices, *names: str) -> list[str]:
    return [name for name in names if given.status(name) == STARTED]


class TestStart:
    def test_label_and_cordon_come_in_one_write(self) -> None:
        given = ops()
        versions: list[Json] = []
        given.world.objects.subscribe(NODES, lambda change: versions.append(change.object))
        given.make("a").run(5)
        assert given.status("a") == STARTED
        assert given.node("n0")["metadata"]["annotations"][CORDONED_BY] == "fleet/a"
        halves = [
            each
            for each in versions
            if ("maintenance/mid" in each["metadata"].get("labels", {})) != bool(each["spec"].get("unschedulable"))
        ]
        assert halves == []
        assert reason(given, "a") == "selected Selected"
        assert message(given, "a") == "score=1.000 likelihood=1.000 drain=0s"
        assert "MaintenanceSelected" in given.reasons("a")
        assert "MaintenanceSelected" in given.reasons("n0")
        assert any(each.counter == "nm_scheduler_started_total" for each in given.measured)
        assert given.annotations("a")[NODE_UID] == given.node("n0")["metadata"]["uid"]

    def test_without_the_block_nothing_is_touched(self) -> None:
        given = Notices(options()).make("a").run(60)
        assert (given.status("a"), given.cordoned("n0"), given.conditions("a")) == (SCHEDULED, False, {})

    def test_a_dry_run_only_says_so(self) -> None:
        given = ops(dryRun=True).make("a").run(5)
        assert (reason(given, "a"), given.cordoned("n0"), given.claims("n0")) == ("selected DryRun", False, [])
        shown = dict(samples_of_gauges(given))
        assert shown["nm_scheduler_candidates", "DryRun"] == 1

    def test_one_that_the_annotation_keeps_off_stays(self) -> None:
        given = ops().make("a", annotations={"haulout.dev/operators": "drainer"}).run(30)
        assert (given.status("a"), reason(given, "a")) == (SCHEDULED, "")


class TestBudgets:
    def test_no_more_start_than_the_budget_allows(self) -> None:
        given = ops().make("a", "n0", "m1").make("b", "n1", "m2").run(10)
        assert in_flight(given, "a", "b") == ["a"]
        assert reason(given, "b") == "waiting BudgetExhausted(all)"
        given.delete("a").run(3).uncordon("n0").run(5)
        assert in_flight(given, "b") == ["b"]

    def test_several_start_at_once_where_the_budget_allows(self) -> None:
        given = ops(budgets=[{**ALL, "maxUnavailable": 2}])
        for number in range(3):
            given.make(f"a{number}", f"n{number}", f"m{number}")
        given.run(10)
        assert len(in_flight(given, "a0", "a1", "a2")) == 2

    def test_a_node_that_is_not_ready_takes_a_place_but_none_of_its_own(self) -> None:
        given = ops().run(2)
        given.world.objects.patch(
            NODES, "", "n0", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, subresource="status"
        )
        given.run(1).make("a", "n1", "m1").run(10)
        assert reason(given, "a") == "waiting BudgetExhausted(all)"
        given.make("b", "n0", "m2").run(10)
        assert in_flight(given, "b") == ["b"]

    def test_percentages_are_of_the_nodes_selected_and_at_least_one(self) -> None:
        given = ops(nodes=4, budgets=[{**ALL, "maxUnavailable": "50%"}])
        for number in range(4):
            given.make(f"a{number}", f"n{number}", f"m{number}")
        given.run(10)
        assert len(in_flight(given, "a0", "a1", "a2", "a3")) == 2

    @pytest.mark.parametrize("closed", [0, "0%"])
    def test_zero_closes(self, closed: int | str) -> None:
        given = ops(budgets=[{**ALL, "maxUnavailable": closed}]).make("a").run(10)
        assert reason(given, "a") == "waiting BudgetExhausted(all)"

    def test_nodes_of_no_budget_share_one_place(self) -> None:
        given = ops(budgets=[{"name": "gpu", "nodeSelector": "gpu=yes", "maxUnavailable": 3}])
        given.make("a", "n0", "m0").make("b", "n1", "m1").run(10)
        assert len(in_flight(given, "a", "b")) == 1
        assert "waiting BudgetExhausted(default)" in [reason(given, name) for name in ("a", "b")]

    def test_one_domain_at_a_time(self) -> None:
        per = {"key": "rack", "max": 1}
        given = ops(nodes=0, budgets=[{**ALL, "maxUnavailable": 5, "perTopology": per}])
        given.world.make(node("n0", rack="r0"), node("n1", rack="r0"), node("n2", rack="r1"))
        for number in range(3):
            given.make(f"a{number}", f"n{number}", f"m{number}")
        given.run(10)
        assert in_flight(given, "a0", "a1", "a2") == ["a0", "a2"]

    def test_what_somebody_else_has_started_takes_its_place(self) -> None:
        per = {"key": "rack", "max": 1}
        given = ops(nodes=0, budgets=[{**ALL, "maxUnavailable": 5, "perTopology": per}])
        given.world.make(node("n0", rack="r0"), node("n1", rack="r0"))
        given.started("a", "n0", "m0", annotations={"haulout.dev/operators": "none"})
        given.make("b", "n1", "m1").run(10)
        assert reason(given, "b") == "waiting BudgetExhausted(all)"
        assert NODE_UID not in given.annotations("a")

    def test_unplanned_ones_may_bypass_budgets(self) -> None:
        given = ops(unplanned={"bypassBudgets": True}).make("a", "n0").run(5)
        given.make("b", "n1", "m2", maintenanceType="unplanned").run(5)
        assert in_flight(given, "a", "b") == ["a", "b"]


class TestOrder:
    def test_the_node_that_drains_sooner_goes_first(self) -> None:
        given = ops()
        given.world.make(busy("p0", "n0", "4h"), busy("p1", "n1", "5m"), busy("p2", "n2", "1h"))
        given.run(2)
        for number in range(3):
            given.make(f"a{number}", f"n{number}")
        given.run(10)
        assert in_flight(given, "a0", "a1", "a2") == ["a1"]
        assert message(given, "a1").startswith("score=0.79")

    def test_those_that_are_created_one_after_the_other_are_judged_together(self) -> None:
        """As by hand: a person applies one manifest after the other, and the last of them drains at once."""
        given = ops()
        given.world.make(busy("long", "n0", "3h"), busy("short", "n1", "30m"))
        given.run(5)
        for number in range(3):
            given.make(f"a{number}", f"n{number}").run(1.2)
        given.run(5)
        assert in_flight(given, "a0", "a1", "a2") == ["a2"]

    def test_maintenances_that_never_stop_coming_do_not_keep_others_waiting(self) -> None:
        given = ops(nodes=20)
        for number in range(15):
            given.make(f"a{number}", f"n{number}").run(1)
        names = [f"a{number}" for number in range(15)]
        (first,) = in_flight(given, *names)
        waited = given.entered(first, STARTED) - given.entered("a0", SCHEDULED)
        assert timedelta(seconds=5) < waited <= timedelta(seconds=11)

    def test_unplanned_ones_come_first(self) -> None:
        given = ops()
        given.world.make(busy("p1", "n1", "4h"))
        given.run(2).make("a", "n0", "m0").make("b", "n1", "m1", maintenanceType="unplanned").run(10)
        assert in_flight(given, "a", "b") == ["b"]

    def test_a_starved_one_gets_the_next_place(self) -> None:
        given = ops(starvationAfter="10m")
        given.world.make(busy("p0", "n0", "48h"))
        given.run(2).make("a", "n0", "m0").make("b", "n1", "m1").run(10)
        assert in_flight(given, "a", "b") == ["b"]
        given.run(700).make("c", "n2", "m2").run(10)
        given.delete("b").run(3).uncordon("n1").run(10)
        assert in_flight(given, "a", "c") == ["a"]

    def test_one_group_does_not_take_all(self) -> None:
        given = ops(nodes=4, budgets=[{**ALL, "maxUnavailable": 2}])
        for number in range(3):
            given.make(f"a{number}", f"n{number}", "big")
        given.make("z", "n3", "small").run(10)
        assert in_flight(given, "a0", "a1", "a2", "z") == ["a0", "z"]

    def test_one_that_is_unlikely_to_drain_waits_until_it_is(self) -> None:
        given = ops(minLikelihood=0.5)
        given.world.make(busy("p0", "n0", "1h"))
        given.run(2).make("a", "n0").run(10)
        assert reason(given, "a") == "waiting UnlikelyToDrain"
        given.run(2640)
        assert given.status("a") == SCHEDULED
        given.run(60)
        assert given.status("a") == STARTED


class TestBlocks:
    @pytest.mark.parametrize(
        ("annotations", "expected"),
        [({"haulout.dev/hold": "true"}, "Held"), ({"haulout.dev/not-before": "2100-01-01T00:00:00Z"}, "NotBefore")],
        ids=["hold", "not-before"],
    )
    def test_people_hold_one_back(self, annotations: Json, expected: str) -> None:
        given = ops().make("a", annotations=annotations).run(5)
        assert reason(given, "a") == f"waiting {expected}"

    def test_the_numbers_of_the_condition_follow_what_they_tell_of(self) -> None:
        given = ops(halfLife="15m")
        given.world.make(busy("train", "n0", "2h"))
        given.make("a", annotations={"haulout.dev/hold": "true"}).run(30)
        writes = len(given.writes)
        assert message(given, "a") == "score=0.004 likelihood=0.004 drain=2h0m0s"
        given.run(240)
        assert len(given.writes) == writes
        given.run(4800)
        assert reason(given, "a") == "waiting Held"
        assert float(message(given, "a").partition("likelihood=")[2].split()[0]) > 0.1
        # At most every five minutes, and much less often while they hardly move.
        assert 2 <= len(given.writes) - writes <= 10
        quiet = ops()
        quiet.make("a", annotations={"haulout.dev/hold": "true"}).run(30)
        writes = len(quiet.writes)
        quiet.run(3600)
        assert len(quiet.writes) == writes

    def test_it_starts_at_the_time_that_is_given(self) -> None:
        given = ops()
        at = given.now + timedelta(minutes=10)
        given.make("a", annotations={"haulout.dev/not-before": wire_time(at)}).run(590)
        assert given.status("a") == SCHEDULED
        given.run(15)
        assert given.status("a") == STARTED

    def test_a_node_that_somebody_else_has_cordoned(self) -> None:
        given = ops().cordon("n0").make("a").run(5)
        assert reason(given, "a") == "waiting NodeCordonedElsewhere"

    def test_a_cordoned_node_is_adopted_where_that_is_allowed(self) -> None:
        given = ops(adoptCordoned=True).cordon("n0").make("a").run(5)
        assert given.status("a") == STARTED
        assert CORDONED_BY not in given.node("n0")["metadata"].get("annotations", {})

    def test_a_campaign_that_fails_is_halted(self) -> None:
        given = ops(failureThreshold=1, budgets=[{**ALL, "maxUnavailable": 5}])
        given.make("a", "n0").run(5).annotate("a", ready="true").run().annotate("a", client="incomplete").run(3)
        assert given.status("a") == INCOMPLETE
        given.make("b", "n1").make("c", "n2", "other").run(10)
        assert reason(given, "b") == "waiting FailureThreshold"
        assert given.status("c") == STARTED
        assert given.reasons("a").count("CampaignHalted") == 1

    def test_outside_of_a_window(self) -> None:
        given = ops(windows=[{"days": ["Mon"], "start": "22:00", "end": "23:00"}]).make("a").run(5)
        assert reason(given, "a") == "waiting OutsideWindow"
        given.make("u", "n1", "m2", maintenanceType="unplanned").run(5)
        assert given.status("u") == STARTED

    def test_a_blackout_wins(self) -> None:
        given = ops()
        span = {"from": wire_time(given.now - timedelta(hours=1)), "to": wire_time(given.now + timedelta(hours=1))}
        given = ops(blackouts=[span]).make("a").run(60)
        assert reason(given, "a") == "waiting Blackout"
        given.run(3600)
        assert given.status("a") == STARTED

    def test_what_does_not_fit_into_the_window_waits(self) -> None:
        whole = [{"start": "00:00", "end": "23:59"}]
        given = ops(windows=whole, requireFit=True, defaultMaintenance="24h").make("a").run(5)
        assert reason(given, "a") == "waiting DoesNotFit"


class TestStacking:
    def test_a_second_one_joins_a_node_that_drains(self) -> None:
        given = ops().make("a").run(5).make("b", "n0", "m2").run(5)
        assert in_flight(given, "a", "b") == ["a", "b"]
        assert reason(given, "b") == "selected Joined"
        assert given.node("n0")["metadata"]["annotations"][CORDONED_BY] == "fleet/a"

    def test_a_second_one_waits_where_it_is_told_to(self) -> None:
        given = ops(stacking="Hold").make("a").run(5).make("b", "n0", "m2").run(5)
        assert reason(given, "b") == "waiting NodeBusy"

    def test_a_second_one_waits_once_the_node_is_drained(self) -> None:
        given = ops().make("a").run(5).annotate("a", ready="true").run().make("b", "n0", "m2").run(5)
        assert reason(given, "b") == "waiting NodeBusy"


class TestKeeping:
    def test_a_node_that_is_made_anew_is_claimed_again(self) -> None:
        given = ops().make("a").run(5)
        given.world.objects.delete(NODES, "", "n0")
        given.run(1)
        given.world.make(node("n0"))
        given.run(5)
        assert (given.claims("n0"), given.cordoned("n0")) == (["maintenance/mid"], True)
        assert given.annotations("a")[NODE_UID] == given.node("n0")["metadata"]["uid"]

    def test_a_person_who_uncordons_is_not_overruled(self) -> None:
        given = ops().make("a").run(5).uncordon("n0").run(5)
        assert (given.cordoned("n0"), given.claims("n0")) == (False, [])

    def test_a_restart_starts_nothing_beyond_the_budget(self) -> None:
        given = ops()
        for number in range(3):
            given.make(f"a{number}", f"n{number}", f"m{number}")
        given.run(5).begin().run(30)
        assert len(in_flight(given, "a0", "a1", "a2")) == 1


class TestAlertGate:
    def answer(self, given: Notices, rows: bool | None) -> Notices:
        key = FactDemand(alerts.PROBE, alerts.AlertQuery("http://prometheus", "ALERTS"), alerts.PACE_FOR).key
        given.kernel.store.write(Value(key=key, value=rows, state="stale" if rows is None else "fresh"))
        return given.run(5)

    def test_nothing_planned_starts_while_alerts_fire(self) -> None:
        given = self.answer(ops(alertGate=QUERY).make("a").run(1), True)
        assert reason(given, "a") == "waiting AlertsFiring"
        assert self.answer(given, False).status("a") == STARTED

    def test_unplanned_ones_do_not_ask(self) -> None:
        given = self.answer(ops(alertGate=QUERY).make("a", maintenanceType="unplanned").run(1), True)
        assert given.status("a") == STARTED

    @pytest.mark.parametrize(("opens", "status"), [(False, SCHEDULED), (True, STARTED)])
    def test_no_answer_is_closed_unless_it_fails_open(self, opens: bool, status: str) -> None:
        given = self.answer(ops(alertGate={**QUERY, "failOpen": opens}).make("a").run(1), None)
        assert given.status("a") == status


class TestHistory:
    def loaded(self, text: str = "") -> Notices:
        given = ops(budgets=[{**ALL, "maxUnavailable": 0}]).run(2)
        key = FactDemand(recording.PROBE, "pika-system", recording.READ_EVERY_FOR).key
        given.kernel.store.write(Value(key=key, value=text, state="fresh"))
        return given.run(2)

    def test_what_ends_is_stored_after_a_while(self) -> None:
        given = self.loaded()
        given.world.make(pod("train-1", nodeName="n0", restartPolicy="Never", app="train"))
        given.run(100)
        given.world.objects.delete(PODS, "default", "train-1")
        given.run(400)
        [stored] = given.stored
        [(workload, samples)] = json.loads(stored).items()
        assert workload == "default/Pod/train"
        assert samples == [pytest.approx(100, abs=10)]
        given.run(4000)
        assert len(given.stored) == 1

    def test_a_process_that_ends_stores_what_has_ended_since(self) -> None:
        given = self.loaded(json.dumps({"default/Job/other": [5]}))
        assert recording.unstored_history(given.kernel.store, given.now) is None
        given.world.make(pod("train-1", nodeName="n0", restartPolicy="Never", app="train"))
        given.run(100)
        given.world.objects.delete(PODS, "default", "train-1")
        given.run(30)
        assert given.stored == []
        left = recording.unstored_history(given.kernel.store, given.now)
        assert left is not None
        assert (left.namespace, sorted(json.loads(left.text))) == (
            "pika-system",
            ["default/Job/other", "default/Pod/train"],
        )
        given.run(400)
        assert recording.unstored_history(given.kernel.store, given.now) is None

    def test_an_estimate_uses_what_is_stored(self) -> None:
        given = self.loaded(json.dumps({"default/Pod/train": [600] * 5}))
        made = pod("train-1", nodeName="n0", restartPolicy="Never", app="train")
        made["metadata"].setdefault("annotations", {})["haulout.dev/drain"] = "wait"
        given.world.make(made)
        given.run(2).make("a").run(10)
        assert "drain=9m" in message(given, "a")

    def test_content_that_cannot_be_read_is_none(self) -> None:
        given = self.loaded("nonsense").make("a").run(10)
        assert reason(given, "a") == "waiting BudgetExhausted(all)"


class TestTogether:
    def test_the_ledger_remembers_what_stood_before(self) -> None:
        given = ops(alone=False).make("a").run(5)
        assert given.status("a") == STARTED
        assert json.loads(given.node("n0")["metadata"]["annotations"]["haulout.dev/cordon"]) == {
            "before": False,
            "by": [],
        }

    def test_a_node_disruption_budget_refuses_and_others_go_on(self) -> None:
        given = ops(nodes=0, alone=False, budgets=[{**ALL, "maxUnavailable": 3}])
        given.world.make(node("n0", pool="x"), node("n1", pool="y"))
        spec = {"selector": {"matchLabels": {"pool": "x"}}, "maxUnavailable": 0}
        made = {"apiVersion": "haulout.dev/v1alpha1", "kind": "NodeDisruptionBudget", "metadata": {"name": "closed"}}
        given.world.objects.create(NODE_BUDGETS, {**made, "spec": spec})
        given.make("a", "n0", "m0").make("b", "n1", "m1").run(10)
        assert reason(given, "a") == "waiting BudgetExhausted(closed)"
        assert given.status("b") == STARTED
        given.world.objects.patch(NODE_BUDGETS, "", "closed", {"spec": {"maxUnavailable": 1}})
        given.run(10)
        assert given.status("a") == STARTED


class TestEstimateError:
    """The error is what the drain took less what was estimated, also where an external drainer emptied the node."""

    def error(self, given: Notices) -> list[float]:
        found = [each for each in given.measured if each.counter == "nm_scheduler_estimate_error_seconds"]
        assert all(each.signed for each in found)
        return [round((given.now - each.since).total_seconds()) for each in found if each.since is not None]

    def test_a_drain_that_is_faster_than_estimated_has_a_negative_error(self) -> None:
        given = ops()
        given.world.make(busy("train", "n0", "30m"))
        given.run(5).make("a").run(600)
        given.annotate("a", ready="true").run(1)
        (error,) = self.error(given)
        assert -1260 < error < -1140

    def test_a_drain_that_is_slower_than_estimated_has_a_positive_error(self) -> None:
        given = ops().make("a").run(600).annotate("a", ready="true").run(1)
        (error,) = self.error(given)
        assert 540 < error < 660

    def test_what_a_person_has_started_is_not_measured(self) -> None:
        given = ops().make("a", annotations={"haulout.dev/hold": "true"}).run(5)
        assert reason(given, "a") == "waiting Held"
        given.claim("n0", "mid").run(5).annotate("a", ready="true").run(1)
        assert (given.status("a"), self.error(given)) == ("ObjectsDrained", [])


def test_a_place_that_comes_free_wakes_few() -> None:
    given = ops(nodes=60)
    for number in range(60):
        given.make(f"a{number}", f"n{number}", f"m{number}")
    given.run(20)
    [started] = in_flight(given, *(f"a{number}" for number in range(60)))
    given.delete(started).run(5)
    before = given.kernel.loop.askings
    given.uncordon(f"n{started[1:]}").run(10)
    assert given.kernel.loop.askings - before < 100
