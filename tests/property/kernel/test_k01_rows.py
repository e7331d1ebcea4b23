"""K1 to K4: whatever comes by list, watch, answer or look, in whatever order, the rows end as the world is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import Count, Limit, Membership
from haulout.cluster.rows import NodeRow, ObjectRow, PodRow, Row, Taint
from haulout.cluster.store import Index, Listing, Store
from haulout.core.action import Annotate, Cordon, Create, Edit, Finalize, Label, Patch, SetTaint
from haulout.kernel.jobs import plan, request_body
from haulout.kernel.requests import Change, Done, Look, Refused
from tests.build.desk import Cluster, Desk, Script, pod_key, steps, together
from tests.build.examples import examples
from tests.build.rows import node
from tests.build.walk import Move, Walk, tapes
from tests.build.world import World, copy

A, B = node_key("a"), node_key("b")
NAMES = ("a", "b")
VALUES = ("0", "1")


def values() -> st.SearchStrategy[str]:
    return st.sampled_from(VALUES)


BY_X = Index("by-x", "Node", lambda row: (row.labels.get("x"),) if isinstance(row, NodeRow) else ())


class InX(Count, frozen=True):
    def groups(self, row: Row) -> Iterable[Membership]:
        assert isinstance(row, NodeRow)
        yield Membership(row.labels.get("x"))


def listed(*rows: Row) -> Store:
    store = Store()
    store.begin_list("", "Node")
    for row in rows:
        store.put(row)
    store.end_list("", "Node", max([row.version for row in rows], default=0))
    store.take_changes()
    return store


def content(row: Row | None) -> Row | None:
    return None if row is None else msgspec.structs.replace(row, version=0)


class Ask:
    """A look or write of ours: the server's answer, once it is given, and what we knew when the request was sent."""

    def __init__(self, key: Key, known: int) -> None:
        self.key, self.known = key, known
        self.served = False
        self.row: ObjectRow | None = None


class Part:
    """A list of one bucket: what the server returned, and at which version, once it has."""

    def __init__(self, value: str) -> None:
        self.value = value
        self.rows: list[ObjectRow] | None = None
        self.version = 0


