"""One budget and the pods that are to be evicted: which may go now, and until when that holds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import BudgetRow, PodRow, Value
from haulout.cluster.store import Store
from haulout.cluster.view import OUTCOME, View
from haulout.core.action import Refusal
from haulout.core.drain import pace
from haulout.core.drain.pace import PERMITS_OF_BUDGET, Permit
from haulout.core.drain.plan import EvictionRow, eviction_key, outcome_name
from tests.build.podrows import budget, budget_key, pod
from tests.build.rows import START, at

BY_BUDGET = "DisruptionBudget"
CLOSED = "Cannot evict pod as it would violate the pod's disruption budget."


class Desk:
    """The rows that a budget's decision reads, with its own answers kept as the kernel keeps them."""

    def __init__(self, *budgets: BudgetRow) -> None:
        self.store = Store()
        for kind in ("Pod", "PodDisruptionBudget"):
            self.store.begin_list("", kind)
            self.store.end_list("", kind, 1)
        self.until: datetime | None = None
        for each in budgets:
            self.store.put(each)

    def wants(self, *pods: PodRow, **fields: Any) -> Desk:
        """Add pods that are to be evicted."""
        for each in pods:
            self.store.put(each)
            self.store.write(
                EvictionRow(
                    key=eviction_key(each.key),
                    uid=each.uid,
                    pod=each.key,
                    node=node_key(each.node),
                    **{"labels": {"app": "web"}, "healthy": each.ready, **fields},
                )
            )
        return self

    def begins(self, *names: str, version: int, **fields: Any) -> Desk:
        """Mark pods as terminating, as the server does after an eviction. They are not to be evicted any more."""
        for name in names:
            self.store.put(pod(name, version=version, deleting_at=at(30), **fields))
            self.store.erase(eviction_key(Key("", "Pod", "default", name)))
        return self

    def shows(self, name: str = "web", **fields: Any) -> Desk:
        """Change the status of the budget."""
        row = self.store.row(budget_key(name))
        assert isinstance(row, BudgetRow)
        self.store.put(msgspec.structs.replace(row, **{"version": row.version + 10, **fields}))
        return self

    def refuses(self, name: str, seconds: float, code: int = 429, cause: str = BY_BUDGET) -> Desk:
        refusal = Refusal(code, CLOSED, cause, at(seconds))
        outcome = outcome_name(Key("", "Pod", "default", name), f"uid-{name}")
        self.store.write(Value(key=Key("", OUTCOME, "", outcome), state="failed", value=refusal))
        return self

    def asked(self, seconds: float = 0, name: str = "web") -> str:
        """Return the names of the pods that may be evicted."""
        key = budget_key(name)
        decision = pace.decide(key, View(self.store), at(seconds))
        for row in self.store.bucket(PERMITS_OF_BUDGET, "", key):
            if row.key not in {mark.key for mark in decision.marks}:
                self.store.erase(row.key)
        for mark in decision.marks:
            self.store.write(mark)
        self.until = decision.until
        permits = [mark for mark in decision.marks if isinstance(mark, Permit) and mark.gone_at is None]
        return "".join(sorted(permit.pod.name for permit in permits if permit.granted))


def pods(names: str, **fields: Any) -> list[PodRow]:
    return [pod(name, **fields) for name in names]


def test_as_many_as_it_allows_and_the_eldest_drain_first() -> None:
    desk = Desk(budget("web", allowed=2)).wants(*pods("xy"), since=at(-5)).wants(*pods("ab"), since=at(-9))
    assert desk.asked() == "ab"


def test_over_all_nodes_together() -> None:
    desk = Desk(budget("web", allowed=1)).wants(pod("a", node="n0"), pod("b", node="n1"), pod("c", node="n2"))
    assert desk.asked() == "a"
    assert desk.until is None, "it hears of what becomes of that one"


def test_not_more_than_two_at_once() -> None:
    """The server would make further evictions wait. Pods whose eviction costs the budget nothing do not count."""
    desk = Desk(budget("web", allowed=9, desired_healthy=2)).wants(*pods("abcd")).wants(pod("x", ready=False))
    assert desk.asked() == "abx"
    assert desk.shows(disruptions_allowed=8, disrupted=frozenset({"a"})).asked(1) == "abcx"
    assert desk.begins("b", version=15).asked(1) == "acdx", "marked before the budget shows it"


def test_only_those_that_it_selects() -> None:
    desk = Desk(budget("web", allowed=2)).wants(*pods("ab")).wants(pod("c"), labels={"app": "other"})
    assert desk.asked() == "ab"
    assert Desk(budget("web", allowed=2, selector=None)).wants(pod("a")).asked() == ""


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        pytest.param({}, "ab", id="everything"),
        pytest.param({"matchLabels": {"app": "web", "tier": "front"}}, "a", id="labels"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "x"]}]}, "ab", id="in"),
        pytest.param({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, "b", id="without"),
        pytest.param(
            {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}, "a", id="both"
        ),
        pytest.param({"matchLabels": {"app": "other"}}, "", id="none"),
    ],
)
def test_selectors(selector: dict[str, Any], covered: str) -> None:
    desk = Desk(budget("web", allowed=2, selector=selector))
    desk.wants(pod("a"), labels={"app": "web", "tier": "front"}).wants(pod("b"), labels={"app": "web"})
    desk.wants(pod("c", namespace="elsewhere"), labels={"app": "web"})
    assert desk.asked() == covered


