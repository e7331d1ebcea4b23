"""K5, K6, K7 and K10: which subject is asked when, in which order, and what becomes of decisions that raise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import Count, Limit
from haulout.cluster.rows import NodeRow, PodRow, Row, Value
from haulout.cluster.store import Index, Listing, Store
from haulout.cluster.view import CONFIG, HOLD, View, holds_table
from haulout.core.action import Label, Measure, Say, Tell
from haulout.core.arbiter import Rules, arbiter
from haulout.core.decision import NOTHING, Decide, Decider, Decision, Source
from haulout.core.holds import Claim, Grant, Rank, Want, grant_key, hold_key
from haulout.kernel.loop import Loop
from haulout.kernel.rooms import Subject
from tests.build.desk import Cluster, Desk, Script, pod_key, steps, targets
from tests.build.examples import examples
from tests.build.rows import START, at, node
from tests.build.toy import Inside
from tests.build.walk import Move, Walk, tapes

A, B = node_key("a"), node_key("b")
TICK = timedelta(milliseconds=1)


class Held:
    """An actor that keeps every action under way until the test answers it."""

    def __init__(self) -> None:
        self.under_way: set[Subject] = set()

    def submit(self, subject: Subject, decision: Decision, now: datetime) -> bool:
        self.under_way.add(subject)
        return True

    def rest(self, subject: Subject, now: datetime) -> None:
        pass

    def forget(self, subject: Subject) -> None:
        pass

    def awaits(self, subject: Subject) -> bool:
        return False

    def prove(self, proof: Key, subject: Subject) -> None:
        pass

    def forget_proof(self, proof: Key) -> None:
        pass


def fail(subject: Subject, error: Exception) -> None:
    raise AssertionError(f"{subject} failed") from error


# K5


class UnderWay(Walk):
    """A walk with keys that read each other's rows and wait for instants, and whose writes take any time."""

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.store, self.actions = Store(), Held()
        self.loop = Loop(self.store, [Decider("toy", "Node", self.decide)], self.actions, fail)
        self.store.set_listing("", "Node", Listing.LISTED)
        self.answers: dict[Key, Decision] = {}
        self.now, self.version = START, 0

    def decide(self, key: Key, view: View, now: datetime) -> Decision:
        assert Subject("toy", key) not in self.actions.under_way, "asked while under way"
        self.answers[key] = self.judge(key, view, now)
        return self.answers[key]

    def judge(self, key: Key, view: View, now: datetime) -> Decision:
        row = view.get(key, NodeRow)
        if row is None:
            return NOTHING
        other = view.get(node_key(row.labels["reads"]), NodeRow) if "reads" in row.labels else None
        due = at(float(row.labels["due"])) if "due" in row.labels else None
        wanted = "act" in row.labels or (due is not None and now > due)
        value = f"{other.labels.get('n') if other else None}"
        return Decision(((Label(key, "copy", value),),) if wanted else (), until=due if due and now <= due else None)

    def moves(self) -> Sequence[Move]:
        ending = [self.ends] * 2 if self.actions.under_way else []
        return [self.time_passes, self.row_changes, self.row_changes, self.row_goes, self.wake, *ending]

    def row_changes(self) -> None:
        self.version += 1
        labels = {name: self.tape.pick(options) for name, options in OPTIONS.items()}
        kept = {name: value for name, value in labels.items() if value}
        self.store.put(node(self.tape.pick("ab"), version=self.version, labels=kept))

    def row_goes(self) -> None:
        self.version += 1
        self.store.remove(node_key(self.tape.pick("ab")), self.version)

    def time_passes(self) -> None:
        self.now += timedelta(seconds=self.tape.pick((0.001, 0.5, 1.0, 3.0)))

    def wake(self) -> None:
        self.loop.wake(Subject("toy", self.tape.pick((A, B))))

    def ends(self) -> None:
        subject = self.tape.pick(sorted(self.actions.under_way))
        self.actions.under_way.discard(subject)
        self.loop.on_end(subject)

    def check(self) -> None:
        """Assert that a subject that is not due would give the same decision if it were asked again."""
        self.loop.run(self.now)
        for key in self.store.keys("", "Node"):
            if Subject("toy", key) not in self.actions.under_way:
                assert self.answers[key] == self.judge(key, View(self.store), self.now)
        instant = self.loop.next_instant()
        assert instant is None or instant > self.now

    def finish(self) -> None:
        for subject in sorted(self.actions.under_way):
            self.actions.under_way.discard(subject)
            self.loop.on_end(subject)
        self.check()


