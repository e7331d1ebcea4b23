"""K14 and the arbiter: all limits or none, in order, no place idle that a subject could use, no grant taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import Count, Limit, Membership
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.store import Listing
from haulout.cluster.view import GRANT, HOLD, View, holds_table
from haulout.core.action import Annotate, Create, Label, Tell
from haulout.core.arbiter import Rules, arbiter
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.holds import Claim, Grant, Hold, Want, grant_key, hold_key, is_granted
from haulout.kernel.requests import Answer, Look, Lost
from tests.build.desk import FATES, Cluster, Desk, Script, Wish, pod_key, targets, together
from tests.build.examples import examples
from tests.build.rows import at, node
from tests.build.walk import Move, Walk, tapes

A, B, C = node_key("a"), node_key("b"), node_key("c")
NAMES = ("a", "b", "c", "d")
ZONES = {"a": "z0", "b": "z0", "c": "z1", "d": "z1"}


class At(Count, frozen=True):
    """A count of the nodes at which a surface works, or any surface if none is named; in all or by zone."""

    surface: str = ""
    by_zone: bool = False

    def groups(self, row: Row) -> Iterable[Membership]:
        assert isinstance(row, NodeRow)
        at_work = [surface for surface in ("one", "two") if row.labels.get(surface) == "in"]
        if self.surface in at_work or (not self.surface and at_work):
            yield Membership(row.labels.get("zone", "") if self.by_zone else "")


def limits_of(surface: str, row: NodeRow) -> tuple[Limit, ...]:
    """Return a surface's limits: its own, one that all share, and one for each zone, so that needs overlap in different sets."""
    own = Limit(At(surface), "", 2)
    shared = Limit(At(), "", 2)
    zone = Limit(At(by_zone=True), row.labels["zone"], 1)
    return (own, shared, zone) if surface == "one" else (shared, own)


def claim_of(surface: str, row: NodeRow) -> Claim:
    return Claim(
        row.key,
        row.key,
        frozenset({Want.EXCLUSIVE}),
        limits_of(surface, row),
        since=at(float(row.labels.get("since", "0"))),
        priority=int(row.labels.get("priority", "0")),
        begun=row.labels.get(surface) == "in",
    )


def works(surface: str) -> Decider:
    """Begin on a node that wants it once granted, and stay until the test says that the work is done."""

    def decide(key: Key, view: View, now: datetime) -> Decision:
        row = view.get(key, NodeRow)
        if row is None or row.labels.get(surface) not in ("wanted", "in"):
            return NOTHING
        claim = claim_of(surface, row)
        if claim.begun or not is_granted(view, surface, claim):
            return Decision(claims=(claim,))
        return Decision(((Label(key, surface, "in"),),), claims=(claim,))

    return Decider(surface, "Node", decide)


