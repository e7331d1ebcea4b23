"""Rests, demands and newcomers of the loop, without the rest of the kernel."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.cluster.key import Key
from haulout.cluster.limits import Count
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Index, Listing, Store
from haulout.cluster.topics import Bucket, CountOf, TableName, Topic
from haulout.cluster.view import CONFIG, GRANT, MANY_ROWS, OUTCOME, FactDemand, Record, View, holds_table
from haulout.core.decision import NOTHING, Decider, Source
from haulout.kernel.demands import FactDemands, SourceDemands
from haulout.kernel.newcomers import Newcomers
from haulout.kernel.rests import LONGEST_REST_FOR, Rests
from tests.build.rows import at, node
from tests.unit.kernel.wakes import A, subject

LARGE, SMALL = Bucket("pods-of-node", "", "a"), Bucket("drains-of-node", "", "a")


def record(rows: int, *large_buckets: Bucket) -> Record:
    made = Record()
    made.rows, made.large_buckets = rows, frozenset(large_buckets)
    return made


@pytest.mark.parametrize(
    "topic, expected",
    [
        (LARGE, True),
        (Key("", OUTCOME, "", "evict/p"), True),
        (SMALL, False),
        (A, False),
        (Key("", CONFIG, "", "x"), False),
        (Key("", GRANT, "", "x"), False),
        (CountOf("", Count(), "z"), False),
        (TableName("", "Node"), False),
    ],
    ids=["large bucket", "outcome", "small bucket", "row", "configuration", "grant", "count", "table"],
)
def test_only_changes_of_many_alike_may_wait(topic: Topic, expected: bool) -> None:
    rests = Rests()
    rests.on_decision(subject(), record(100, LARGE), at(0))
    assert rests.delay(subject(), topic, at(0)) is expected


def test_a_subject_rests_for_as_long_as_it_has_rows() -> None:
    rests = Rests()
    rests.on_decision(subject(), record(250, LARGE), at(0))
    assert rests.delay(subject(), LARGE, at(0.499))
    assert rests.next_instant() == at(0.5)
    assert rests.take_rested(at(0.499)) is None
    assert [rests.take_rested(at(0.5)) for _ in range(2)] == [subject(), None]
    assert not rests.delay(subject(), LARGE, at(0.5))


def test_the_longest_rest_is_a_second() -> None:
    rests = Rests()
    rests.on_decision(subject(), record(10**6, LARGE), at(0))
    assert rests.delay(subject(), LARGE, at(0))
    assert rests.next_instant() == at(0) + LONGEST_REST_FOR


def test_a_subject_without_a_large_bucket_does_not_rest() -> None:
    rests = Rests()
    rests.on_decision(subject(), record(250, LARGE), at(0))
    rests.on_decision(subject(), record(250), at(0))
    assert not rests.delay(subject(), LARGE, at(0))
    assert not rests


@pytest.mark.parametrize("rows, large", [(MANY_ROWS, False), (MANY_ROWS + 1, True)])
def test_a_bucket_with_many_rows_is_large(rows: int, large: bool) -> None:
    store, made, index = Store(), Record(), Index("all", "Node", lambda row: ("all",))
    store.begin_list("", "Node")
    for number in range(rows):
        store.put(node(f"n{number}"))
    store.end_list("", "Node", 1)
    View(store, made).rows(index, "all", NodeRow)
    assert made.large_buckets == ({Bucket("all", "", "all")} if large else set())


def test_a_subject_that_was_asked_meanwhile_is_not_asked_for_the_earlier_change() -> None:
    rests = Rests()
    rests.on_decision(subject(), record(100, LARGE), at(0))
    rests.delay(subject(), LARGE, at(0.01))
    rests.on_decision(subject(), record(100, LARGE), at(0.05))
    assert rests.take_rested(at(1)) is None


def test_sources_are_the_same_object_until_they_change() -> None:
    demands, pods, nodes = SourceDemands(), Source("", "Pod"), Source("", "Node")
    demands.want(subject("a"), (pods,))
    first = demands.all()
    demands.want(subject("b"), (pods,))
    demands.want(subject("a"), ())
    assert demands.all() == first == {pods}
    demands.want(subject("b"), (pods, nodes))
    assert demands.all() == {pods, nodes}
    demands.want(subject("b"), ())
    assert demands.all() == frozenset()
    assert len(demands) == 0


def test_a_fact_is_wanted_at_the_pace_of_its_most_eager_reader() -> None:
    demands = FactDemands()
    slow, fast = (FactDemand("probe", "x", timedelta(seconds=seconds)) for seconds in (60, 5))
    demands.want(subject("a"), {}, {slow.key: slow})
    demands.want(subject("b"), {}, {fast.key: fast})
    assert demands.all() == {fast.key: fast}
    demands.want(subject("b"), {fast.key: fast}, {})
    assert demands.all() == {slow.key: slow}
    demands.want(subject("a"), {slow.key: slow}, {})
    assert slow.key not in demands


def test_the_claims_of_a_surface_are_known_once_each_of_its_subjects_has_been_asked() -> None:
    store, decider = Store(), Decider("one", "Node", lambda key, view, now: NOTHING)
    newcomers = Newcomers(store, [decider])
    store.begin_list("", "Node")
    for name in ("a", "b"):
        store.put(node(name))
        newcomers.add(subject(name))
    store.end_list("", "Node", 1)
    newcomers.table_changed(TableName("", "Node"))
    newcomers.on_decision(subject("a"), decider)
    assert store.listing("", holds_table("one")) is not Listing.LISTED
    newcomers.on_decision(subject("b"), decider)
    assert store.listing("", holds_table("one")) is Listing.LISTED
    newcomers.restart({subject("a")})
    assert store.listing("", holds_table("one")) is Listing.WAITING
    assert list(newcomers) == [subject("a")]
    newcomers.discard([subject("a"), subject("b")])
    assert not len(newcomers)
