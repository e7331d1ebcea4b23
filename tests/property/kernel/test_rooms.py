"""Rooms: the cost of a freed place does not grow with the number of waiting subjects, and no place stays idle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import pytest
from hypothesis import given, settings

from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import Count, Limit, Membership, RoomSet
from haulout.cluster.rows import NodeRow, Reservation, ReservingRow, Row
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import View
from haulout.core.action import Label
from haulout.core.arbiter import Rules, arbiter
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.edit import apply_all
from haulout.core.holds import Rank
from haulout.kernel.loop import Loop
from haulout.kernel.requests import Lost
from haulout.kernel.rooms import Order, Queue, Rooms, Subject
from tests.build.desk import Cluster, Desk, Script, steps
from tests.build.examples import examples
from tests.build.rows import START, node
from tests.build.toy import roll
from tests.build.walk import Move, Walk, tapes

A = node_key("a")
CROWD = 10_000


class In(Count, frozen=True):
    """A count of nodes by the value of a label."""

    label: str

    def groups(self, row: Row) -> Iterable[Membership]:
        assert isinstance(row, NodeRow)
        if self.label in row.labels:
            yield Membership(row.labels[self.label])


class Takes:
    """An actor that keeps every action under way, so that it takes its place."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.wanted: list[Key] = []

    def submit(self, subject: Subject, decision: Decision, now: datetime) -> bool:
        self.wanted.append(subject.key)
        edits = [action for step in decision.actions for action in step if isinstance(action, Label)]
        expected = apply_all(self.store.row(subject.key), edits)
        assert expected is not None
        self.store.expect(expected)
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


class Crowd:
    """Many nodes that want to go in under the same limits, and a few that are in."""

    def __init__(self, waiting: int, *limits: Limit) -> None:
        self.store, self.limits = Store(), limits
        self.actions = Takes(self.store)
        self.loop = Loop(self.store, [Decider("toy", "Node", self.decide)], self.actions, fail)
        self.store.set_listing("", "Node", Listing.LISTED)
        self.bored: set[str] = set()
        for number in range(waiting):
            self.store.put(node(f"w{number:05}", want=""))

    def decide(self, key: Key, view: View, now: datetime) -> Decision:
        row = view.get(key, NodeRow)
        if row is None or "want" not in row.labels or key.name in self.bored or view.full(self.limits):
            return NOTHING
        return Decision(
            (
                (
                    *(
                        Label(key, limit.count.label, str(limit.group))
                        for limit in self.limits
                        if isinstance(limit.count, In)
                    ),
                ),
            )
        )

    def put(self, name: str, **labels: str) -> int:
        """Put a node into the store, without anything of ours under way.

        Return how many subjects are asked because of it.
        """
        key = node_key(name)
        known = self.store.row(key)
        self.store.put(node(name, version=known.version + 1 if known else 1, labels=labels))
        self.store.settle(key)
        self.loop.on_end(Subject("toy", key))
        before = self.loop.askings
        self.loop.run(START)
        return self.loop.askings - before


def test_a_freed_place_asks_a_handful_of_ten_thousand() -> None:
    crowd = Crowd(CROWD, Limit(In("x"), "1", 1))
    crowd.put("first", x="1")
    assert crowd.loop.askings <= CROWD + 1
    assert crowd.actions.wanted == []
    # The one that left is asked, since its row has changed, and the first of the crowd.
    assert crowd.put("first") == 2
    assert crowd.actions.wanted == [node_key("w00000")]
    assert crowd.put("w00000", x="1") == 1
    assert crowd.put("w00000") == 2
    assert crowd.actions.wanted == [node_key("w00000"), node_key("w00001")]


def test_two_limits_that_open_in_turn_ask_nobody_of_ten_thousand() -> None:
    """Queued before each limit alone, the whole crowd would be asked each time."""
    crowd = Crowd(CROWD, Limit(In("x"), "1", 1), Limit(In("y"), "1", 1))
    crowd.put("a", x="1", y="1")
    for _ in range(10):
        assert crowd.put("a", y="1") == 1
        assert crowd.put("b", x="1") == 1
        assert crowd.put("a") == 1
        assert crowd.put("a", y="1") == 1
        assert crowd.put("b") == 1
        assert crowd.put("a", x="1", y="1") == 1
    assert crowd.actions.wanted == []
    assert crowd.put("a") == 2
    assert crowd.actions.wanted == [node_key("w00000")]