class Turns(Walk):
    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.world = Cluster(*(node(name, zone=zone, one="wanted", two="wanted") for name, zone in ZONES.items()))
        self.answers: dict[int, Answer] = {}
        self.start()

    def start(self) -> None:
        self.answers.clear()
        self.desk = Desk(works("one"), works("two"), arbiter(Rules(("one", "two"))), world=self.world)
        self.desk.now = at(0)
        self.desk.begin()

    def moves(self) -> Sequence[Move]:
        serving = [self.server_serves] * 3 * any(request.id not in self.answers for request in self.desk.tray)
        answers = [self.answer_arrives] * 3 * bool(self.answers)
        people = [self.is_done, self.is_done, self.is_wanted, self.is_made_anew]
        return [self.watch, self.time_passes, *people, self.restart, self.leadership_changes, *serving, *answers]

    def watch(self) -> None:
        self.desk.watch(self.tape.pick((1, 3)))

    def time_passes(self) -> None:
        self.desk.wait(self.tape.pick((0.01, 1.0, 6.0)))

    def is_done(self) -> None:
        inside = [(key, surface) for key, row in self.world.objects.items() for surface in at_work(row)]
        if inside:
            key, surface = self.tape.pick(inside)
            self.world.label(key, **{surface: "done"})

    def is_wanted(self) -> None:
        """Let a surface want a node, with another rank: more urgent, or as if for longer."""
        key, surface = node_key(self.tape.pick(NAMES)), self.tape.pick(("one", "two"))
        if surface not in at_work(self.world.objects[key]):
            priority, since = self.tape.pick(("0", "1", "-1")), self.tape.pick(("0", "5", "9"))
            self.world.label(key, **{surface: "wanted", "priority": priority, "since": since})

    def is_made_anew(self) -> None:
        name = self.tape.pick(NAMES)
        self.world.delete(node_key(name))
        self.world.put(node(name, zone=ZONES[name], one="wanted"))

    def server_serves(self) -> None:
        request = self.tape.pick([request for request in self.desk.tray if request.id not in self.answers])
        fate = self.tape.pick(("200", "200", "200", *FATES))
        self.answers[request.id] = self.desk.world.meet(request.body, fate)

    def answer_arrives(self) -> None:
        request = self.tape.pick([request for request in self.desk.tray if request.id in self.answers])
        self.desk.answer(request, self.answers.pop(request.id))

    def restart(self) -> None:
        self.start()

    def leadership_changes(self) -> None:
        self.desk.kernel.follow()
        for request in list(self.desk.tray):
            self.desk.answer(request, self.answers.pop(request.id, Lost("gave up")))
        # No write outlives the lease, and its successor has long seen what came of it.
        self.desk.watch()
        self.desk.kernel.lead()
        self.desk.run()

    def check(self) -> None:
        self.nothing_is_exceeded()
        self.all_or_none()
        self.nobody_waits_in_vain()
        self.nothing_is_taken_back()

    def nothing_is_exceeded(self) -> None:
        rows = [row for row in self.world.objects.values() if at_work(row)]
        assert all(len(at_work(row)) == 1 for row in rows), "two surfaces at work on one node"
        assert len(rows) <= 2
        by_one = Counter(row.labels["zone"] for row in rows if "one" in at_work(row))
        assert all(times == 1 for times in by_one.values()), "two nodes of one zone"

    def all_or_none(self) -> None:
        for hold, grant in self.holds():
            wanted = {(limit.count, limit.group) for limit in hold.claim.limits}
            kept = {(place.of, place.group) for place in grant.reserves}
            assert kept == (wanted if grant.granted else set())

    def nobody_waits_in_vain(self) -> None:
        """Assert that every subject that waits does so for a reason that holds at this moment."""
        holds = self.holds()
        for hold, grant in holds:
            assert grant.granted or not hold.claim.begun, "what has begun is refused"
            reasons = {reason.code for reason in grant.reasons}
            true = {
                "no-room": any(not self.desk.store.has_room(limit) for limit in hold.claim.limits),
                "turn-taken": any(
                    other.surface != hold.surface and granted.granted
                    for other, granted in holds
                    if other.claim.node == hold.claim.node
                ),
                "backing-off": hold.paused_until is not None and hold.paused_until > self.desk.now,
                "not-used": hold.declined,
            }
            assert grant.granted == (not reasons)
            assert all(true[code] for code in reasons), f"{hold.key} waits in vain: {reasons}"

    def nothing_is_taken_back(self) -> None:
        actor = self.desk.kernel.actor
        for _, work, _ in actor._outbox.sent.values():
            if work is not None and not work.is_dropped:
                assert all(actor._steps.is_granted(grant) for grant in work.grants), "taken from a write under way"

    def holds(self) -> list[tuple[Hold, Grant]]:
        store = self.desk.store
        holds = [row for key in store.keys("", HOLD) if isinstance(row := store.row(key), Hold)]
        grants = [store.row(grant_key(hold.key)) for hold in holds]
        return [(hold, grant) for hold, grant in zip(holds, grants, strict=True) if isinstance(grant, Grant)]

    def finish(self) -> None:
        """Stop all faults, and assert that every subject gets its turn, one after the other."""
        while self.answers:
            self.answer_arrives()
        for _ in NAMES * 3:
            self.desk.settle()
            self.check()
            inside = [(key, surface) for key, row in self.world.objects.items() for surface in at_work(row)]
            for key, surface in inside:
                self.world.label(key, **{surface: "done"})
            if not inside:
                break
        assert not [row for row in self.world.objects.values() if {"wanted", "in"} & {*row.labels.values()}]
        assert not self.desk.store.keys("", HOLD)
        assert not self.desk.store.keys("", GRANT)


def at_work(row: Row) -> list[str]:
    return [surface for surface in ("one", "two") if isinstance(row, NodeRow) and row.labels.get(surface) == "in"]


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(tapes(60, 120))
def test_k14_all_limits_or_none_and_no_place_idle_that_somebody_could_use(tape: bytes) -> None:
    Turns(tape).go()


# In order