def test_a_selector_that_cannot_be_read_selects_nobody() -> None:
    """As on the server (pkg/registry/core/pod/storage/eviction.go)."""
    broken = {"matchExpressions": [{"key": "app", "operator": "Around", "values": ["x"]}]}
    desk = Desk(budget("web", selector=broken)).wants(pod("a"))
    assert desk.asked() == ""
    assert not desk.store.bucket(PERMITS_OF_BUDGET, "", budget_key("web"))


@pytest.mark.parametrize("fields", [{"by_budget": False}, {"delete": True}], ids=["pending-or-ended", "deleted"])
def test_whoever_is_not_asked_about_waits_for_nothing(fields: dict[str, bool]) -> None:
    desk = Desk(budget("web", allowed=1)).wants(pod("a"), **fields).wants(pod("b"))
    assert desk.asked() == "b"
    assert len(desk.store.bucket(PERMITS_OF_BUDGET, "", budget_key("web"))) == 1


def test_a_budget_that_is_not_there_any_more() -> None:
    assert Desk().wants(pod("a")).asked() == ""


class TestNotReady:
    def test_cost_nothing_where_the_policy_says_so(self) -> None:
        desk = Desk(budget("web", unhealthy_policy="AlwaysAllow", current_healthy=0, desired_healthy=3))
        assert desk.wants(*pods("ab", ready=False)).wants(pod("c")).asked() == "ab"

    @pytest.mark.parametrize("policy", ["", "IfHealthyBudget"])
    @pytest.mark.parametrize(
        ("healthy", "needed", "goes"), [(2, 2, "ab"), (3, 2, "ab"), (1, 2, ""), (0, 0, "")], ids=str
    )
    def test_cost_nothing_where_enough_others_are(self, policy: str, healthy: int, needed: int, goes: str) -> None:
        closed = budget("web", unhealthy_policy=policy, current_healthy=healthy, desired_healthy=needed)
        assert Desk(closed).wants(*pods("ab", ready=False)).asked() == goes

    def test_leave_the_count_to_others(self) -> None:
        desk = Desk(budget("web", allowed=1)).wants(pod("a", ready=False)).wants(*pods("bc"))
        assert desk.asked() == "ab"

    def test_use_the_count_where_they_must(self) -> None:
        short = budget("web", allowed=1, current_healthy=1, desired_healthy=2)
        assert Desk(short).wants(*pods("ab", ready=False)).asked() == "a"


class TestUnobserved:
    def test_nothing_is_tried_before_its_controller_has_looked(self) -> None:
        desk = Desk(budget("web", allowed=5, generation=2, observed_generation=1)).wants(*pods("ab"))
        assert desk.asked() == ""
        assert desk.shows(observed_generation=2).asked(1) == "ab"


class TestAccounting:
    """A pod that may be evicted counts until the budget shows it."""

    def test_the_same_place_is_not_given_twice(self) -> None:
        desk = Desk(budget("web", allowed=1)).wants(*pods("abc"))
        assert [desk.asked(), desk.asked(1), desk.asked(2)] == ["a", "a", "a"]

    def test_marked_before_the_budget_shows_it(self) -> None:
        desk = Desk(budget("web", allowed=1)).wants(*pods("ab"))
        desk.asked()
        assert desk.begins("a", version=5).asked(1) == ""
        assert desk.until == at(6), "by then it is shown, or never"

    def test_shown_as_disrupted(self) -> None:
        desk = Desk(budget("web", allowed=2)).wants(*pods("abcd"))
        assert desk.asked() == "ab"
        desk.shows(disruptions_allowed=1, disrupted=frozenset({"a"}))
        assert desk.asked(1) == "ab", "one is shown, the other still counts: nobody else fits"
        desk.shows(disruptions_allowed=0, disrupted=frozenset({"a", "b"})).begins("a", "b", version=20)
        assert desk.asked(2) == ""
        desk.shows(disruptions_allowed=2, disrupted=frozenset())
        assert desk.asked(3) == "cd", "replaced, and the two before are forgotten"

    def test_a_later_word_of_the_budget_has_it_counted_in(self) -> None:
        desk = Desk(budget("web", allowed=1)).wants(*pods("ab"))
        desk.asked()
        desk.begins("a", version=5)
        assert desk.shows(disruptions_allowed=1).asked(1) == "b"

    def test_an_earlier_word_has_not(self) -> None:
        desk = Desk(budget("web", allowed=1)).wants(*pods("ab"))
        desk.asked()
        desk.begins("a", version=50)
        assert desk.shows(disruptions_allowed=1, current_healthy=4).asked(1) == ""

    def test_what_is_never_shown_is_forgotten_after_a_while(self) -> None:
        """Such as one that was not ready any more when the server looked."""
        desk = Desk(budget("web", allowed=1)).wants(*pods("ab"))
        desk.asked()
        desk.begins("a", version=50)
        assert [desk.asked(1), desk.asked(5.9), desk.asked(6)] == ["", "", "b"]

    def test_one_that_is_not_to_go_any_more_gives_its_place_back_after_a_while(self) -> None:
        desk = Desk(budget("web", allowed=1)).wants(*pods("ab"))
        desk.asked()
        desk.store.erase(eviction_key(Key("", "Pod", "default", "a")))
        assert [desk.asked(1), desk.asked(6)] == ["", "b"]

    def test_another_pod_of_the_same_name_asks_anew(self) -> None:
        desk = Desk(budget("web", allowed=1)).wants(pod("a"))
        desk.asked()
        desk.shows(disruptions_allowed=0).wants(pod("a", uid="uid-other", version=9))
        assert desk.asked(1) == ""