def test_who_is_offered_a_place_and_does_not_take_it_leaves_it_to_the_next() -> None:
    """Three subjects do not want their places any more, which they have not been asked about yet: each is asked once."""
    crowd = Crowd(100, Limit(In("x"), "1", 1))
    crowd.put("first", x="1")
    crowd.bored = {"w00000", "w00001", "w00002"}
    assert crowd.put("first") == 5
    assert crowd.actions.wanted == [node_key("w00003")]
    assert crowd.put("w00003") == 2


@pytest.mark.parametrize("nodes", [40, 400])
def test_the_arbiters_cost_of_a_freed_place_does_not_grow_with_the_crowd(nodes: int) -> None:
    world = Cluster(*(node(f"n{number:03}", want="yes") for number in range(nodes)))
    desk = Desk(roll(2), arbiter(Rules(("toy",))), world=world).begin()
    spent = []
    for _ in range(4):
        for request in list(desk.tray):
            desk.meet(request)
        before = desk.kernel.loop.askings
        desk.wait(4)
        for request in list(desk.tray):
            desk.meet(request)
        spent.append(desk.kernel.loop.askings - before)
    # Two go out and two come in: each is asked for its own state and for its node's claims, some twice.
    assert max(spent) <= 26


def test_a_place_that_comes_free_while_its_first_in_order_is_under_way_is_offered_to_it_afterwards() -> None:
    """It waits for room and writes something else meanwhile; the offer is kept for when that has ended."""
    script = Script()
    limit = Limit(In("x"), "1", 1)
    world = Cluster(node("a"), node("b", x="1"))
    desk = Desk(script.decider, world=world)

    def judge(view: View, now: datetime) -> Decision:
        full = view.full([limit])
        return steps(Label(A, "waits", "yes")) if full else steps(Label(A, "x", "1"))

    script.wishes[A] = judge
    desk.begin()
    desk.world.label(node_key("b"), x=None)
    desk.watch()
    asked = script.times(A)
    # The answer shows nothing that it has read, so that only the offer can be the reason to ask again.
    desk.answer(desk.only(), Lost("timed out"))
    assert script.times(A) == asked + 1


# None idle


class Doors(Walk):
    """A walk with keys that need different sets of three rooms, which open and close as others come and go."""

    LIMITS = (Limit(In("x"), "1", 1), Limit(In("y"), "1", 2), Limit(In("x"), "2", 1))
    NEEDS: tuple[tuple[Limit, ...], ...] = (LIMITS[:1], LIMITS[1:2], LIMITS[:2], LIMITS, (LIMITS[0], LIMITS[2]))

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.store = Store()
        self.actions = Takes(self.store)
        self.loop = Loop(self.store, [Decider("toy", "Node", self.decide, rank=self.rank)], self.actions, fail)
        self.store.set_listing("", "Node", Listing.LISTED)
        self.version = 0
        self.waiting: set[Key] = set()

    def rank(self, key: Key, store: Store) -> Rank:
        row = store.row(key)
        return Rank(-int(row.labels.get("rank", "0"))) if isinstance(row, NodeRow) else Rank()

    def decide(self, key: Key, view: View, now: datetime) -> Decision:
        self.waiting.discard(key)
        row = view.get(key, NodeRow)
        if row is None or "needs" not in row.labels:
            return NOTHING
        if view.full(self.NEEDS[int(row.labels["needs"])]):
            self.waiting.add(key)
            return NOTHING
        # It takes its places at once.
        self.store.expect(inside(row))
        return NOTHING

    def moves(self) -> Sequence[Move]:
        return [self.nothing, self.somebody_wants, self.somebody_wants, self.somebody_is_in, self.somebody_goes]

    def nothing(self) -> None:
        pass

    def somebody_wants(self) -> None:
        needs, rank = self.tape.pick("01234"), self.tape.pick("012")
        self.put({"needs": needs, "rank": rank})

    def somebody_is_in(self) -> None:
        self.put(self.tape.pick(({"x": "1"}, {"y": "1"}, {"x": "2"}, {"x": "1", "y": "1"})))

    def somebody_goes(self) -> None:
        self.version += 1
        self.store.remove(node_key(self.tape.pick("abcdef")), self.version)

    def put(self, labels: dict[str, str]) -> None:
        self.version += 1
        key = node_key(self.tape.pick("abcdef"))
        self.store.settle(key)
        self.store.put(node(key.name, version=self.version, labels=labels))

    def check(self) -> None:
        self.loop.run(START)
        for key in self.waiting & {*self.store.keys("", "Node")}:
            row = self.store.row(key)
            assert isinstance(row, NodeRow)
            needs = self.NEEDS[int(row.labels["needs"])]
            assert not all(self.store.has_room(limit) for limit in needs), f"{key} waits before open doors"

    def finish(self) -> None:
        for name in "abcdef":
            self.version += 1
            self.store.settle(node_key(name))
            self.store.remove(node_key(name), self.version)
        self.loop.run(START)
        assert self.loop.size() == 0