OPTIONS: dict[str, tuple[str, ...]] = {
    "n": ("", "1", "2"),
    "act": ("", "1", ""),
    "reads": ("", "a", "b"),
    "due": ("", "1", "2.5", "4"),
}


@settings(max_examples=examples(250), deadline=None, derandomize=True)
@given(tapes())
def test_k5_nothing_that_falls_while_a_key_is_under_way_is_lost(tape: bytes) -> None:
    UnderWay(tape).go()


def test_k5_a_change_while_under_way_is_asked_about_afterwards_once() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    desk.wants(script, A, steps(Label(A, "x", "1")))
    script.wishes.clear()
    asked = script.times(A)
    for value in ("1", "2", "3"):
        desk.world.label(A, note=value)
        desk.watch()
    assert script.times(A) == asked
    desk.meet(desk.only())
    assert script.times(A) == asked + 1


def test_k5_an_until_that_falls_while_under_way_is_asked_about_afterwards() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    desk.wants(script, A, steps(Label(A, "x", "1"), until=at(2)))
    script.wishes.clear()
    asked = script.times(A)
    desk.wait(5)
    assert script.times(A) == asked
    # The answer shows nothing new, so that only the instant can be the reason.
    desk.kernel.on_answer(desk.tray.pop().id, desk.world.meet(desk.handed_out[-1][1], "lost"), desk.now)
    desk.run()
    assert script.times(A) == asked + 1


# K6


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(st.integers(-5_000_000, 5_000_000))
def test_k6_it_is_asked_a_millisecond_after_until_and_never_sooner_than_a_millisecond_from_now(
    microseconds: int,
) -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    until = START + timedelta(microseconds=microseconds)
    desk.wants(script, A, Decision(until=until))
    script.wishes.clear()
    due = max(until, START) + TICK
    assert desk.kernel.next_instant() == due
    asked = script.times(A)
    desk.wait((due - START).total_seconds() - 0.000001)
    assert script.times(A) == asked
    desk.wait(0.000001)
    assert script.times(A) == asked + 1


@pytest.mark.parametrize("strictly", [True, False])
def test_k6_later_and_not_earlier_both_come_out(strictly: bool) -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    act = steps(Label(A, "x", "1"))
    desk.wants(
        script, A, lambda view, now: act if (now > at(3) if strictly else now >= at(3)) else Decision(until=at(3))
    )
    desk.wait(3.002)
    assert desk.handed_out[0][0] == at(3) + TICK


# K7

ranks = st.builds(Rank, st.integers(-1, 1), st.integers(0, 2).map(at), st.sampled_from(("", "x")))


names = st.text("abcdefgh", min_size=1, max_size=2)


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(st.dictionaries(names, ranks, min_size=1, max_size=8), st.data())
def test_k7_keys_due_together_are_asked_by_phase_then_rank_then_key(
    ranked: dict[str, Rank], data: st.DataObject
) -> None:
    order: list[tuple[int, Key]] = []

    def noting(phase: int) -> Decide:
        return lambda key, view, now: NOTHING if view.get(key, NodeRow) is None else noted(phase, key)

    def noted(phase: int, key: Key) -> Decision:
        order.append((phase, key))
        return NOTHING

    store = Store()
    first = Decider("z", "Node", noting(0), rank=lambda key, store: ranked[key.name])
    loop = Loop(store, [Decider("a", "Node", noting(1), phase=1), first], Held(), fail)
    store.begin_list("", "Node")
    for name in data.draw(st.permutations(sorted(ranked))):
        store.put(node(name))
    store.end_list("", "Node", 1)
    loop.run(START)
    keys = [node_key(name) for name in sorted(ranked)]
    by_rank = sorted(keys, key=lambda key: (ranked[key.name], key))
    assert order == [*((0, key) for key in by_rank), *((1, key) for key in keys)]