def desk_of(*scripts: Script, turns: bool = True, world: Cluster | None = None) -> Desk:
    rules = Rules(tuple(script.decider.name for script in scripts), turns=turns)
    world = world or Cluster(*(node(name, zone=zone) for name, zone in ZONES.items()))
    return Desk(*(script.decider for script in scripts), arbiter(rules), world=world, kinds=("Node", "Pod"))


def granted(desk: Desk) -> list[str]:
    rows = [desk.store.row(key) for key in desk.store.keys("", GRANT)]
    return [row.key.name for row in rows if isinstance(row, Grant) and row.granted]


ONE_PLACE = (Limit(At(), "", 1),)


def waiting(key: Key, **more: object) -> Claim:
    return msgspec.structs.replace(Claim(key, key, limits=ONE_PLACE), **more)


@settings(max_examples=examples(80), deadline=None, derandomize=True)
@given(
    st.dictionaries(st.sampled_from(NAMES), st.tuples(st.integers(-1, 1), st.integers(0, 2)), min_size=1),
    st.permutations(NAMES),
)
def test_the_order_is_priority_then_age_then_name(claims: dict[str, tuple[int, int]], listed: list[str]) -> None:
    script = Script()
    desk = desk_of(script, world=Cluster(*(node(name, zone="z") for name in listed)))
    for name, (priority, since) in claims.items():
        script.wishes[node_key(name)] = goes_in(waiting(node_key(name), priority=priority, since=at(since)))
    desk.begin()
    order = []
    for _ in claims:
        (target,) = targets(desk.tray)
        order.append(target.name)
        script.wishes[target] = NOTHING
        desk.meet(desk.only())
        desk.world.label(target, one="done")
        desk.watch()
    assert order == sorted(claims, key=lambda name: (-claims[name][0], claims[name][1], name))


def goes_in(claim: Claim, surface: str = "script") -> Wish:
    def judge(view: View, now: datetime) -> Decision:
        acts = ((Label(claim.node, "one", "in"),),) if is_granted(view, surface, claim) else ()
        return Decision(acts, claims=(claim,))

    return judge


def test_what_stands_already_does_not_carry_a_younger_claim_past_an_older_one() -> None:
    early, late = Script("early"), Script("late")
    full = Limit(At(), "", 0)
    early.wishes[A] = Decision(claims=(Claim(A, A, since=at(1), begun=True),))
    late.wishes[A] = goes_in(waiting(A, since=at(9)), "late")
    late.wishes[B] = goes_in(waiting(B, since=at(5)), "late")
    desk = desk_of(early, late, world=Cluster(node("a", zone="z"), node("b", zone="z"), node("c", zone="z", one="in")))
    desk.begin()
    assert not targets(desk.tray)
    assert not desk.store.has_room(full)
    desk.world.label(C, one="done")
    desk.watch()
    assert targets(desk.tray) == [B]


# Turns


def test_one_surface_at_a_time_works_on_a_node() -> None:
    one, two = Script("one"), Script("two")
    exclusive = Claim(A, A, frozenset({Want.EXCLUSIVE}))
    drain = Claim(A, A, frozenset({Want.DRAIN}), slot="drain")
    one.wishes[A] = Decision(((Annotate(A, "x", "1"),),), claims=(exclusive,))
    two.wishes[A] = Decision(((Annotate(A, "y", "1"),),), claims=(exclusive, drain))
    desk = desk_of(one, two).begin()
    assert granted(desk) == ["a/Node//a", "a/Node//a/drain"]
    grant = desk.store.row(grant_key(hold_key("two", exclusive)))
    assert isinstance(grant, Grant)
    assert [(reason.code, reason.text) for reason in grant.reasons] == [("turn-taken", "one is working on the node")]


def test_who_belongs_to_a_surface_shares_its_turn() -> None:
    """A profile that asks a part of its own surface to delete the node must not wait for itself."""
    one, part = Script("one"), Script("part")
    exclusive = Claim(A, A, frozenset({Want.EXCLUSIVE}))
    one.wishes[A] = Decision(claims=(msgspec.structs.replace(exclusive, begun=True),))
    part.wishes[A] = goes_in(exclusive, "part")
    rules = Rules(("one", "part"), within=(("part", "one"),))
    desk = Desk(one.decider, part.decider, arbiter(rules), world=Cluster(node("a", zone="z"))).begin()
    assert targets(desk.tray) == [A]


