"""Budgets, one rule at a time: how they are read and rounded, what counts, what they refuse and which reasons they give."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest

from haulout.base.selector import parse
from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import Limit
from haulout.cluster.rows import NodeRow, ObjectRow
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import View
from haulout.core.action import Label, Measure, Say
from haulout.core.arbiter import FIRST, Rules, arbiter
from haulout.core.budgets.budget import Budget, Share, read_budget
from haulout.core.budgets.quorum import KEEPER
from haulout.core.budgets.rule import RULER
from haulout.core.budgets.status import PACE_FOR, TELLER, samples
from haulout.core.budgets.wire import KIND, NODE_BUDGETS, NodeBudgetRow, NodeDisruptionBudget
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.holds import (
    MOST_PRIORITY,
    PRIORITY_ANNOTATION,
    Claim,
    Grant,
    Rank,
    Want,
    grant_key,
    hold_key,
    is_granted,
    read_priority,
)
from haulout.core.reason import Reason
from haulout.kernel.requests import Change, Telling
from haulout.kernel.rooms import Subject
from haulout.model.meta import ObjectMeta
from tests.build.budgets import budget, budget_key
from tests.build.desk import Cluster, Desk, Script, targets
from tests.build.rows import START, node

A, B, C, D = (node_key(name) for name in "abcd")
ZONES = {"a": "z0", "b": "z0", "c": "z1", "d": ""}
SURFACE = "profiles"


# Reading


@pytest.mark.parametrize(
    ("percent", "total", "most"),
    [(50, 5, 2), (10, 5, 1), (10, 0, 1), (1, 99, 1), (1, 250, 2), (0, 100, 0), (100, 7, 7), (33, 100, 33), (34, 3, 1)],
)
def test_a_percentage_is_rounded_down_but_is_at_least_one(percent: int, total: int, most: int) -> None:
    assert Share(percent).of(total) == most


def test_what_a_budget_says() -> None:
    read = read_budget(
        budget(
            "b",
            selector={"matchExpressions": [{"key": "pool", "operator": "In", "values": ["x"]}]},
            maxUnavailable="25%",
            topologyKey="topology.kubernetes.io/zone",
            maxDomains=2,
            windows=[{"days": ["Mon"]}],
            surfaces=["profiles"],
        )
    )
    assert read.problems == ()
    assert (read.selector, read.most) == (parse("pool=x"), Share(25))
    assert (read.topology_key, read.most_domains, read.surfaces) == (
        "topology.kubernetes.io/zone",
        2,
        frozenset({"profiles"}),
    )
    assert len(read.windows.all) == 1


@pytest.mark.parametrize("spec", [None, {}, {"selector": {}}, {"selector": None, "windows": None}], ids=str)
def test_an_empty_budget_says_nothing(spec: Any) -> None:
    assert read_budget(NodeBudgetRow(key=budget_key("b"), spec=spec)) == Budget(budget_key("b"))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("text", "spec: must be an object"),
        ({"selector": "pool=x"}, "spec.selector: must be an object"),
        ({"selector": {"matchLabels": {"x": "not a label"}}}, "spec.selector.matchLabels[x]"),
        (
            {"selector": {"matchExpressions": [{"key": "x", "operator": "Like"}]}},
            "is not a valid label selector operator",
        ),
        ({"maxUnavailable": -1}, "spec.maxUnavailable: -1 is neither a number nor a percentage (3 or 10%)"),
        ({"maxUnavailable": "101%"}, "spec.maxUnavailable: 101% is neither"),
        ({"maxUnavailable": "3"}, "spec.maxUnavailable: 3 is neither"),
        ({"maxUnavailable": True}, "spec.maxUnavailable: True is neither"),
        ({"maxUnavailable": 1.5}, "spec.maxUnavailable: 1.5 is neither"),
        ({"topologyKey": "no label"}, "spec.topologyKey: no label is no label"),
        ({"topologyKey": 3}, "spec.topologyKey: 3 is no label"),
        ({"topologyKey": "zone", "maxDomains": 0}, "spec.maxDomains: 0 is no number of at least 1"),
        ({"maxDomains": 2}, "spec.maxDomains: needs spec.topologyKey"),
        ({"windows": {"days": ["Mon"]}}, "spec.windows: must be a list"),
        ({"windows": [{"days": ["Mon"]}, {"schedule": "x", "duration": "1h"}]}, 'spec.windows[1].schedule: "x"'),
        ({"surfaces": []}, "spec.surfaces: must be a list with at least one surface"),
        ({"surfaces": ["ghosts"]}, "spec.surfaces: there is no surface ghosts"),
        ({"surfaces": [[]]}, "spec.surfaces: there is no surface []"),
    ],
)
def test_what_is_wrong_with_a_budget(spec: Any, said: str) -> None:
    (problem,) = read_budget(NodeBudgetRow(key=budget_key("b"), spec=spec)).problems
    assert said in problem


def test_all_that_is_wrong_is_said() -> None:
    assert len(read_budget(budget("b", maxUnavailable=-1, surfaces=[], windows=[{}, {}])).problems) == 4


def test_what_is_kept_of_the_object() -> None:
    meta = ObjectMeta(name="b", generation=7)
    row = NODE_BUDGETS.project(NodeDisruptionBudget(meta, spec={"x": 1}, status="odd"), {"key": budget_key("b")})
    assert row == NodeBudgetRow(key=budget_key("b"), spec={"x": 1}, status="odd", generation=7)
    assert NODE_BUDGETS.object_path(row.key) == "/apis/haulout.dev/v1alpha1/nodedisruptionbudgets/b"


# Refusing


def takes(surface: str = SURFACE, *wants: Want) -> Decider:
    """Take nodes with the label `want` out of service once that is granted."""

    def decide(key: Key, view: View, now: datetime) -> Decision:
        row = view.get(key, NodeRow)
        if row is None or "want" not in row.labels:
            return NOTHING
        claim = claim_on(key, *wants, begun=row.labels.get(surface) == "in")
        acts = is_granted(view, surface, claim) and not claim.begun
        return Decision(((Label(key, surface, "in"),),) if acts else (), claims=(claim,))

    return Decider(surface, "Node", decide)


def claim_on(key: Key, *wants: Want, begun: bool = False) -> Claim:
    return Claim(key, key, frozenset(wants or {Want.DRAIN}), begun=begun)


def desk_of(*rows: ObjectRow, surfaces: tuple[Decider, ...] | None = None) -> Desk:
    deciders = surfaces or (takes(),)
    judge = arbiter(Rules(tuple(decider.name for decider in deciders), budgets=True))
    return Desk(RULER, KEEPER, *deciders, judge, TELLER, world=Cluster(*rows), kinds=("Node", KIND)).begin()


def fleet(*wanted: str, **changes: dict[str, Any]) -> list[NodeRow]:
    labels = {name: {"zone": zone} if zone else {} for name, zone in ZONES.items()}
    wishes = {name: {"want": ""} if name in wanted else {} for name in ZONES}
    rows = [node(name, labels={**labels[name], **wishes[name]}) for name in ZONES]
    return [msgspec.structs.replace(row, **changes.get(row.key.name, {})) for row in rows]


def grant(desk: Desk, key: Key, surface: str = SURFACE, *wants: Want) -> Grant:
    found = desk.store.row(grant_key(hold_key(surface, claim_on(key, *wants))))
    assert isinstance(found, Grant)
    return found


def granted(desk: Desk) -> list[str]:
    return [
        name
        for name in ZONES
        if desk.store.row(grant_key(hold_key(SURFACE, claim_on(node_key(name)))))
        and grant(desk, node_key(name)).granted
    ]


CORDONED = {"unschedulable": True}
DOWN: dict[str, Any] = {"conditions": (("Ready", "Unknown"),)}
UNHEARD: dict[str, Any] = {"conditions": ()}


@pytest.mark.parametrize(
    ("spec", "changes", "goes"),
    [
        pytest.param({"maxUnavailable": 2}, {}, "ab", id="as many as allowed"),
        pytest.param({"maxUnavailable": 2}, {"d": CORDONED}, "a", id="a cordoned node counts"),
        pytest.param({"maxUnavailable": 2}, {"d": DOWN}, "a", id="a node that is not ready counts"),
        pytest.param({"maxUnavailable": 2}, {"d": UNHEARD}, "a", id="a node that was never heard of counts"),
        pytest.param({"maxUnavailable": 0}, {}, "", id="none"),
        pytest.param({"maxUnavailable": "0%"}, {}, "", id="none of a hundred"),
        pytest.param({"maxUnavailable": "50%"}, {}, "ab", id="half of four"),
        pytest.param({"maxUnavailable": "20%"}, {}, "a", id="a fifth of four is one"),
        pytest.param({}, {}, "abc", id="no number"),
        pytest.param({"maxUnavailable": 1}, {"b": CORDONED}, "b", id="a node that is out itself needs no further place"),
        pytest.param({"maxUnavailable": 1}, {"b": CORDONED, "d": DOWN}, "", id="unless more than allowed are"),
        pytest.param({"maxUnavailable": 0}, {"b": CORDONED}, "", id="none means none"),
        pytest.param({"topologyKey": "zone"}, {}, "ab", id="one zone at a time"),
        pytest.param({"topologyKey": "zone"}, {"c": DOWN}, "c", id="the zone that is open already"),
        pytest.param({"topologyKey": "zone", "maxDomains": 2}, {}, "abc", id="two zones"),
        pytest.param({"topologyKey": "zone", "maxDomains": 2}, {"d": DOWN}, "ab", id="a node without a zone is one"),
        pytest.param({"topologyKey": "zone", "maxUnavailable": 1}, {}, "a", id="one node of one zone"),
        pytest.param({"topologyKey": "rack", "maxDomains": 2}, {}, "ab", id="a label that no node has"),
        pytest.param({"selector": {"matchLabels": {"zone": "z0"}}, "maxUnavailable": 1}, {}, "ac", id="only those selected"),
        pytest.param({"selector": {"matchLabels": {"zone": "z0"}}, "maxUnavailable": "50%"}, {}, "ac", id="of those selected"),
        pytest.param({"surfaces": ["packages"], "maxUnavailable": 0}, {}, "abc", id="it refuses others"),
        pytest.param({"surfaces": ["profiles"], "maxUnavailable": 0}, {}, "", id="it refuses this one"),
        pytest.param({"windows": [{"from": "11:00", "to": "12:00"}]}, {}, "", id="a closed window"),
        pytest.param({"windows": [{"from": "09:00", "to": "12:00"}]}, {}, "abc", id="an open window"),
        pytest.param({"maxUnavailable": -1}, {}, "", id="an invalid budget"),
        pytest.param({"selector": {"matchLabels": {"zone": "z1"}}, "maxUnavailable": -1}, {}, "ab", id="invalid for some"),
        pytest.param({"selector": "?", "maxUnavailable": 9}, {}, "", id="for whom cannot be read"),
        pytest.param({"surfaces": ["packages"], "maxUnavailable": -1}, {}, "abc", id="invalid for another surface"),
    ],
)  # fmt: skip
def test_who_may_go(spec: dict[str, Any], changes: dict[str, dict[str, Any]], goes: str) -> None:
    desk = desk_of(*fleet("a", "b", "c", **changes), budget("limit", **spec))
    assert granted(desk) == list(goes)


def test_the_turn_to_work_alone_costs_nothing() -> None:
    desk = desk_of(*fleet("a"), budget("none", maxUnavailable=0), surfaces=(takes(SURFACE, Want.EXCLUSIVE),))
    assert grant(desk, A, SURFACE, Want.EXCLUSIVE).granted


def test_where_budgets_are_off_they_are_not_even_waited_for() -> None:
    world = Cluster(*fleet("a"), budget("none", maxUnavailable=0))
    desk = Desk(takes(), arbiter(Rules((SURFACE,))), world=world).begin()
    assert granted(desk) == ["a"]


def test_budgets_that_are_not_listed_yet_are_waited_for() -> None:
    world = Cluster(*fleet("a"))
    desk = Desk(RULER, KEEPER, takes(), arbiter(Rules((SURFACE,), budgets=True)), world=world).begin()
    assert granted(desk) == []
    desk.feed.kinds = ("Node", KIND)
    desk.feed.list()
    desk.run()
    assert granted(desk) == ["a"]


def test_while_budgets_cannot_be_read_nothing_new_is_disrupted() -> None:
    world = Cluster(*fleet("a"))
    desk = Desk(RULER, KEEPER, takes(), arbiter(Rules((SURFACE,), budgets=True)), world=world).begin()
    desk.store.set_listing("", KIND, Listing.UNREADABLE, "not you")
    desk.run()
    (reason,) = grant(desk, A).reasons
    assert (reason.code, reason.text) == ("budgets-unreadable", "NodeDisruptionBudgets cannot be read: not you")
    desk.store.set_listing("", KIND, Listing.LISTED)
    desk.run()
    assert granted(desk) == ["a"]


def test_budgets_that_may_no_longer_be_read_refuse_too() -> None:
    desk = desk_of(*fleet(), budget("many", maxUnavailable=9))
    desk.store.set_listing("", KIND, Listing.UNREADABLE)
    desk.world.label(A, want="")
    desk.watch()
    desk.wait(100)
    assert [reason.code for reason in grant(desk, A).reasons] == ["budgets-unreadable"]
    assert not desk.failed


def test_what_has_begun_is_counted_and_never_refused() -> None:
    rows = fleet("a", "b")
    begun = msgspec.structs.replace(rows[1], labels={**rows[1].labels, SURFACE: "in"})
    desk = desk_of(
        rows[0], begun, *rows[2:], budget("one", maxUnavailable=1, windows=[{"from": "11:00", "to": "12:00"}])
    )
    assert granted(desk) == ["b"]
    assert [reason.code for reason in grant(desk, A).reasons] == ["window-closed", "budget-full"]


def test_a_second_surface_joins_at_no_cost_but_not_through_a_closed_window() -> None:
    """The first is held by a surface that the budget does not refuse; it takes the only place."""
    one, two = takes("packages"), takes("profiles")
    spec = {"maxUnavailable": 0, "surfaces": ["profiles"]}
    desk = desk_of(*fleet("a", "b"), budget("none", **spec), surfaces=(one, two))
    assert grant(desk, A, "packages").granted
    assert grant(desk, A, "profiles").granted
    closed = {"windows": [{"from": "11:00", "to": "12:00"}], "surfaces": ["profiles"]}
    desk = desk_of(*fleet("a", "b"), budget("closed", **closed), surfaces=(one, two))
    assert grant(desk, A, "packages").granted
    assert [reason.code for reason in grant(desk, A, "profiles").reasons] == ["window-closed"]


# Reasons


def flat(reason: Reason) -> tuple[str, str, list[str]]:
    return reason.code, reason.text, [cause.text for cause in reason.because]


def test_why_it_is_refused() -> None:
    changes = {"c": CORDONED, "d": {**CORDONED, **DOWN}}
    rows = (budget("few", maxUnavailable=1), budget("zones", topologyKey="zone"), *fleet("a", "b", **changes))
    desk = desk_of(*rows)
    few, zones = grant(desk, A).reasons
    assert flat(few) == (
        "budget-full",
        "budget few: at most 1 node may be out at a time",
        ["c is cordoned", "d is cordoned and not ready"],
    )
    assert flat(zones) == (
        "domain-taken",
        "budget zones: nodes may be out in at most 1 domain of zone at a time",
        ["c (z1) is cordoned", "d is cordoned and not ready"],
    )
    assert {few.subject, zones.subject} == {budget_key("few"), budget_key("zones")}


def test_who_is_promised_a_place_is_named_too() -> None:
    desk = desk_of(*fleet("a", "b"), budget("few", maxUnavailable=1))
    (reason,) = grant(desk, B).reasons
    assert [cause.text for cause in reason.because] == ["a is about to go"]


def test_a_closed_window_says_when_it_opens_and_wakes_only_those_who_fit() -> None:
    spec = {"maxUnavailable": 1, "windows": [{"from": "11:00", "to": "12:00"}]}
    desk = desk_of(*fleet("a", "b", "c"), budget("noon", **spec))
    (reason,) = grant(desk, A).reasons
    assert (reason.code, reason.until) == ("window-closed", START.replace(hour=11))
    before = desk.kernel.loop.askings
    desk.wait(3601)
    assert granted(desk) == ["a"]
    # The budget for its window and its status, and one node: for its claims, for its grant, and for the write.
    assert desk.kernel.loop.askings - before <= 6
    assert [reason.code for reason in grant(desk, B).reasons] == ["window-closed"]


@pytest.mark.parametrize("crowd", [40, 400])
@pytest.mark.parametrize(
    "spec",
    [{"maxUnavailable": 1}, {"topologyKey": "kubernetes.io/hostname"}, {"topologyKey": "zone", "maxUnavailable": 1}],
    ids=["places", "domains of one node", "zones"],
)
def test_the_cost_of_a_freed_place_does_not_grow_with_the_crowd(crowd: int, spec: dict[str, Any]) -> None:
    names = [f"n{number:03}" for number in range(crowd)]
    labels = [{"zone": f"z{number % 3}", "kubernetes.io/hostname": name} for number, name in enumerate(names)]
    rows = [node(name, labels=each, want="") for name, each in zip(names, labels, strict=True)]
    desk = desk_of(*rows, budget("limit", **spec))
    desk.wait(10)
    for name in names[:3]:
        (request,) = [each for each in desk.tray if targets([each]) == [node_key(name)]]
        desk.meet(request)
        before = desk.kernel.loop.askings
        desk.world.put(msgspec.structs.replace(desk.world.objects[node_key(name)], labels=labels[int(name[1:])]))
        desk.watch()
        assert desk.kernel.loop.askings - before <= 8


# Telling


def test_an_invalid_budget_is_told_of_once_and_again_when_it_is_written_anew() -> None:
    desk = desk_of(*fleet("a"), budget("bad", maxUnavailable=-1))
    desk.world.heartbeat(budget_key("bad"))
    desk.settle()
    (told,) = [said.tell for said in desk.said if isinstance(said, Telling)]
    assert (told.reason, told.warning, told.regarding) == ("BudgetInvalid", True, budget_key("bad"))
    assert "spec.maxUnavailable: -1 is neither" in told.note
    assert len([said for said in desk.said if isinstance(said, Measure)]) == 1
    assert len([said for said in desk.said if isinstance(said, Say)]) == 1
    (reason,) = grant(desk, A).reasons
    assert reason.code == "budget-invalid"
    desk.world.put(msgspec.structs.replace(budget("bad", maxUnavailable=-2), generation=2))
    desk.settle()
    assert len([said for said in desk.said if isinstance(said, Measure)]) == 2


def status_of(desk: Desk, name: str) -> dict[str, Any]:
    row = desk.world.objects[budget_key(name)]
    assert isinstance(row, NodeBudgetRow)
    return dict(row.status)


def test_the_status() -> None:
    desk = desk_of(*fleet("a", "b", "c", d=DOWN), budget("two", maxUnavailable=2))
    desk.settle()
    assert status_of(desk, "two") == {
        "observedGeneration": 1,
        "allowed": 2,
        "used": 2,
        "holders": [{"node": "a", "surface": "profiles"}, {"node": "d", "reason": "NotReady"}],
        "waiting": {
            "count": 2,
            "first": [
                {"node": "b", "surface": "profiles", "reason": "budget-full"},
                {"node": "c", "surface": "profiles", "reason": "budget-full"},
            ],
        },
        "conditions": [
            {
                "type": kind,
                "status": status,
                "reason": "Accepted",
                "message": "",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-03-01T10:00:00Z",
            }
            for kind, status in (("Valid", "True"), ("Ready", "True"), ("Reconciling", "False"), ("Stalled", "False"))
        ],
    }
    numbers = {name: value for name, _, value in samples([desk.world.objects[budget_key("two")]])}
    assert numbers == {f"haulout_node_budget_{word}": 2.0 for word in ("allowed", "used", "waiting")}


def test_the_status_follows_at_its_pace_and_rests_when_nothing_happens() -> None:
    desk = desk_of(*fleet(), budget("two", maxUnavailable=2))
    desk.settle()
    writes = len(status_writes(desk))
    for number in range(20):
        desk.world.put(msgspec.structs.replace(desk.world.objects[A], unschedulable=number % 2 == 0))
        desk.watch()
        for request in list(desk.tray):
            desk.meet(request)
        desk.wait(PACE_FOR.total_seconds() / 10)
    assert len(status_writes(desk)) - writes <= 4
    desk.settle()
    assert status_of(desk, "two")["used"] == 0
    writes = len(status_writes(desk))
    desk.wait(100_000)
    assert len(status_writes(desk)) == writes


def status_writes(desk: Desk) -> list[Change]:
    bodies = [body for _, body in desk.handed_out]
    return [body for body in bodies if isinstance(body, Change) and body.subresource == "status"]


def test_what_is_no_longer_so_leaves_the_status() -> None:
    desk = desk_of(*fleet(), budget("b", maxUnavailable=1, windows=[{"days": ["Mon"]}]))
    desk.meet(desk.only())
    assert status_of(desk, "b")["nextOpening"] == "2026-03-02T00:00:00Z"
    row = desk.world.objects[budget_key("b")]
    desk.world.put(msgspec.structs.replace(row, spec={}, generation=2))
    desk.settle()
    assert status_of(desk, "b").keys() == {"observedGeneration", "used", "holders", "waiting", "conditions"}
    assert status_of(desk, "b")["conditions"][0]["lastTransitionTime"] == "2026-03-01T10:00:00Z"


# The arbiter itself


def test_an_arbiter_that_fails_does_not_keep_itself_busy() -> None:
    script = Script(SURFACE)
    judge = arbiter(Rules((SURFACE,)))

    def decide(key: Key, view: View, now: datetime) -> Decision:
        decision = judge.decide(key, view, now)
        assert not any(each.granted for each in decision.grants), "a bug"
        return decision

    script.wishes[A] = Decision(claims=(claim_on(A),))
    desk = Desk(script.decider, msgspec.structs.replace(judge, decide=decide), world=Cluster(node("a"))).begin()
    assert [str(error).splitlines()[0] for _, error in desk.failed] == ["a bug"]


# Cost


def none_has(label: str) -> dict[str, str]:
    return {"key": label, "operator": "DoesNotExist"}


def zoned(count: int, number: int) -> list[ObjectRow]:
    """Return so many nodes that want to go, in three zones, under so many budgets of one zone at a time each."""
    nodes = [node(f"n{i:04}", labels={"want": "", "zone": f"z{i % 3}"}) for i in range(count)]
    budgets = [
        budget(f"b{i:03}", selector={"matchExpressions": [none_has(f"x{i}")]}, topologyKey="zone")
        for i in range(number)
    ]
    return [*nodes, *budgets, budget("one", maxUnavailable=1)]


def looks_at_rooms(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> int:
    looks = 0
    ask = Store.has_room

    def counted(store: Store, limit: Limit) -> bool:
        nonlocal looks
        looks += 1
        return ask(store, limit)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "has_room", counted)
        act()
    return looks


def cost_of_one_asking(monkeypatch: pytest.MonkeyPatch, number: int) -> int:
    desk = desk_of(*zoned(5, number))
    subject = Subject("arbiter", node_key("n0004"))
    return looks_at_rooms(monkeypatch, lambda: desk.kernel.loop.explain(subject, desk.now))


def test_an_asking_costs_twice_as_much_under_twice_as_many_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = cost_of_one_asking(monkeypatch, 50), cost_of_one_asking(monkeypatch, 100)
    assert many <= 2 * few
    assert few <= 3 * 50


def cost_of_a_freed_place(monkeypatch: pytest.MonkeyPatch, count: int) -> int:
    judge = arbiter(Rules((SURFACE,), budgets=True))
    desk = Desk(RULER, KEEPER, takes(), judge, world=Cluster(*zoned(count, 10)), kinds=("Node", KIND)).begin()
    desk.meet(desk.only())
    desk.watch()
    desk.world.label(node_key("n0000"), want=None)
    desk.feed.watch()
    return looks_at_rooms(monkeypatch, desk.run)


def test_a_freed_place_costs_as_much_however_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cost_of_a_freed_place(monkeypatch, 12) == cost_of_a_freed_place(monkeypatch, 120)


def test_no_priority_comes_before_what_has_begun() -> None:
    priority = read_priority({PRIORITY_ANNOTATION: "9" * 30})
    assert priority == MOST_PRIORITY
    assert read_priority({PRIORITY_ANNOTATION: "-" + "9" * 30}) == -MOST_PRIORITY
    assert Rank(-priority) > FIRST