def taking(key: Key, limit: Limit) -> Callable[[View, datetime], Decision]:
    return lambda view, now: NOTHING if view.full([limit]) else steps(Label(key, "state", "in"))


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(st.dictionaries(names, ranks, min_size=2, max_size=8), st.integers(1, 3))
def test_k7_each_take_counts_before_the_next_is_asked(ranked: dict[str, Rank], most: int) -> None:
    keys = [node_key(name) for name in sorted(ranked)]
    script = Script(rank=lambda key, store: ranked[key.name])
    script.wishes = {key: taking(key, Limit(Inside(), "", most)) for key in keys}
    desk = Desk(script.decider, world=Cluster(*(node(key.name) for key in keys))).begin()
    assert targets(desk.tray) == sorted(keys, key=lambda key: (ranked[key.name], key))[:most]


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(st.lists(st.text("abc", min_size=1, max_size=3), unique=True, max_size=8), st.data())
def test_k7_buckets_iterate_in_the_order_of_keys(names: list[str], data: st.DataObject) -> None:
    everything = Index("all", "Node", lambda row: ("",))
    store = Store()
    store.set_listing("", "Node", Listing.LISTED)
    early = data.draw(st.integers(0, len(names)))
    for position, name in enumerate(data.draw(st.permutations(names))):
        if position == early:
            store.bucket(everything, "", "")
        store.put(node(name))
    assert [row.key.name for row in View(store).rows(everything, "", Row)] == sorted(names)


def test_k7_same_input_same_bytes_under_any_hash_seed() -> None:
    here = Path(__file__).parents[3]
    outputs = {_simulated(here, seed) for seed in ("0", "1", "4242")}
    (output,) = outputs
    assert output.count(b"\n") > 200


def _simulated(here: Path, seed: str) -> bytes:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join((str(here), *sys.path))}
    command = [sys.executable, "-m", "tests.build.simulation"]
    done = subprocess.run(command, env=environment, cwd=here, capture_output=True, check=True, timeout=60)
    assert not done.stderr
    return done.stdout


# K10

PODS = Index("pods", "Pod", lambda row: ("",))


def arbitrated(*scripts: Script, world: Cluster | None = None) -> Desk:
    rules = Rules(tuple(script.decider.name for script in scripts))
    return Desk(*(script.decider for script in scripts), arbiter(rules), world=world or Cluster(node("a"), node("b")))


def is_granted(desk: Desk, surface: str, claim: Claim) -> bool:
    grant = desk.store.row(grant_key(hold_key(surface, claim)))
    return isinstance(grant, Grant) and grant.granted


def work(key: Key, *, begun: bool = False) -> Claim:
    return Claim(key, key, frozenset({Want.EXCLUSIVE}), begun=begun)


def at_work(key: Key) -> Decision:
    return Decision(((Label(key, "x", "1"),),), claims=(work(key),))


def test_k10_who_throws_counts_as_asked() -> None:
    bad, good = Script("bad"), Script("good")
    bad.wishes = {A: ValueError("broken"), B: ValueError("broken")}
    desk = arbitrated(bad, good).begin()
    assert desk.store.table("", holds_table("bad")).listing is Listing.LISTED
    assert [(subject.key, str(error)) for subject, error in desk.failed] == [(A, "broken"), (B, "broken")]


LIST: Any = ["not", "hashable"]
UNUSABLE: dict[str, Decision] = {
    "log line": Decision(((Say("moved", (("pods", LIST),)),),)),
    "counter": Decision(((Measure("moves", (("node", LIST),)),),)),
    "event": Decision(((Tell(A, "Moved", "Move", LIST, "bad"),),)),
    "label": Decision(((Label(A, "x", LIST),),)),
    "label beside a write": Decision(((Label(B, "x", "1"), Label(A, "x", LIST)),)),
    "target": Decision(((Label(LIST, "x", "1"),),)),
    "action": Decision(((LIST,),)),
    "step": Decision((LIST, 7)),  # type: ignore[arg-type]
    "limit": Decision(claims=(Claim(A, A, frozenset({Want.DRAIN}), (Limit(Count(), LIST, 1),)),)),
    "claim": Decision(claims=(Claim(A, A, slot=LIST),)),
    "source": Decision(sources=(Source("far", "Node", access=LIST),)),
    "mark": Decision(marks=(Value(key=Key("", "Mark", "", LIST)),)),
    "until": Decision(until=LIST),
    "nothing": LIST,
}


