"""One node: which of its pods are evicted now, and the outcome of each eviction."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from haulout.base.selector import parse
from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import PodRow, Row, Value
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import OUTCOME, NotListed, View
from haulout.core.action import Delete, Evict, Refusal
from haulout.core.drain import eviction, plan
from haulout.core.drain.options import Act, DrainOptions, DrainRow, PodRules, Rule, drain_row
from haulout.core.drain.pace import Permit, permit_key
from haulout.core.drain.plan import EvictionRow, eviction_key, outcome_name
from tests.build.podrows import budget_key, owner, pod, pod_key
from tests.build.rows import at, node

EVERYTHING = DrainOptions(force=True, ignore_daemonsets=True, delete_local_data=True)
OUT = node("n0", cordoned=True)
N0 = node_key("n0")


def drain(surface: str = "toy", **fields: Any) -> DrainRow:
    return msgspec.structs.replace(drain_row(surface, N0, N0, options=EVERYTHING), **fields)


def store_of(*rows: Row) -> Store:
    store = Store()
    for kind in ("Node", "Pod", "PodDisruptionBudget", "DaemonSet"):
        store.begin_list("", kind)
        store.end_list("", kind, 1)
    for row in rows:
        if row.key.kind in ("Node", "Pod"):
            store.put(row)
        else:
            store.write(row)
    return store


def wanted(*rows: Row, seconds: float = 0) -> dict[str, EvictionRow]:
    decision = plan.decide(N0, View(store_of(*rows)), at(seconds))
    return {mark.pod.name: mark for mark in decision.marks if isinstance(mark, EvictionRow)}


def controlled(name: str, **fields: Any) -> PodRow:
    return pod(name, owner(), **fields)


class TestWho:
    def test_nobody_from_a_node_that_could_take_them_back(self) -> None:
        assert list(wanted(OUT, drain(), controlled("p"))) == ["p"]
        assert not wanted(node("n0"), drain(), controlled("p"))
        assert not wanted(drain(), controlled("p"))
        assert not wanted(OUT, controlled("p"))

    def test_nobody_who_is_on_the_way_out(self) -> None:
        assert list(wanted(OUT, drain(), controlled("p"), controlled("q", deleting_at=at(9)))) == ["p"]

    def test_nobody_where_the_drain_must_not_begin(self) -> None:
        assert not wanted(OUT, drain(options=DrainOptions()), controlled("p"), pod("bare"))

    def test_another_drain_is_not_its_business(self) -> None:
        rows = (OUT, drain(options=DrainOptions()), drain("other"), controlled("p"), pod("bare"))
        assert list(wanted(*rows)) == ["bare", "p"]

    def test_the_lowest_order_that_is_left(self) -> None:
        rules = PodRules(tuple(Rule(Act.EVICT, selector=parse(f"o={order}"), order=order) for order in (1, 2)))
        first, second = pod("a", labels={"o": "1"}), pod("b", labels={"o": "2"})
        assert list(wanted(OUT, drain(rules=rules), first, second)) == ["a"]
        ending = msgspec.structs.replace(first, deleting_at=at(9))
        assert not wanted(OUT, drain(rules=rules), ending, second), "it has to be gone first"
        assert list(wanted(OUT, drain(rules=rules), second)) == ["b"]

    def test_one_that_a_rule_keeps_holds_up_no_other(self) -> None:
        rules = PodRules((Rule(Act.BLOCK, selector=parse("keep"), order=-5),))
        assert list(wanted(OUT, drain(rules=rules), pod("a", labels={"keep": ""}), pod("b"))) == ["b"]


class TestHow:
    def test_as_the_drain_says(self) -> None:
        row = wanted(OUT, drain(options=msgspec.structs.replace(EVERYTHING, grace_for=7), retry_for=9), controlled("p"))
        assert (row["p"].grace_for, row["p"].retry_for, row["p"].delete, row["p"].uid) == (7, 9, False, "uid-p")

    @pytest.mark.parametrize(
        ("phase", "asked"), [("Running", True), ("Pending", False), ("Succeeded", False), ("Failed", False)]
    )
    def test_budgets_are_asked_about_running_pods_alone(self, phase: str, asked: bool) -> None:
        assert wanted(OUT, drain(), controlled("p", phase=phase))["p"].by_budget is asked

    def test_one_pod_once_with_the_strongest_act(self) -> None:
        by_hand = drain("other", options=msgspec.structs.replace(EVERYTHING, disable_eviction=True))
        assert wanted(OUT, drain(), by_hand, controlled("p"))["p"].delete
        assert wanted(OUT, by_hand, drain(), controlled("p"))["p"].delete

    def test_of_equal_acts_the_elder_drain(self) -> None:
        rows = (OUT, drain("a", since=at(5)), drain("b", since=at(3)), drain("c", since=at(4)), controlled("p"))
        assert wanted(*rows)["p"].since == at(3)

    def test_after_the_deadline_where_it_is_to_force(self) -> None:
        late = drain(deadline_at=at(10), force_after=True)
        slow = controlled("slow", deleting_at=at(60), deletion_grace_for=60)
        now_gone = controlled("now", deleting_at=at(1), deletion_grace_for=0)
        assert list(wanted(OUT, late, slow, controlled("p"), seconds=9)) == ["p"]
        forced = wanted(OUT, late, slow, now_gone, controlled("p"), seconds=10)
        assert {name: (row.delete, row.grace_for) for name, row in forced.items()} == {
            "p": (True, 0),
            "slow": (True, 0),
        }
        assert plan.decide(N0, View(store_of(OUT, late, slow)), at(9)).until == at(10)

    def test_a_deadline_alone_changes_nothing_here(self) -> None:
        late = drain(deadline_at=at(10))
        assert not wanted(OUT, late, controlled("p"), seconds=11)["p"].delete
        assert plan.decide(N0, View(store_of(OUT, late)), at(9)).until is None


WISH = EvictionRow(key=eviction_key(pod_key("p")), uid="uid-p", pod=pod_key("p"), node=N0, surface="toy")
NAME = outcome_name(pod_key("p"), "uid-p")
EVICT = Evict(pod_key("p"), "uid-p", None, NAME, "toy")


def permit(*, granted: bool, of: str = "web") -> Permit:
    who = {"pod": pod_key("p"), "pod_uid": "uid-p", "budget": budget_key(of)}
    return Permit(key=permit_key(budget_key(of), pod_key("p")), granted=granted, waiting_since=at(0), **who)  # type: ignore[arg-type]


def refused(code: int, cause: str = "") -> Value:
    return Value(key=Key("", OUTCOME, "", NAME), state="failed", value=Refusal(code, "no", cause, at(0)))


def done(*rows: Row, seconds: float = 0, **fields: Any) -> list[object]:
    store = store_of(msgspec.structs.replace(WISH, **fields), *rows)
    decision = eviction.decide(WISH.key, View(store), at(seconds))
    return [action for step in decision.actions for action in step]


class TestEvicting:
    def test_at_once_where_no_budget_covers_it(self) -> None:
        assert done(controlled("p")) == [EVICT]

    def test_when_its_budget_lets_it(self) -> None:
        assert done(controlled("p"), permit(granted=False)) == []
        assert done(controlled("p"), permit(granted=True)) == [EVICT]
        assert done(controlled("p"), permit(granted=False), by_budget=False) == [EVICT]

    def test_under_several_budgets_for_the_servers_words(self) -> None:
        assert done(controlled("p"), permit(granted=False), permit(granted=False, of="all")) == [EVICT]

    def test_never_another_pod_of_the_name(self) -> None:
        assert done(controlled("p", uid="uid-new")) == done() == []

    def test_not_what_is_on_its_way_out(self) -> None:
        assert done(controlled("p", deleting_at=at(5))) == []
        assert done(controlled("p", deleting_at=at(5)), delete=True, grace_for=0) == [
            Delete(pod_key("p"), "uid-p", 0, NAME, "toy")
        ]

    def test_again_after_a_while_where_it_failed(self) -> None:
        assert done(controlled("p"), refused(500), seconds=4.9) == []
        assert done(controlled("p"), refused(500), seconds=5) == [EVICT]
        assert done(controlled("p"), refused(500), seconds=5, retry_for=60) == []

    def test_a_budget_that_refused_is_its_own_clock(self) -> None:
        assert done(controlled("p"), permit(granted=True), refused(429, "DisruptionBudget")) == [EVICT]
        assert done(controlled("p"), permit(granted=True), refused(429), seconds=4) == [], "the server is busy"

    def test_budgets_that_cannot_be_read_are_tried(self) -> None:
        store = store_of(WISH, controlled("p"), refused(429, "DisruptionBudget"))
        store.set_listing("", "PodDisruptionBudget", Listing.UNREADABLE, "forbidden")
        assert eviction.decide(WISH.key, View(store), at(4)).until == at(5)
        assert eviction.decide(WISH.key, View(store), at(5)).actions == ((EVICT,),)

    def test_budgets_that_are_not_listed_yet_are_waited_for(self) -> None:
        store = store_of(WISH, controlled("p"))
        store.set_listing("", "PodDisruptionBudget", Listing.WAITING)
        with pytest.raises(NotListed):
            eviction.decide(WISH.key, View(store), at(0))