class Doors(Walk):
    """A walk with all ways by which rows come in: lists in pages or of one bucket, watches from older lists, late answers."""

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.world, self.store = World(), Store()
        self.position = 0
        self.pages: list[ObjectRow] | None = None
        self.ending: Iterator[None] | None = None
        self.listed_at = 0
        self.asks: list[Ask] = []
        self.parts: list[Part] = []
        self.history: dict[tuple[Key, int], ObjectRow] = {}
        self.world.put(node("a", x="0"))
        self.list_begins()
        self.list_ends()

    def moves(self) -> Sequence[Move]:
        listing = [self.list_goes_on, self.list_ends] if self.pages is not None else [self.watch_tells]
        listing = listing if self.ending is None else [self.list_takes_a_step]
        serving = [self.server_serves] * any(not ask.served for ask in self.asks)
        answering = [self.answer_arrives] * any(ask.served for ask in self.asks)
        others = [self.somebody_writes, self.somebody_deletes, self.somebody_makes_it_anew]
        parts = [self.part_is_listed] * any(part.rows is None for part in self.parts)
        parts += [self.part_arrives] * any(part.rows is not None for part in self.parts)
        return [*listing, self.list_begins, *others, self.we_ask, *serving, *answering, self.we_list_a_part, *parts]

    # The world

    def somebody_writes(self) -> None:
        self.world.put(node(self.tape.pick(NAMES), x=self.tape.pick(VALUES)))

    def somebody_deletes(self) -> None:
        self.world.delete(node_key(self.tape.pick(NAMES)))

    def somebody_makes_it_anew(self) -> None:
        name = self.tape.pick(NAMES)
        self.world.delete(node_key(name))
        self.world.put(node(name, x=self.tape.pick(VALUES)))

    # Looks and writes of ours

    def we_ask(self) -> None:
        key = node_key(self.tape.pick(NAMES))
        self.store.hold_open(key)
        row = self.store.row(key)
        self.asks.append(Ask(key, row.version if row else -1))

    def server_serves(self) -> None:
        ask = self.tape.pick([ask for ask in self.asks if not ask.served])
        ask.served, ask.row = True, self.world.objects.get(ask.key)

    def answer_arrives(self) -> None:
        self.take(self.tape.pick([ask for ask in self.asks if ask.served]))

    def take(self, ask: Ask) -> None:
        self.asks.remove(ask)
        if ask.row is None:
            self.store.remove(ask.key, ask.known)
        else:
            self.deliver(ask.row, self.store.answer)
        self.store.let_go(ask.key)

    # Lists of one bucket

    def we_list_a_part(self) -> None:
        self.store.hold_table("", "Node")
        self.parts.append(Part(self.tape.pick(VALUES)))

    def part_is_listed(self) -> None:
        part = self.tape.pick([part for part in self.parts if part.rows is None])
        part.rows = [row for row in self.world.objects.values() if row.labels.get("x") == part.value]
        part.version = self.world.version

    def part_arrives(self) -> None:
        part = self.tape.pick([part for part in self.parts if part.rows is not None])
        self.parts.remove(part)
        self.store.take_bucket(BY_X, "", part.value, map(copy, part.rows or ()), part.version)
        self.store.let_go_table("", "Node")

    # List and watch

    def watch_tells(self, events: int = 2) -> None:
        for version, key, row in self.world.log[self.position : self.position + events]:
            if row is None:
                self.store.remove(key, version)
            else:
                self.deliver(row, self.store.put)
        self.position = min(len(self.world.log), self.position + events)

    def list_begins(self) -> None:
        """Begin a list, of the current state or of a cache that is behind."""
        self.listed_at = max(0, len(self.world.log) - self.tape.pick((0, 0, 1, 2)))
        objects: dict[Key, ObjectRow | None] = {key: row for _, key, row in self.world.log[: self.listed_at]}
        self.pages = [row for row in objects.values() if row is not None]
        self.ending = None
        self.store.begin_list("", "Node")

    def list_goes_on(self) -> None:
        if self.pages:
            self.deliver(self.pages.pop(0), self.store.put)

    def list_ends(self) -> None:
        for row in self.pages or ():
            self.deliver(row, self.store.put)
        self.pages = None
        version = self.world.log[self.listed_at - 1][0] if self.listed_at else 0
        self.ending = self.store.ending_list("", "Node", version)

    def list_takes_a_step(self) -> None:
        """Take one step of a list.

        Rows that it did not show are removed one by one, and answers may come in between.
        """
        if self.ending is not None and next(self.ending, self) is self:
            self.ending = None
            self.position = self.listed_at

    def deliver(self, row: ObjectRow, door: Callable[[Row], None]) -> None:
        """Put one row into the store. It never goes backwards, and its readers are woken exactly if it differs."""
        before = self.store.row(row.key)
        known, was = (before.version if before else -1), content(before)
        self.store.take_changes()
        door(copy(row))
        after = self.store.row(row.key)
        changed, _, arrived = self.store.take_changes()
        assert after is None or after.version == max(known, row.version)
        assert (row.key in changed) == (content(after) != was)
        assert bool(arrived) == (after is not None and (was is None or was.uid != after.uid))

    def check(self) -> None:
        """Every row has been true, to the letter, at its version."""
        self.history |= {(key, row.version): row for _, key, row in self.world.log if row is not None}
        for key in map(node_key, NAMES):
            known = self.store.row(key)
            assert known is None or known == self.history[key, known.version]

    def finish(self) -> None:
        if self.pages is not None:
            self.list_ends()
        while self.ending is not None:
            self.list_takes_a_step()
        for ask in list(self.asks):
            if not ask.served:
                ask.served, ask.row = True, self.world.objects.get(ask.key)
            self.take(ask)
        while self.parts:
            (self.part_is_listed if self.parts[0].rows is None else self.part_arrives)()
        self.watch_tells(len(self.world.log))
        rows = {key: self.store.row(key) for key in self.store.keys("", "Node")}
        assert rows == self.world.objects
        assert self.store.size() == 0


@settings(max_examples=examples(400), deadline=None, derandomize=True)
@given(tapes())
def test_k1_to_k4_in_whatever_order_it_comes_the_store_ends_as_the_world_is(tape: bytes) -> None:
    Doors(tape).go()


