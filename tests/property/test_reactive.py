"""The reactive loop does the same as asking all subjects all the time, and asks no subject needlessly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from datetime import datetime, timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import Count, Limit, Membership
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.store import Index, Listing, Store
from haulout.cluster.topics import CountOf, Topic
from haulout.cluster.view import CONFIG, Record, View
from haulout.core.action import Label
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.edit import apply_all
from haulout.core.holds import Rank
from haulout.kernel.loop import Loop
from haulout.kernel.rooms import Subject
from tests.build.examples import examples
from tests.build.rows import START, at, node

NAMES = ("a", "b", "c", "d", "e")
LABELS = ("x", "y", "z")
VALUES = ("0", "1")


def _label_pairs(row: Row) -> Iterable[Hashable]:
    return [(name, value) for name, value in row.labels.items()] if isinstance(row, NodeRow) else []


BY_LABEL = Index("by-label", "Node", _label_pairs)


class Labelled(Count, frozen=True):
    """A count of nodes by the value of one label. A node with a `t` label stops counting at that second."""

    label: str

    def groups(self, row: Row) -> Iterable[Membership]:
        assert isinstance(row, NodeRow)
        if self.label in row.labels:
            ends = at(float(row.labels["t"])) if "t" in row.labels else None
            yield Membership(row.labels[self.label], ends)


class Rule(msgspec.Struct, frozen=True):
    """A decision that sets a label of its own node if all of these conditions hold."""

    sets: tuple[str, str]
    own: tuple[str, str] | None = None
    other: tuple[str, str, str] | None = None
    bucket: tuple[str, str, int] | None = None
    count: tuple[str, str, int] | None = None
    many: tuple[str, str, int] | None = None
    after: int | None = None
    rooms: tuple[tuple[str, str, int], ...] = ()


def judge(rules: tuple[Rule, ...], key: Key, view: View, now: datetime) -> Decision:
    row = view.get(key, NodeRow)
    if row is None:
        return NOTHING
    until: datetime | None = None
    for rule in rules:
        name, value = rule.sets
        if row.labels.get(name) == value or not passes(rule, row, view):
            continue
        if rule.after is not None and now < at(rule.after):
            until = min(until, at(rule.after)) if until else at(rule.after)
            continue
        if rule.rooms and view.full(Limit(Labelled(n), v, most) for n, v, most in rule.rooms):
            continue
        return Decision(actions=((Label(key, name, value),),), until=until)
    return Decision(until=until)


def passes(rule: Rule, row: NodeRow, view: View) -> bool:
    if rule.own and row.labels.get(rule.own[0]) != rule.own[1]:
        return False
    if rule.other:
        found = view.get(node_key(rule.other[0]), NodeRow)
        if found is None or found.labels.get(rule.other[1]) != rule.other[2]:
            return False
    if rule.bucket and len(view.rows(BY_LABEL, rule.bucket[:2], NodeRow)) < rule.bucket[2]:
        return False
    if rule.many and not view.at_least(Labelled(rule.many[0]), rule.many[1], rule.many[2]):
        return False
    return not rule.count or view.count(Labelled(rule.count[0]), rule.count[1]) >= rule.count[2]


class Immediate:
    """An actor that carries every action out at once, and remembers what was wanted when."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.done: list[tuple[datetime, Subject, str]] = []
        self.version = 1000

    def submit(self, subject: Subject, decision: Decision, now: datetime) -> bool:
        self.done.append((now, subject, repr(decision.actions)))
        row = self.store.row(subject.key)
        edits = [action for step in decision.actions for action in step if isinstance(action, Label)]
        changed = apply_all(row, edits)
        assert changed is not None
        self.version += 1
        self.store.put(msgspec.structs.replace(changed, version=self.version))
        return False

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


class Naive:
    """A loop that asks all subjects in order, after every event and at every instant, from the first again after every act."""

    def __init__(self, store: Store, decider: Decider, actions: Immediate) -> None:
        self.store, self.decider, self.actions = store, decider, actions
        self.untils: set[datetime] = set()

    def run(self, now: datetime, enough: Callable[[], bool]) -> None:
        self.store.pass_time(now)
        while not enough() and self._round(now):
            pass
        self.store.take_changes()

    def _round(self, now: datetime) -> bool:
        keys = sorted(self.store.keys("", "Node"), key=lambda key: (self.decider.rank(key, self.store), key))
        for key in keys:
            decision = self.decider.decide(key, View(self.store), now)
            if decision.until:
                self.untils.add(max(decision.until, now) + timedelta(milliseconds=1))
            if decision.actions:
                self.actions.submit(Subject("toy", key), decision, now)
                return True
        return False

    def next_instant(self, now: datetime) -> datetime | None:
        mine = [until for until in self.untils if until > now]
        return min([*mine, *([end] if (end := self.store.next_instant()) else [])], default=None)


class Watchdog:
    """A wrapper of a decision that finds needless askings: no topic has changed, no time has come, no room has opened."""

    def __init__(self, store: Store, decide: Callable[[Key, View, datetime], Decision]) -> None:
        self.store, self.decide = store, decide
        self.changes: Counter[Topic] = Counter()
        self.last: dict[Key, tuple[Record, dict[Topic, int], datetime | None]] = {}
        self._take_changes = store.take_changes
        store.take_changes = self.take_changes  # type: ignore[method-assign]

    def take_changes(self) -> tuple[set[Topic], set[CountOf], list[Key]]:
        changed, freed, arrived = self._take_changes()
        self.changes.update(changed)
        return changed, freed, arrived

    def __call__(self, key: Key, view: View, now: datetime) -> Decision:
        if key in self.last:
            record, seen, until = self.last[key]
            changed = any(self.changes[topic] != times for topic, times in seen.items())
            met = (all(any(map(self.store.has_room, need)) for need in rooms) for rooms in record.rooms)
            opened = any(met)
            due = until is not None and now > until
            assert changed or opened or due, f"{key} was asked in vain"
        decision = self.decide(key, view, now)
        record = view._record
        self.last[key] = (record, {topic: self.changes[topic] for topic in record.topics}, decision.until)
        return decision