class TestRefused:
    def test_waits_until_the_budget_speaks_again(self) -> None:
        desk = Desk(budget("web", allowed=1)).wants(pod("a"))
        assert desk.asked() == "a"
        assert desk.refuses("a", 1).asked(1) == ""
        assert desk.asked(2) == "", "the same word of the budget is not tried again"
        assert desk.shows(disruptions_allowed=1).asked(3) == "a"

    def test_its_place_is_free_for_others_at_once(self) -> None:
        desk = Desk(budget("web", allowed=1)).wants(*pods("ab"))
        desk.asked()
        assert desk.refuses("a", 1).asked(1) == "b"

    def test_a_refusal_is_held_against_it_once(self) -> None:
        desk = Desk(budget("web", allowed=1)).wants(pod("a"))
        desk.asked()
        desk.refuses("a", 1).asked(1)
        desk.shows(disruptions_allowed=1).asked(2)
        assert desk.asked(3) == "a"
        assert desk.refuses("a", 4).asked(4) == ""

    def test_a_refusal_of_an_earlier_drain_is_not_held_against_it(self) -> None:
        desk = Desk(budget("web", allowed=1)).refuses("a", -1).wants(pod("a"))
        assert [desk.asked(), desk.asked(1)] == ["a", "a"]
        assert desk.refuses("a", 2).asked(2) == ""

    def test_one_that_fails_for_another_reason_keeps_nobody_waiting(self) -> None:
        """Under two budgets, for example: the server refuses it for good and counts nothing."""
        desk = Desk(budget("web", allowed=1)).wants(*pods("ab"))
        assert desk.asked() == "a"
        assert desk.refuses("a", 1, 500, "").asked(1) == "ab"

    def test_nor_does_it_stand_in_the_way_of_the_slow_try(self) -> None:
        desk = Desk(budget("web", allowed=1)).wants(*pods("ab"))
        desk.asked()
        desk.refuses("a", 1, 500, "").shows(disruptions_allowed=0)
        assert [desk.asked(2), desk.asked(31.9), desk.asked(32)] == ["a", "a", "ab"]


class TestSlowTry:
    """Should the budget's count be wrong, one is tried every 30 s all the same."""

    def test_one_after_30_seconds(self) -> None:
        desk = Desk(budget("web")).wants(*pods("abc"))
        assert [desk.asked(), desk.asked(29.9)] == ["", ""]
        assert desk.until == at(30)
        assert desk.asked(30) == "a"

    def test_then_another_one_after_30_more(self) -> None:
        """However many wait: one try, not one for each of them."""
        desk = Desk(budget("web")).wants(*pods("ab"))
        desk.asked()
        desk.asked(30)
        assert desk.refuses("a", 30.1).asked(30.1) == ""
        assert desk.until == at(60.1)
        assert [desk.asked(60), desk.asked(60.1)] == ["", "b"]

    def test_not_while_the_budget_speaks(self) -> None:
        desk = Desk(budget("web")).wants(*pods("ab"))
        desk.asked()
        desk.shows(current_healthy=2)
        assert [desk.asked(20), desk.asked(30), desk.asked(49)] == ["", "", ""]
        assert desk.until == at(50)
        assert desk.asked(50) == "a"

    def test_not_while_one_is_on_its_way(self) -> None:
        desk = Desk(budget("web", allowed=1)).wants(*pods("ab"))
        assert [desk.asked(), desk.asked(31)] == ["a", "a"]


def test_nothing_to_do_is_nothing_to_wait_for() -> None:
    desk = Desk(budget("web", allowed=3))
    assert desk.asked() == ""
    assert desk.until is None


def test_waiting_since_the_first_asking() -> None:
    desk = Desk(budget("web")).wants(pod("a"))
    desk.asked(0)
    desk.asked(7)
    (permit,) = desk.store.bucket(PERMITS_OF_BUDGET, "", budget_key("web"))
    assert isinstance(permit, Permit)
    assert permit.waiting_since == START