# K1


def test_k1_an_equal_row_wakes_nobody_but_its_version_moves() -> None:
    store = listed(node("a", x="1", version=5))
    known = store.row(A)
    store.bucket(BY_X, "", "1"), store.stored_count("", InX(), "1")
    moved: list[Key] = []
    store.on_version = moved.append
    store.put(node("a", x="1", version=6))
    assert store.take_changes() == (set(), set(), [])
    assert store.row(A) is known
    assert (known is not None and known.version, moved) == (6, [A])


def test_k1_the_patch_after_a_heartbeat_names_the_version_of_the_heartbeat() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    desk.world.heartbeat(A)
    desk.watch()
    asked = script.times(A)
    desk.wants(script, A, steps(Label(A, "x", "1")))
    change = desk.only().body
    assert isinstance(change, Change)
    assert (asked, change.version) == (1, desk.world.objects[A].version)


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(st.permutations(range(1, 6)))
def test_k1_the_greater_version_wins_by_any_door(order: list[int]) -> None:
    store = listed(node("a", version=0))
    doors = (store.put, store.answer)
    for version in order:
        doors[version % 2](node("a", x=str(version), version=version))
    assert store.row(A) == node("a", x="5", version=5)


# K2

metadata_edits = st.one_of(
    st.builds(Label, st.just(A), st.sampled_from("xy"), st.sampled_from(("0", "1", None))),
    st.builds(Annotate, st.just(A), st.sampled_from("xy"), st.sampled_from(("0", "1", None))),
    st.builds(Finalize, st.just(A), st.sampled_from("xy"), st.booleans()),
)
# A patch of its own may change what the row keeps of metadata beyond what a slim answer brings.
spec_edits = st.one_of(
    st.builds(Cordon, st.just(A), st.booleans()),
    st.builds(SetTaint, st.just(A), st.builds(Taint, st.sampled_from("xy"), st.just("NoSchedule")), st.booleans()),
    st.just(Patch(A, {"spec": {"unschedulable": True}})),
    st.just(Patch(A, {"metadata": {"labels": {"p": "1"}}})),
    st.just(Patch(A, {"metadata": {"labels": {"p": "1"}}}, subresource="status")),
)


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(
    st.lists(metadata_edits, min_size=1, max_size=3),
    st.lists(spec_edits, max_size=2),
    st.none() | st.integers(1, 9).map(lambda version: node("a", version=version)),
)
def test_k2_metadata_alone_is_asked_for_exactly_where_a_patch_under_a_precondition_changes_nothing_else(
    metadata: list[Edit], spec: list[Edit], row: NodeRow | None
) -> None:
    bodies = [request_body(job, row) for batch in plan([(*metadata, *spec)]) for job in batch.jobs]
    for change in bodies:
        assert isinstance(change, Change)
        assert change.version == (row.version if row else None)
        assert not change.slim or (row is not None and set(change.body) == {"metadata"} and not change.subresource)
    assert all(isinstance(change, Change) and change.slim for change in bodies) == (row is not None and not spec)


class Admitting(Cluster):
    """A world in which admission adds to every patch: here to the node's spec, which a slim answer does not show."""

    def put(self, row: ObjectRow) -> ObjectRow:
        if row.labels.get("x") and isinstance(row, NodeRow):
            row = msgspec.structs.replace(row, unschedulable=row.labels["x"] == "1", boot_id=row.labels["x"])
        return super().put(row)


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(values(), st.lists(metadata_edits | spec_edits, max_size=2), st.booleans())
def test_k2_an_echo_of_the_answered_version_brings_what_admission_changed(
    x: str, more: list[Edit], echo_first: bool
) -> None:
    script = Script()
    desk = Desk(script.decider, world=Admitting(node("a"))).begin()
    desk.wants(script, A, together(Label(A, "x", x), *more))
    script.wishes.clear()
    for request in list(desk.tray):
        answer = desk.world.carry_out(request.body)
        desk.watch() if echo_first else None
        desk.answer(request, answer)
    desk.watch()
    assert desk.store.row(A) == desk.world.objects[A]