def inside(row: NodeRow) -> NodeRow:
    """Return the node as it will be: in everywhere it wanted to be."""
    labels = {"0": {"x": "1"}, "1": {"y": "1"}, "2": {"x": "1", "y": "1"}, "3": {"x": "1", "y": "1"}, "4": {"x": "1"}}
    return node(row.key.name, version=row.version, labels={**row.labels, **labels[row.labels["needs"]]})


@settings(max_examples=examples(250), deadline=None, derandomize=True)
@given(tapes())
def test_nobody_waits_before_doors_that_are_all_open(tape: bytes) -> None:
    Doors(tape).go()


# The queues themselves


def order(name: str, urgency: int = 0) -> Order:
    return Order(0, Rank(urgency), Subject("toy", node_key(name)))


def rooms_of(store: Store, *most: int) -> RoomSet:
    return frozenset(frozenset({Limit(In(str(number)), "1", limit)}) for number, limit in enumerate(most))


def test_the_first_in_order_among_all_open_queues_is_offered_first_and_only_before_the_given_one() -> None:
    store = Store()
    rooms = Rooms(store)
    one, two = rooms_of(store, 1), rooms_of(store, 1, 1)
    rooms.wait(order("b", 1), {one})
    rooms.wait(order("a", 2), {two})
    for place in rooms._sets_at.copy():
        rooms.free(place)
    assert rooms.offer(before=order("z", 0)) is None
    assert rooms.offer(before=None) == order("b").subject
    assert rooms.offer(before=order("z", 9)) == order("a").subject
    assert rooms.offer(before=None) is None
    assert rooms.size() == 0


def test_a_queue_forgets_those_who_have_left() -> None:
    queue = Queue()
    for number in range(1000):
        queue.join(order(f"n{number}"))
    for number in range(999):
        queue.leave(order(f"n{number}").subject)
    assert queue.first() == order("n999")
    assert len(queue) == 1
    assert len(queue._heap) < 20


def test_who_joins_again_with_another_rank_stands_where_the_new_one_says() -> None:
    store = Store()
    rooms = Rooms(store)
    one = rooms_of(store, 1)
    rooms.wait(order("a", 1), {one})
    rooms.wait(order("b", 2), {one})
    rooms.wait(order("a", 3), {one})
    for place in rooms._sets_at.copy():
        rooms.free(place)
    assert rooms.offer(before=None) == order("b").subject


def test_counts_that_somebody_waits_for_are_kept_up() -> None:
    crowd = Crowd(3, Limit(In("x"), "1", 1), Limit(In("y"), "1", 1))
    crowd.put("first", x="1")
    crowd.loop.forget_counts()
    assert crowd.put("first") == 2
    assert crowd.actions.wanted == [node_key("w00000")]


def test_a_place_is_reserved_in_the_cluster_of_whom_it_is_for() -> None:
    """Also where it is counted only afterwards."""
    store, count = Store(), In("zone")
    far = Key("far", "Node", "", "a")
    store.write(ReservingRow(key=Key("", "Grant", "", "g"), reserves=(Reservation(count, "z", far),)))
    assert store.has_room(Limit(count, "z", 1))
    assert not store.has_room(Limit(count, "z", 1, "far"))
    store.write(ReservingRow(key=Key("", "Grant", "", "g")))
    assert store.has_room(Limit(count, "z", 1, "far"))
    assert store.size() == 0
