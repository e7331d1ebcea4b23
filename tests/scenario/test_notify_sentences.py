"""Single sentences of the contract of notify that no longer scenario covers: clocks, classes of pods, ends and returns."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from haulout.core.action import Delete, Evict
from haulout.embedded import DISRUPTION_BUDGETS, NODES, PODS, Json
from haulout.surfaces.notify.wire import INCOMPLETE, OBJECTS_DRAINED, SCHEDULED, SLA_EXPIRED, STARTED, VALIDATING
from tests.build.drains import QUICK
from tests.build.notices import Notices, options
from tests.build.workloads import World, budget, daemon_set, node, pod

MARKS = ("haulout.dev/cordoned-by", "haulout.dev/force-return")


def ops(sla: str = "1h", nodes: int = 3, *, kubelets: bool = True, **operators: Json) -> Notices:
    enabled = {name: {"enabled": True, **block} for name, block in operators.items()}
    # Pods keep controllers that do not exist: nothing collects them.
    missing = {"gc"} if kubelets else {"gc", "kubelet"}
    lenient = msgspec.structs.replace(QUICK, actors=tuple(each for each in QUICK.actors if each not in missing))
    read = options(json.dumps({"slaPeriod": sla, "operators": enabled}))
    return Notices(read, world=World(lenient, nodes=nodes))


def pods(given: Notices) -> list[str]:
    return sorted(each["metadata"]["name"] for each in given.world.objects.list(PODS))


def removals(given: Notices) -> list[tuple[type, str, int | None]]:
    done = (body for body, _ in given.answered if isinstance(body, Evict | Delete))
    return [(type(body), body.target.name, body.grace_for) for body in done if body.target.kind == "Pod"]


def owned(kind: str, name: str, **spec: Any) -> Json:
    """Return a pod on the first node with a controller that does not exist, which runs for long."""
    made = pod(name, nodeName="n0", **spec)
    made["metadata"]["annotations"] = {"simulate.haulout.dev/exits-after": "99h"}
    api = {"Job": "batch/v1"}.get(kind, "apps/v1")
    owner = {"apiVersion": api, "kind": kind, "name": "owner", "uid": "u-1", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


class TestClock:
    def test_an_uncordon_after_the_deadline_completes_what_is_drained(self) -> None:
        given = ops("10m").drained("a").run(3600).uncordon("n0").run()
        assert (given.finalizers("a"), given.claims("n0")) == ([], [])

    @pytest.mark.parametrize("value", ["complete", "incomplete"])
    def test_nothing_goes_back_to_the_drain_after_the_deadline(self, value: str) -> None:
        given = ops("10m").drained("a").annotate("a", client=value).run()
        state = given.status("a")
        given.patch("a", {"status": {"conditions": []}}, "status").run(3600)
        assert given.status("a") == state in (VALIDATING, INCOMPLETE)

    def test_a_released_one_neither_expires_nor_reacts(self) -> None:
        given = ops("10m").started("a").uncordon("n0").run()
        writes = len(given.writes)
        given.annotate("a", ready="true", client="complete").claim("n0", "mid").run(3600)
        assert (given.status("a"), len(given.writes)) == (STARTED, writes)
        given.delete("a").run()
        assert given.found("a") is None
        assert given.reasons("a").count("MaintenanceComplete") == 1

    def test_a_terminal_one_does_not_expire(self) -> None:
        given = ops("10m").started("a").delete("a").run().annotate("a", ready="true").run(3600)
        assert given.path("a") == [SCHEDULED, STARTED]

    def test_a_time_of_a_condition_moves_with_its_status(self) -> None:
        def since(given: Notices) -> str:
            found = given.get("a")["status"]["conditions"]
            return next(str(each["lastTransitionTime"]) for each in found if each["type"] == "maintenanceClient")

        given = ops().drained("a").annotate("a", client="inprogress").run(5)
        before = since(given)
        given.run(60)
        assert since(given) == before
        given.annotate("a", client="complete").run()
        assert since(given) > before


class TestClasses:
    @pytest.mark.parametrize(
        ("made", "drainer", "gone"),
        [
            (owned("DaemonSet", "p"), {}, False),
            (owned("DaemonSet", "p"), {"unmanagedPods": "Evict"}, True),
            (owned("ReplicaSet", "p", volumes=[{"name": "v", "emptyDir": {}}]), {}, True),
            (
                owned("ReplicaSet", "p", volumes=[{"name": "v", "emptyDir": {}}]),
                {"deleteEmptyDirData": False},
                False,
            ),
            (owned("Job", "p", restartPolicy="Never"), {}, False),
            (owned("Job", "p", restartPolicy="Never"), {"runToCompletion": "Evict"}, True),
            (owned("ReplicaSet", "p"), {"policies": [{"controllerKinds": ["ReplicaSet"], "action": "Block"}]}, False),
            (owned("Job", "p", restartPolicy="Never"), {"policies": [{"selector": "app=p", "action": "Delete"}]}, True),
            (
                owned("Job", "p", restartPolicy="Never"),
                {"policies": [{"selector": "app=q", "action": "Delete"}]},
                False,
            ),
        ],
        ids=[
            *("lost DaemonSet", "lost DaemonSet, evicted", "emptyDir", "emptyDir kept", "finite", "finite evicted"),
            *("rule keeps", "rule deletes", "rule of others"),
        ],
    )
    def test_pods_are_classed_by_the_first_rule(self, made: Json, drainer: Json, gone: bool) -> None:
        given = ops(drainer=drainer)
        given.world.make(made)
        given.run(5).started("a").run(90)
        assert (pods(given) == []) is gone
        assert (given.status("a") == OBJECTS_DRAINED) is gone

    def test_a_word_of_a_pod_is_ignored_where_that_is_off(self) -> None:
        given = ops(drainer={"honorPodAnnotations": False})
        made = owned("ReplicaSet", "p")
        made["metadata"]["annotations"]["haulout.dev/drain"] = "ignore"
        given.world.make(made)
        assert pods(given.run(5).started("a").run(60)) == []

    def test_graces_are_those_of_the_phase(self) -> None:
        given = ops("10m", drainer={"gracePeriodSeconds": 7, "forcedGracePeriodSeconds": 3})
        given.world.make(owned("ReplicaSet", "soon"), pod("late", nodeName="n0"))
        given.run(5).started("a").run(700)
        assert removals(given) == [(Evict, "soon", 7), (Evict, "late", 3)]

    @pytest.mark.parametrize(("forces", "last"), [(True, (Delete, "p", 0)), (False, (Evict, "p", None))])
    def test_what_hangs_is_deleted_after_the_sla_where_that_is_on(
        self, forces: bool, last: tuple[type, str, int | None]
    ) -> None:
        given = ops("10m", kubelets=False, drainer={"forceDeleteStuck": forces, "stuckAfter": "1m"})
        made = owned("ReplicaSet", "p", terminationGracePeriodSeconds=10)
        given.world.make(made)
        given.run(5).started("a").run(500)
        assert removals(given) == [(Evict, "p", None)]
        given.run(400)
        assert removals(given)[-1] == last

    def test_evictions_stop_when_the_node_is_uncordoned(self) -> None:
        given = ops(drainer={})
        given.world.make(owned("ReplicaSet", "p"), budget("p", minAvailable=1))
        given.run(5).started("a").run(5).uncordon("n0").run()
        given.world.objects.delete(DISRUPTION_BUDGETS, "default", "p")
        assert pods(given.run(60)) == ["p"]

    def test_pods_of_daemon_sets_are_left_alone_after_the_sla_as_well(self) -> None:
        given = ops("10m", drainer={})
        given.world.make(daemon_set("agent"))
        given.run(30).started("a").run(1200)
        assert given.status("a") == OBJECTS_DRAINED
        assert [name for name in pods(given) if name.startswith("agent")]


class TestEnds:
    def test_a_scheduled_one_loses_its_label_when_another_completes(self) -> None:
        given = ops().drained("a", mid="id1").make("b", mid="id2").run()
        given.delete("a").run()
        given.world.change(NODES, "n0", {"metadata": {"labels": {"cordoned-by": "x", "maintenance/foreign": ""}}})
        given.uncordon("n0").run()
        labels = given.node("n0")["metadata"]["labels"]
        assert not [key for key in labels if key.startswith(("maintenance/", "cordoned"))]
        assert given.status("b") == SCHEDULED

    def test_the_end_of_a_terminal_one_needs_no_label(self) -> None:
        given = ops().drained("a").delete("a").run()
        given.world.change(NODES, "n0", {"metadata": {"labels": {"maintenance/mid": None}}})
        given.run().uncordon("n0").run()
        assert given.found("a") is None


class TestReturns:
    def test_a_cancelled_one_is_returned(self) -> None:
        given = ops(scheduler={}, returner={}).make("a").run(10)
        assert given.status("a") == STARTED
        given.delete("a").run(10)
        assert (given.found("a"), given.cordoned("n0"), given.claims("n0")) == (None, False, [])

    def test_one_that_is_deleted_between_claim_and_start_leaves_no_cordon(self) -> None:
        given = ops(returner={})
        given.world.change(
            NODES, "n0", {"metadata": {"annotations": {MARKS[0]: "fleet/a"}}, "spec": {"unschedulable": True}}
        )
        given.make("a").run(20)
        assert given.cordoned("n0")
        given.run(20)
        assert (given.cordoned("n0"), given.status("a")) == (False, SCHEDULED)

    def test_a_failed_one_holds_its_node(self) -> None:
        given = ops(scheduler={}, returner={}).make("a").run(10).annotate("a", ready="true").run()
        given.annotate("a", client="incomplete").run(120)
        assert (given.status("a"), given.cordoned("n0")) == (INCOMPLETE, True)

    def test_marks_of_a_schedulable_node_go_with_the_scheduler_alone(self) -> None:
        given = ops(scheduler={})
        given.world.change(NODES, "n0", {"metadata": {"annotations": dict.fromkeys(MARKS, "true")}})
        left = given.run(2).node("n0")["metadata"].get("annotations", {})
        assert not set(MARKS) & set(left)


class TestBudgets:
    def test_a_failed_maintenance_keeps_its_place(self) -> None:
        given = (
            ops(scheduler={"budgets": [{"name": "all", "maxUnavailable": 1}]}).make("a", "n0").make("b", "n1").run(10)
        )
        given.annotate("a", ready="true").run().annotate("a", client="incomplete").run(60)
        assert (given.status("a"), given.status("b")) == (INCOMPLETE, SCHEDULED)

    def test_a_node_is_subject_to_every_budget_that_selects_it(self) -> None:
        budgets = [
            {"name": "all", "maxUnavailable": 3},
            {"name": "gpu", "nodeSelector": "gpu=yes", "maxUnavailable": 1},
        ]
        given = ops(scheduler={"budgets": budgets})
        for number in range(3):
            given.world.make(node(f"g{number}", gpu="yes"))
            given.make(f"m{number}", f"g{number}")
        given.run(20)
        found = sorted(given.status(f"m{number}") for number in range(3))
        assert found == [SCHEDULED, SCHEDULED, STARTED]
        waiting = [given.get(f"m{number}") for number in range(3) if given.status(f"m{number}") == SCHEDULED]
        reasons = {each["reason"] for one in waiting for each in one["status"]["conditions"]}
        assert reasons == {"BudgetExhausted(gpu)"}

    def test_not_before_and_hold_are_told(self) -> None:
        given = ops(scheduler={})
        later = (given.now + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        given.make("a", "n0", annotations={"haulout.dev/not-before": later})
        given.make("b", "n1", annotations={"haulout.dev/hold": "true"}).run(20)
        reasons = [given.get(name)["status"]["conditions"][0]["reason"] for name in "ab"]
        assert reasons == ["NotBefore", "Held"]


def test_a_drain_is_forced_for_all_once_one_of_the_node_has_expired() -> None:
    given = ops("2h", drainer={})
    given.world.make(pod("bare", nodeName="n0"))
    given.run(5).started("a", mid="id1", annotations={"haulout.dev/sla-period": "10m"})
    given.make("b", mid="id2").run().label("n0", "id2").run(300)
    assert pods(given) == ["bare"]
    given.run(400)
    assert (pods(given), given.path("a")[-2:]) == ([], [SLA_EXPIRED, OBJECTS_DRAINED])
    assert given.status("b") == OBJECTS_DRAINED