@pytest.mark.parametrize("wish", UNUSABLE.values(), ids=UNUSABLE)
def test_k10_a_decision_that_cannot_be_used_costs_only_itself(wish: Decision) -> None:
    """A foreign plugin may put any value anywhere."""
    bad, good = Script("bad"), Script("good")
    bad.wishes[A] = wish
    good.wishes[B] = at_work(B)
    desk = arbitrated(bad, good).begin()
    assert {subject for subject, _ in desk.failed} == {bad.subject(A)}
    assert is_granted(desk, "good", work(B))
    desk.wants(bad, A, NOTHING)
    desk.settle()
    assert desk.world.objects[B].labels["x"] == "1"


def test_k10_who_throws_keeps_its_last_holds() -> None:
    bad, good = Script("bad"), Script("good")
    bad.wishes[A] = Decision(claims=(work(A, begun=True),))
    good.wishes[A] = Decision(claims=(work(A),))
    desk = arbitrated(bad, good).begin()
    desk.wants(bad, A, ValueError("broken"))
    desk.wait(600)
    assert desk.store.row(hold_key("bad", work(A))) is not None
    assert not is_granted(desk, "good", work(A))


def test_k10_where_it_never_claimed_anything_nothing_is_granted_on_its_node_and_everywhere_else_all_goes_on() -> None:
    bad, good = Script("bad"), Script("good")
    bad.wishes[A] = ValueError("broken")
    good.wishes = {A: at_work(A), B: at_work(B)}
    desk = arbitrated(bad, good).begin()
    assert not is_granted(desk, "good", work(A))
    assert is_granted(desk, "good", work(B))
    grant = desk.store.row(grant_key(hold_key("good", work(A))))
    assert isinstance(grant, Grant)
    assert [reason.code for reason in grant.reasons] == ["claims-unknown"]


def test_k10_what_has_begun_goes_on_although_another_throws() -> None:
    bad, good = Script("bad"), Script("good")
    bad.wishes[A] = ValueError("broken")
    good.wishes[A] = Decision(claims=(work(A, begun=True),))
    desk = arbitrated(bad, good).begin()
    assert is_granted(desk, "good", work(A))


def test_k10_once_it_answers_again_grants_are_given_again() -> None:
    bad, good = Script("bad"), Script("good")
    bad.wishes[A] = ValueError("broken")
    good.wishes[A] = at_work(A)
    desk = arbitrated(bad, good).begin()
    assert not is_granted(desk, "good", work(A))
    desk.wants(bad, A, NOTHING)
    assert is_granted(desk, "good", work(A))
    assert not [key for key in desk.store.keys("", HOLD) if key.namespace == "bad"]


def test_k10_it_is_asked_again_when_something_that_it_read_changes() -> None:
    bad = Script("bad")
    bad.wishes[A] = ValueError("broken")
    desk = arbitrated(bad).begin()
    asked = bad.times(A)
    desk.world.label(A, note="1")
    desk.watch()
    assert bad.times(A) == asked + 1


