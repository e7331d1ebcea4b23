"""Equal values that rows and records share in memory, which matters with 150,000 pods."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from haulout.cluster.key import Key
from haulout.cluster.project import RESOURCES, Keep, Projector
from haulout.cluster.rows import NodeRow, PodRow
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import Record, View
from haulout.model.node import Node
from haulout.model.pod import Pod
from tests.rig.api import Json
from tests.rig.fleet import Owner, node_object, pod_object


def pod_rows(*bodies: Json) -> list[PodRow]:
    projector = Projector(RESOURCES["Pod"], "", Keep(details=True))
    rows = [projector.row(msgspec.convert(body, Pod)) for body in bodies]
    return [row for row in rows if isinstance(row, PodRow)]


def node_rows(*bodies: Json) -> list[NodeRow]:
    projector = Projector(RESOURCES["Node"], "", Keep())
    rows = [projector.row(msgspec.convert(body, Node)) for body in bodies]
    return [row for row in rows if isinstance(row, NodeRow)]


def test_the_pods_of_one_owner_share_labels_owners_spec_and_details() -> None:
    body = pod_object("p1", "default", "a", owner=Owner("ReplicaSet", "rs"))
    # Decoded anew, so that nothing is shared before.
    one, other = pod_rows(json.loads(json.dumps(body)), json.loads(json.dumps(body)))
    assert one.labels
    assert one.labels is other.labels
    assert one.owners is other.owners
    assert one.spec.grace_for
    assert one.spec is other.spec
    assert one.details is not None
    assert one.details is other.details


def test_nodes_in_the_same_state_share_their_conditions() -> None:
    one, other = node_rows(node_object("a"), node_object("b"))
    assert one.conditions
    assert one.conditions is other.conditions


def test_the_labels_of_a_node_are_kept_by_its_row_alone() -> None:
    projector = Projector(RESOURCES["Node"], "", Keep())
    row = projector.row(msgspec.convert(node_object("a", labels={"x": "y"}), Node))
    references = sys.getrefcount(row.labels)
    # The row's, and that of the argument.
    assert references == 2


def test_a_changed_row_keeps_the_key_that_it_came_with() -> None:
    store = Store()
    store.put(NodeRow(key=Key("", "Node", "", "a"), version=1))
    before = store.row(Key("", "Node", "", "a"))
    store.put(NodeRow(key=Key("", "Node", "", "a"), version=2, unschedulable=True))
    after = store.row(Key("", "Node", "", "a"))
    assert before is not None
    assert after is not None
    assert (before is after, before.key is after.key) == (False, True)


def test_a_decision_remembers_the_key_of_the_row_that_it_read() -> None:
    store, record = Store(), Record()
    store.set_listing("", "Node", Listing.LISTED)
    row = NodeRow(key=Key("", "Node", "", "a"))
    store.put(row)
    view = View(store, record)
    assert view.get(Key("", "Node", "", "a"), NodeRow) is row
    assert view.get(Key("", "Node", "", "b"), NodeRow) is None
    assert record.topics == {row.key, Key("", "Node", "", "b")}
    assert any(topic is row.key for topic in record.topics)


def many_pods(**fields: Any) -> int:
    """Return how many bytes stay in memory after a hundred pods with large fields have come and gone."""
    projector = Projector(RESOURCES["Pod"], "", Keep(details=True))
    tracemalloc.start()
    try:
        for number in range(100):
            made = {name: make(number) for name, make in fields.items()}
            body = pod_object(f"p{number}", "default", "a")
            body["metadata"] |= made
            projector.row(msgspec.convert(json.loads(json.dumps(body)), Pod))
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def large_labels(number: int) -> dict[str, str]:
    return {f"label-{each}": f"{number}-{'x' * 50}" for each in range(5000)}


def large_owners(number: int) -> list[Json]:
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": f"{number}-{each}", "uid": f"{number}-{each}-{'x' * 100}"}
        for each in range(3000)
    ]


@pytest.mark.parametrize(("field", "made"), [("labels", large_labels), ("ownerReferences", large_owners)])
def test_large_fields_of_pods_do_not_outlast_them(field: str, made: Callable[[int], Any]) -> None:
    assert many_pods(**{field: made}) < 20 * 2**20