def test_k2_the_same_version_with_another_content_wakes_its_readers() -> None:
    store = listed(node("a", version=5))
    store.put(node("a", version=5, cordoned=True))
    changed, _, _ = store.take_changes()
    assert changed == {A}
    assert store.row(A) == node("a", version=5, cordoned=True)


# K3


@pytest.mark.parametrize("by", ["watch", "list", "list that never saw it"])
def test_k3_a_late_answer_raises_no_ghost(by: str) -> None:
    store = listed(*([] if by == "list that never saw it" else [node("a", version=1)]))
    store.hold_open(A)
    if by == "watch":
        store.remove(A, 9)
    else:
        store.begin_list("", "Node")
        store.end_list("", "Node", 9)
    store.answer(node("a", version=8))
    store.let_go(A)
    assert store.row(A) is None
    assert store.size() == 0


def test_k3_an_answer_that_arrives_while_a_list_is_read_is_not_part_of_the_list() -> None:
    store = listed(node("a", version=1))
    store.hold_open(A)
    store.begin_list("", "Node")
    store.answer(node("a", version=8))
    store.let_go(A)
    store.end_list("", "Node", 9)
    assert store.row(A) is None


def test_k3_what_was_created_after_the_deletion_is_no_ghost() -> None:
    store = listed(node("a", version=1))
    store.hold_open(A)
    store.remove(A, 9)
    store.answer(node("a", uid="other", version=10))
    assert store.row(A) == node("a", uid="other", version=10)


def test_k3_another_uid_is_a_deletion_and_a_creation_and_ends_what_was_expected() -> None:
    store = listed(node("a", x="0", version=1))
    limit = Limit(InX(), "1", 1)
    store.expect(node("a", x="1", version=1))
    replaced: list[Key] = []
    store.on_replaced = replaced.append
    assert not store.has_room(limit)
    store.put(node("a", uid="other", x="0", version=2))
    _, freed, arrived = store.take_changes()
    assert store.expects(A) is None
    assert store.has_room(limit)
    assert "1" in [place.group for place in freed]
    assert (replaced, arrived) == ([A], [A])


def test_k3_the_answer_to_a_write_on_the_one_before_does_not_touch_the_one_after() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    desk.wants(script, A, steps(Label(A, "x", "1")))
    script.wishes.clear()
    request = desk.only()
    answer = desk.world.carry_out(request.body)
    desk.world.delete(A)
    desk.world.put(node("a"))
    desk.watch()
    desk.answer(request, answer)
    assert desk.store.row(A) == desk.world.objects[A]


def test_k3_a_look_that_found_nothing_does_not_remove_what_has_come_since() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    desk.wants(script, A, steps(Label(A, "x", "1")))
    script.wishes.clear()
    desk.meet(desk.only(), "404")
    look = desk.only()
    assert look.body == Look(A)
    desk.world.delete(A)
    answer = desk.world.carry_out(look.body)
    desk.world.put(node("a"))
    desk.watch()
    desk.answer(look, answer)
    assert desk.store.row(A) == desk.world.objects[A]


def test_k3_a_look_that_finds_nothing_is_proof() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    desk.wants(script, A, steps(Label(A, "x", "1")))
    desk.world.delete(A)
    desk.meet(desk.only())
    desk.answer(desk.only(), Refused(404, "not found"))
    assert desk.store.row(A) is None


# K4


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9)), st.sets(st.sampled_from("abcd")), st.integers(1, 9))
def test_k4_a_list_never_removes_a_row_newer_than_itself(known: dict[str, int], shown: set[str], version: int) -> None:
    store = listed(*(node(name, version=at) for name, at in known.items()))
    store.begin_list("", "Node")
    for name in sorted(shown):
        store.put(node(name, version=min(version, known.get(name, version))))
    store.end_list("", "Node", version)
    left = {key.name for key in store.keys("", "Node")}
    assert left == shown | {name for name, at in known.items() if at > version}


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(10, 19), st.booleans())),
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(1, 9), values())),
    st.sets(st.sampled_from("abcd")),
)
def test_k4_where_our_versions_lie_in_the_future_the_list_alone_stands(
    known: dict[str, tuple[int, bool]], shown: dict[str, tuple[int, str]], asked: set[str]
) -> None:
    store = listed(*(node(name, version=version) for name, (version, _) in known.items()))
    for name in asked:
        store.hold_open(node_key(name))
    for name, (_, deleted) in known.items():
        store.remove(node_key(name), 20) if deleted else None
    store.begin_list("", "Node")
    restored = [node(name, x=x, version=version) for name, (version, x) in shown.items()]
    for row in restored:
        store.put(copy(row))
    store.end_list("", "Node", 9, future=True)
    assert [store.row(key) for key in store.keys("", "Node")] == sorted(restored, key=lambda row: row.key)
    for name in asked:
        store.let_go(node_key(name))
    assert store.size() == 0