def test_k10_it_is_asked_again_after_a_minute_and_not_before() -> None:
    bad = Script("bad")
    bad.wishes[A] = ValueError("broken")
    desk = arbitrated(bad).begin()
    desk.wait(200)
    times = [instant for instant, key in bad.asked if key == A]
    assert [(later - earlier).total_seconds() for earlier, later in pairwise(times)] == [60, 60, 60]


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.booleans()), max_size=12))
def test_k10_whoever_throws_when_never_stalls_the_others(pattern: list[tuple[str, bool, bool]]) -> None:
    """Two surfaces, one of which throws now and then on one node; on the other node the other surface does its work."""
    bad, good = Script("bad"), Script("good")
    desk = arbitrated(bad, good)

    def judge(view: View, now: datetime) -> Decision:
        row = view.get(B, NodeRow)
        granted = view.get(grant_key(hold_key("good", work(B))), Grant)
        done = row is not None and "x" in row.labels
        acts = ((Label(B, "x", "1"),),) if granted and granted.granted and not done else ()
        return Decision(acts, claims=() if done else (work(B),))

    good.wishes[B] = judge
    desk.begin()
    for name, throws, claims in pattern:
        claim = (work(node_key(name)),) if claims else ()
        wish: Decision | Exception = ValueError("broken") if throws else Decision(claims=claim)
        desk.wants(bad, node_key(name), wish)
    bad.wishes = {A: ValueError("broken"), B: NOTHING}
    desk.poke(bad)
    for request in list(desk.tray):
        desk.meet(request)
    desk.watch()
    assert desk.world.objects[B].labels.get("x") == "1"


def test_k10_a_table_that_cannot_be_read_is_a_failure_and_one_not_listed_yet_is_not() -> None:
    script = Script()
    script.wishes[A] = lambda view, now: Decision(until=at(9) if view.rows(PODS, "", Row) else None)
    desk = arbitrated(script).begin()
    assert not desk.failed
    assert desk.store.table("", holds_table("script")).listing is Listing.WAITING
    desk.store.set_listing("", "Pod", Listing.UNREADABLE)
    desk.run()
    assert len(desk.failed) == 1
    assert desk.store.table("", holds_table("script")).listing is Listing.LISTED


def test_the_configuration_is_a_row_that_wakes_its_readers() -> None:
    script = Script()
    desk = arbitrated(script).begin()
    asked = script.times(A)
    desk.store.write(Value(key=Key("", CONFIG, "", "script"), value="new"))
    desk.run()
    assert script.times(A) == asked + 1


def test_a_claim_that_has_begun_is_not_woken_by_its_answer() -> None:
    script = Script()
    claim = Claim(A, A, frozenset({Want.DRAIN}), begun=True)
    script.wishes[A] = Decision(claims=(claim,))
    desk = arbitrated(script).begin()
    assert is_granted(desk, "script", claim)
    assert script.times(A) == 1


# Who goes through many rows


def test_who_goes_through_many_rows_is_asked_at_its_own_pace_and_misses_nothing() -> None:
    """Of two thousand pods of a node one after the other goes: they are gone through a few times, not each time."""
    seen: list[int] = []

    def looks(view: View, now: datetime) -> Decision:
        seen.append(len(view.rows(PODS, "", PodRow)))
        return NOTHING

    script, pods = Script(), [pod_key(f"p{number}") for number in range(2000)]
    script.wishes[A] = looks
    world = Cluster(node("a"), *(PodRow(key=key) for key in pods))
    desk = Desk(script.decider, world=world, kinds=("Node", "Pod")).begin()
    for key in pods[:900]:
        world.delete(key)
        desk.watch()
        desk.wait(0.001)
    desk.wait(1)
    assert seen[-1] == 1100
    assert len(seen) <= 2 + 900 // 100
    for key in pods[900:]:
        world.delete(key)
        desk.watch()
    desk.wait(1)
    assert seen[-1] == 0
    assert not desk.kernel.loop._rests
    assert desk.kernel.next_instant() is None


def test_who_rests_is_asked_at_once_when_its_own_object_changes() -> None:
    seen: list[int] = []

    def looks(view: View, now: datetime) -> Decision:
        seen.append(len(view.rows(PODS, "", PodRow)))
        view.get(A, NodeRow)
        return NOTHING

    script, pods = Script(), [pod_key(f"p{number}") for number in range(200)]
    script.wishes[A] = looks
    world = Cluster(node("a"), *(PodRow(key=key) for key in pods))
    desk = Desk(script.decider, world=world, kinds=("Node", "Pod")).begin()
    world.delete(pods[0])
    desk.watch()
    asked = len(seen)
    world.put(node("a", x="1"))
    desk.watch()
    assert (len(seen), seen[-1]) == (asked + 1, 199)
    desk.wait(1)
    assert len(seen) == asked + 1