def test_where_there_are_no_turns_all_work_at_once() -> None:
    one, two = Script("one"), Script("two")
    exclusive = Claim(A, A, frozenset({Want.EXCLUSIVE}), begun=True)
    one.wishes[A] = two.wishes[A] = Decision(claims=(exclusive,))
    two.wishes[A] = Decision(((Annotate(A, "x", "1"),),), claims=(msgspec.structs.replace(exclusive, begun=False),))
    desk = desk_of(one, two, turns=False).begin()
    assert len(granted(desk)) == 2


def test_what_has_begun_in_an_earlier_life_is_known_before_anything_new_is_granted() -> None:
    """The younger surface's claim could be granted at once, were the older one's not waited for."""
    one, two = Script("one"), Script("two", "Pod")
    exclusive = Claim(A, A, frozenset({Want.EXCLUSIVE}))
    one.wishes[A] = goes_in(exclusive, "one")
    two.wishes[pod_key("p")] = Decision(claims=(Claim(A, pod_key("p"), frozenset({Want.EXCLUSIVE}), begun=True),))
    desk = Desk(one.decider, two.decider, arbiter(Rules(("one", "two"))), world=Cluster(node("a", zone="z")))
    desk.begin()
    assert not granted(desk)
    desk.world.put(msgspec.structs.replace(desk.world.objects[A], key=pod_key("p")))
    desk.feed.kinds = ("Node", "Pod")
    desk.feed.list()
    desk.run()
    assert granted(desk) == ["a/Pod/default/p"]
    assert not desk.tray


@pytest.mark.parametrize("listing", [Listing.WAITING, Listing.UNREADABLE])
def test_a_surface_that_is_not_listed_is_waited_for_and_one_that_cannot_be_read_is_not(listing: Listing) -> None:
    one, two = Script("one"), Script("two", "Pod")
    one.wishes[A] = goes_in(Claim(A, A), "one")
    desk = Desk(one.decider, two.decider, arbiter(Rules(("one", "two"))), world=Cluster(node("a", zone="z")))
    desk.begin()
    desk.store.set_listing("", "Pod", listing)
    desk.run()
    assert bool(targets(desk.tray)) == (listing is Listing.UNREADABLE)


def test_after_leadership_is_gained_a_surface_without_any_object_is_not_waited_for() -> None:
    one, two = Script("one"), Script("two", "Pod")
    desk = desk_of(one, two).begin()
    desk.kernel.follow()
    desk.kernel.lead()
    desk.wants(one, A, goes_in(Claim(A, A), "one"))
    assert desk.store.table("", holds_table("two")).listing is Listing.LISTED
    assert targets(desk.tray) == [A]


# K14: a grant that is refused or not used passes on


def contenders() -> tuple[Desk, Script]:
    """Return a desk on which two nodes want the one place. Node a comes first."""
    script = Script()
    script.wishes = {A: goes_in(waiting(A)), B: goes_in(waiting(B))}
    return desk_of(script).begin(), script


@pytest.mark.parametrize("fate", ["422", "500", "404", "429", "429-budget", "409"])
def test_k14_a_refused_grant_passes_on(fate: str) -> None:
    desk, _ = contenders()
    desk.meet(desk.only(), fate)
    throttled = {at(0) + timedelta(seconds=1)} if fate == "429" else set()
    desk.wait(1.5 if throttled else 0)
    assert B in targets(desk.tray) or targets(desk.tray) == [A]
    assert bool(throttled) or targets(desk.tray) == [B]


def test_k14_a_grant_that_is_not_used_passes_on_and_what_kept_its_owner_wakes_it() -> None:
    script = Script()
    claim = waiting(A)

    def waits_for_a_label(view: View, now: datetime) -> Decision:
        let = is_granted(view, "script", claim)
        # Read only where it matters: the change must wake it all the same.
        other = view.get(C, NodeRow) if let else None
        ready = other is not None and "go" in other.labels
        return Decision(((Label(A, "one", "in"),),) if ready else (), claims=(claim,))

    script.wishes = {A: waits_for_a_label, B: goes_in(waiting(B))}
    desk = desk_of(script).begin()
    assert targets(desk.tray) == [B]
    desk.meet(desk.only())
    script.wishes[B] = NOTHING
    desk.world.label(B, one="done")
    desk.watch()
    desk.wait(100)
    assert not desk.tray
    desk.world.label(C, go="")
    desk.watch()
    assert targets(desk.tray) == [A]