REWINDS: dict[str, tuple[int, tuple[NodeRow, ...], bool, bool]] = {
    "the same": (9, (node("a", version=5),), False, False),
    "gone since": (9, (), False, False),
    "an answer newer than the list": (4, (node("b", version=3),), False, False),
    "an earlier state of a row": (9, (node("a", version=4),), False, True),
    "a version before ours": (4, (), True, True),
    "before an empty list": (2, (), True, True),
    "no longer served": (0, (), True, False),
}


@pytest.mark.parametrize(("version", "shown", "future", "is_rewound"), REWINDS.values(), ids=REWINDS)
def test_k4_a_list_that_shows_an_earlier_state_is_reported(
    version: int, shown: tuple[NodeRow, ...], future: bool, is_rewound: bool
) -> None:
    store = listed(node("a", version=3))
    store.put(node("a", version=5))
    found: list[str] = []
    store.on_rewound = lambda table: found.append(table.kind)
    store.begin_list("", "Node")
    for row in shown:
        store.put(row)
    store.end_list("", "Node", version, future=future)
    assert found == ["Node"] * is_rewound


@pytest.mark.parametrize("listing", [Listing.WAITING, Listing.UNREADABLE])
def test_k4_an_answer_that_no_source_covers_leaves_no_row(listing: Listing) -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    desk.store.set_listing("", "Pod", listing)
    desk.wants(script, A, steps(Create(pod_key("p"), {})))
    script.wishes.clear()
    answer = desk.world.carry_out(desk.only().body)
    assert isinstance(answer, Done)
    assert answer.row is not None
    desk.answer(desk.only(), answer)
    assert desk.store.row(pod_key("p")) is None


def test_k4_a_closed_source_leaves_no_row_and_takes_no_answer() -> None:
    store = listed(node("a", version=1))
    store.hold_open(A)
    store.close("", "Node")
    store.answer(node("a", version=2))
    assert store.row(A) is None
    assert store.table("", "Node").listing is Listing.WAITING


class Compared(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    times = 0

    def __lt__(self, other: str) -> bool:
        Compared.times += 1
        return str.__lt__(self, other)

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def comparisons(count: int) -> int:
    """Return how many comparisons it takes to fill one bucket with so many pods in random order, and to empty it again."""
    store, index = Store(), Index("all", "Pod", lambda row: ("",))
    store.bucket(index, "", "")
    keys = [Key("", "Pod", "ns", Compared(f"p{(number * 7919) % count:05}")) for number in range(count)]
    Compared.times = 0
    for version, key in enumerate(keys, 1):
        store.put(PodRow(key=key, version=version))
    for version, key in enumerate(keys, count):
        store.remove(key, version)
    assert not store.bucket(index, "", "")
    return Compared.times


def test_a_bucket_of_twice_as_many_rows_costs_hardly_more_than_twice_as_much() -> None:
    assert comparisons(4000) < 2.5 * comparisons(2000)


@pytest.mark.parametrize(("listed_at", "expected"), [(40, "restored"), (29, "ours")], ids=["caught up", "behind us"])
def test_k4_a_list_that_shows_an_older_state_than_ours_proves_a_restored_backup(listed_at: int, expected: str) -> None:
    store = Store()
    store.put(node("a", version=30, labels={"state": "ours"}))
    store.begin_list("", "Node")
    store.put(node("a", version=20, labels={"state": "restored"}))
    store.end_list("", "Node", listed_at)
    found = store.row(node_key("a"))
    assert isinstance(found, NodeRow)
    assert found.labels == {"state": expected}