pair = st.tuples(st.sampled_from(LABELS), st.sampled_from(VALUES))
rules = st.lists(
    st.builds(
        Rule,
        sets=pair,
        own=st.none() | pair,
        other=st.none() | st.tuples(st.sampled_from(NAMES), st.sampled_from(LABELS), st.sampled_from(VALUES)),
        bucket=st.none() | st.tuples(st.sampled_from(LABELS), st.sampled_from(VALUES), st.integers(0, 3)),
        count=st.none() | st.tuples(st.sampled_from(LABELS), st.sampled_from(VALUES), st.integers(0, 3)),
        many=st.none() | st.tuples(st.sampled_from(LABELS), st.sampled_from(VALUES), st.integers(0, 3)),
        after=st.none() | st.integers(0, 20),
        rooms=st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(VALUES), st.integers(0, 3)), max_size=2).map(
            tuple
        ),
    ),
    min_size=1,
    max_size=4,
).map(tuple)

events = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(NAMES),
        st.one_of(
            st.none(),
            st.dictionaries(st.sampled_from((*LABELS, "t")), st.sampled_from(("0", "1", "5", "15")), max_size=3),
        ),
    ),
    max_size=12,
)


def rank(key: Key, store: Store) -> Rank:
    row = store.row(key)
    return Rank(-int(row.labels.get("z", "0")) if isinstance(row, NodeRow) else 0)


MOST_ACTS = 60


@settings(max_examples=examples(300), deadline=None)
@given(rules, events)
def test_reactive_equals_naive_and_asks_nobody_in_vain(
    rules: tuple[Rule, ...], events: list[tuple[int, str, dict[str, str] | None]]
) -> None:
    def decide(key: Key, view: View, now: datetime) -> Decision:
        return judge(rules, key, view, now)

    reactive_store, naive_store = Store(), Store()
    watchdog = Watchdog(reactive_store, decide)
    reactive_acts, naive_acts = Immediate(reactive_store), Immediate(naive_store)
    loop = Loop(reactive_store, [Decider("toy", "Node", watchdog, rank=rank)], reactive_acts, fail)
    naive = Naive(naive_store, Decider("toy", "Node", decide, rank=rank), naive_acts)
    for store in (reactive_store, naive_store):
        store.set_listing("", "Node", Listing.LISTED)
    # Events fall between the instants of rules: exactly at one, "now" and "a moment later" are both right answers.
    now = START + timedelta(milliseconds=500)
    for wait, name, labels in [*events, (30, "a", {})]:
        end = now + timedelta(seconds=wait)
        while True:
            loop.run(now, lambda: len(reactive_acts.done) >= MOST_ACTS)
            naive.run(now, lambda: len(naive_acts.done) >= MOST_ACTS)
            assert reactive_acts.done[:MOST_ACTS] == naive_acts.done[:MOST_ACTS]
            if len(naive_acts.done) >= MOST_ACTS:
                return
            instants = [instant for instant in (naive.next_instant(now), loop.next_instant()) if instant]
            upcoming = min((instant for instant in instants if instant > now), default=end)
            if upcoming >= end:
                break
            now = upcoming
        now = end
        for store in (reactive_store, naive_store):
            store.pass_time(now)
            if labels is None:
                store.remove(node_key(name), 10**9)
                watchdog.last.pop(node_key(name), None) if store is reactive_store else None
            else:
                acts = reactive_acts if store is reactive_store else naive_acts
                acts.version += 1
                store.put(node(name, version=acts.version, labels=labels))


def fail(subject: Subject, error: Exception) -> None:
    raise AssertionError(f"{subject} failed") from error


def test_counts_that_only_an_older_configuration_asked_for_are_not_kept_up() -> None:
    """Or each change of a configuration would make every later event of every node a bit dearer."""

    def decide(key: Key, view: View, now: datetime) -> Decision:
        config = view.config("toy")
        assert config is not None
        view.count(Labelled(str(config.value)), "1")
        return NOTHING

    store = Store()
    store.set_listing("", "Node", Listing.LISTED)
    loop = Loop(store, [Decider("toy", "Node", decide)], Immediate(store), fail)
    store.put(node("a"))
    for label in ("x", "y", "z"):
        store.write(Value(key=Key("", CONFIG, "", "toy"), value=label))
        assert loop.run(START)
        assert set(store.table("", "Node").tallies) == {Labelled(label)}


def test_who_asks_for_a_threshold_is_woken_only_when_it_is_crossed() -> None:
    store = Store()
    store.set_listing("", "Node", Listing.LISTED)
    record = Record()
    assert not View(store, record).at_least(Labelled("x"), "1", 2)
    crossings = []
    for number in range(4):
        store.put(node(f"n{number}", labels={"x": "1"}))
        crossings.append(bool(record.topics & store.take_changes()[0]))
    for number in range(4):
        store.remove(node_key(f"n{number}"), 10**9)
        crossings.append(bool(record.topics & store.take_changes()[0]))
    assert crossings == [False, True, False, False, False, False, True, False]