def test_k14_grants_are_not_passed_on_before_every_claim_of_their_owner_is_answered() -> None:
    """One subject claims two nodes, and begins only when both are granted: the first answer alone is not declined."""
    script = Script()
    both = (Claim(A, A), Claim(B, A))

    def begins_with_both(view: View, now: datetime) -> Decision:
        goes = all(is_granted(view, "script", claim) for claim in both)
        return Decision(((Label(A, "one", "in"),),) if goes else (), claims=both)

    script.wishes = {A: begins_with_both}
    desk = desk_of(script).begin()
    assert targets(desk.tray) == [A]


@pytest.mark.parametrize("said", [True, False])
def test_k14_who_only_talks_does_not_use_its_grant_and_asks_for_nothing_more(said: bool) -> None:
    script = Script()
    told = Tell(A, "Failed", "Try", "it did not work", "test")
    script.wishes = {A: Decision(((told,),) if said else (), claims=(waiting(A),)), B: goes_in(waiting(B))}
    desk = desk_of(script).begin()
    assert targets(desk.tray) == [B]
    desk.meet(desk.only())
    desk.watch()
    asked = script.times(A)
    desk.wait(1000)
    assert script.times(A) == asked, "it is asked although nothing has changed"


def test_k14_a_grant_is_not_taken_while_another_write_of_its_step_is_under_way() -> None:
    script = Script()
    claim = waiting(A)
    both = together(Label(A, "one", "in"), Create(pod_key("p"), {}), claims=(claim,))
    script.wishes[A] = lambda view, now: both if is_granted(view, "script", claim) else Decision(claims=(claim,))
    script.wishes[B] = goes_in(waiting(B))
    desk = desk_of(script).begin()
    label, create = desk.tray
    desk.meet(label, "422")
    assert granted(desk) == ["a/Node//a"]
    desk.meet(create, "422")
    assert granted(desk) == ["b/Node//b"]


def test_k14_a_grant_is_not_taken_while_the_effect_of_a_write_is_unknown() -> None:
    desk, script = contenders()
    desk.meet(desk.only(), "lost")
    script.wishes[A] = Decision(claims=(waiting(A),))
    desk.poke(script)
    assert granted(desk) == ["a/Node//a"]
    desk.wait(5)
    desk.meet(next(request for request in desk.tray if isinstance(request.body, Look)))
    assert targets(desk.tray) == [B]


def test_k14_a_hold_that_has_begun_is_never_refused() -> None:
    script = Script()
    script.wishes = {key: Decision(claims=(waiting(key, begun=True),)) for key in (A, B)}
    desk = desk_of(script, world=Cluster(node("a", zone="z", one="in"), node("b", zone="z", one="in"))).begin()
    desk.wait(100)
    assert granted(desk) == ["a/Node//a", "b/Node//b"]


def test_k14_who_waits_for_one_limit_keeps_no_place_under_another() -> None:
    script = Script()
    free, full = Limit(At("two"), "", 1), Limit(At("one"), "", 1)
    script.wishes[A] = Decision(claims=(Claim(A, A, limits=(free, full)),))
    desk = desk_of(script, world=Cluster(node("a", zone="z"), node("b", zone="z", one="in"))).begin()
    assert not granted(desk)
    assert desk.store.has_room(free)


def test_nodes_of_other_clusters_are_not_arbitrated() -> None:
    """Their owner says how many there are."""
    desk = Desk(arbiter(Rules(("script",))), world=Cluster(node("a"))).begin()
    before = desk.kernel.loop.askings
    for number in range(100):
        desk.store.put(node(f"n{number}", cluster="far"))
    desk.run()
    assert desk.kernel.loop.askings == before


def test_a_decision_that_reads_whether_it_is_granted_is_not_asked_again_for_a_refusal() -> None:
    answers: list[bool] = []

    def decide(key: Key, view: View, now: datetime) -> Decision:
        if key != A:
            return NOTHING
        claim = Claim(A, A, limits=(Limit(At("one"), "", 1),))
        answers.append(is_granted(view, "script", claim))
        return Decision(claims=(claim,))

    rules = arbiter(Rules(("script",)))
    desk = Desk(Decider("script", "Node", decide), rules, world=Cluster(node("a"), node("b", one="in"))).begin()
    assert isinstance(desk.store.row(grant_key(hold_key("script", Claim(A, A)))), Grant)
    assert answers == [False]
    desk.store.put(node("b", version=100))
    desk.run()
    assert answers[:2] == [False, True]
