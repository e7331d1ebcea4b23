"""Tables of the store: what is reported about objects that are too large or unreadable, and for how long that is kept."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime

import pytest

from haulout.cluster.project import RESOURCES, Keep, Projector
from haulout.cluster.store import Listing, Store
from haulout.kube.errors import Overfull
from haulout.model.meta import ObjectMeta
from haulout.model.node import Node, NodeMeta
from haulout.model.pod import Pod
from haulout.runtime.metrics import Metrics
from haulout.runtime.tables import MOST_ODD, TableSink
from tests.build.clock import ManualClock


class Pods:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.metrics = Metrics()
        clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
        projector = Projector(RESOURCES["Pod"], "", Keep())
        self.sink = TableSink(
            Store(),
            projector,
            clock,
            self.metrics,
            lambda: None,
            on_oversized=lambda what, why: self.told.append((what, why)),
        )

    def put(self, name: str, version: int) -> None:
        pod = _pod(name, version)
        self.sink.put(pod)
        self.sink.report_oversized(pod.metadata, 7_000_000)

    def list(self, *names: str, version: int) -> None:
        self.sink.begin()
        for name in names:
            self.put(name, version)
        deque(self.sink.end_list(str(version), future=False), maxlen=0)


def _pod(name: str, version: int) -> Pod:
    return Pod(ObjectMeta(name=name, namespace="ns", resource_version=str(version)))


def test_oversized_object_is_told_once_as_long_as_it_exists() -> None:
    pods = Pods()
    pods.list("fat", version=1)
    pods.put("fat", 2)
    pods.list("fat", version=3)
    assert pods.told == [("Pod ns/fat", "it has 7000000 bytes of JSON")]
    assert 'haulout_oversized_objects_total{kind="Pod"} 3' in pods.metrics.render().decode()


def test_oversized_object_is_told_again_after_it_was_gone() -> None:
    pods = Pods()
    pods.put("fat", 1)
    pods.sink.delete(_pod("fat", 2))
    pods.put("fat", 3)
    pods.list("other", version=4)
    pods.put("fat", 5)
    assert [what for what, _ in pods.told] == ["Pod ns/fat", "Pod ns/fat", "Pod ns/other", "Pod ns/fat"]


# Of other clusters


class FarNodes:
    """The Nodes of another cluster, of which at most `most` are read."""

    def __init__(self, most: int) -> None:
        self.store = Store()
        keep = Keep(frozenset({"kept"}), only_labels=frozenset({"kept"}), most=most)
        clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
        projector = Projector(RESOURCES["Node"], "far", keep)
        self.metrics = Metrics()
        self.sink = TableSink(self.store, projector, clock, self.metrics, lambda: None)

    def listed(self, *names: str) -> None:
        self.sink.begin()
        for name in names:
            self.sink.put(_node(name))
        deque(self.sink.end_list("9", future=False), maxlen=0)

    @property
    def names(self) -> list[str]:
        return [key.name for key in self.store.keys("far", "Node")]


def _node(name: str, **labels: str) -> Node:
    return Node(NodeMeta(name=name, resource_version="5", labels=labels))


def test_list_with_more_objects_than_are_read_is_not_taken_for_a_complete_one() -> None:
    nodes = FarNodes(most=3)
    nodes.listed("a", "b", "c")
    with pytest.raises(Overfull, match="more than 3 nodes"):
        nodes.listed("d", "e", "f", "g")
    assert {"a", "b", "c"} <= set(nodes.names)


def test_objects_that_cannot_be_read_count_among_those_of_a_list() -> None:
    nodes = FarNodes(most=3)
    nodes.sink.begin()
    for name in ("a", "b", "c"):
        nodes.sink.report_broken(name, "not a Node")
    with pytest.raises(Overfull):
        nodes.sink.report_broken("d", "not a Node")


def test_watch_that_brings_more_objects_than_are_read_is_refused() -> None:
    nodes = FarNodes(most=3)
    nodes.listed("a", "b", "c")
    with pytest.raises(Overfull):
        for number in range(10):
            nodes.sink.put(_node(f"n{number}"))
    assert len(nodes.names) <= 4


def test_table_with_too_many_objects_is_unreadable_at_once() -> None:
    nodes = FarNodes(most=3)
    nodes.listed("a")
    nodes.sink.trouble("overfull", "it has more than 3 nodes")
    assert nodes.store.listing("far", "Node") is Listing.UNREADABLE
    nodes.listed("a")
    assert nodes.store.listing("far", "Node") is Listing.LISTED


def test_object_with_names_longer_than_any_api_server_allows_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    nodes = FarNodes(most=3)
    nodes.listed("a" * 100_000, "b")
    nodes.sink.put(_node("c", kept="x" * 100_000))
    assert nodes.names == ["b"]
    assert 'haulout_undecodable_objects_total{kind="Node"} 2' in nodes.metrics.render().decode()
    assert max(len(record.getMessage()) + len(str(record.__dict__.get("object"))) for record in caplog.records) < 1000


def test_names_of_broken_objects_are_remembered_up_to_a_number() -> None:
    nodes = FarNodes(most=0)
    nodes.sink.begin()
    for number in range(3 * MOST_ODD):
        nodes.sink.report_broken(f"n{number}", "not a Node")
    assert len(nodes.sink._odd) <= MOST_ODD
    assert f'haulout_undecodable_objects_total{{kind="Node"}} {3 * MOST_ODD}' in nodes.metrics.render().decode()


def test_labels_and_status_that_are_not_read_leave_the_row_as_it_is() -> None:
    nodes = FarNodes(most=3)
    nodes.listed("a")
    nodes.store.take_changes()
    nodes.sink.put(_node("a", other="changed"))
    assert nodes.store.take_changes()[0] == set()
    nodes.sink.put(_node("a", kept="changed"))
    assert nodes.store.take_changes()[0]


def test_an_object_that_a_row_keeps_in_part_is_told_of() -> None:
    pods = Pods()
    labels = {f"example.com/label-{number}": "v" for number in range(3000)}
    pods.sink.put(Pod(ObjectMeta(name="many", namespace="ns", resource_version="1", labels=labels)))
    [(what, why)] = pods.told
    assert what == "Pod ns/many"
    assert "3000 labels" in why
