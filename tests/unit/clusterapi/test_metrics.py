"""The gauges of the clusterapi surface."""

from __future__ import annotations

import pytest

from haulout.cluster.rows import Connection, Row
from haulout.cluster.store import Store
from haulout.surfaces.clusterapi.metrics import samples
from haulout.surfaces.clusterapi.wire import ORIGINAL, MachineRow
from tests.build.machines import FAR, connection, hooked, linked, machine, node, picture

WHERE = (("cluster", "alpha"), ("namespace", "fleet"))


def gauges(*rows: Row) -> dict[str, float]:
    found = {}
    for name, labels, value in samples(picture(*rows)):
        assert labels[:2] == WHERE
        found[name if name.endswith("connected") else labels[2][1]] = value
    return found


def states(*rows: Row) -> dict[str, float]:
    return {name: value for name, value in gauges(*rows).items() if value and not name.endswith("connected")}


@pytest.mark.parametrize(
    "state, value",
    [
        (Connection.FINE, 1),
        (Connection.CONNECTING, 0),
        ("unreachable", 0),
        ("unauthorized", 0),
    ],
)
def test_whether_a_cluster_is_connected(state: str, value: float) -> None:
    assert gauges(connection(state), machine())["maintenance_capi_cluster_connected"] == value


@pytest.mark.parametrize("state", Connection.UNUSED)
def test_an_access_that_cannot_be_used_does_not_end_a_connection(state: str) -> None:
    def connected(store: Store) -> list[float]:
        return [value for name, _, value in samples(store) if name.endswith("connected")]

    assert connected(picture(connection(state), machine())) == [1]
    assert connected(picture(connection(state), machine(), waiting=[(FAR, "Node")])) == [0], "there was none"


def test_a_cluster_that_was_never_opened_is_not_connected() -> None:
    assert gauges(machine())["maintenance_capi_cluster_connected"] == 0


def test_every_state_is_there_also_at_zero() -> None:
    assert gauges(machine()) == {
        "maintenance_capi_cluster_connected": 0,
        "hooked": 0,
        "deletion_pending": 0,
        "deletion_approved": 0,
        "maintenance_requested": 0,
        "maintenance_approved": 0,
    }


APPROVED = node(deleted="true", approve_deletion="true")


@pytest.mark.parametrize(
    "asked, about, expected",
    [
        (hooked(), node(), {"hooked"}),
        (hooked(deleting=0), node(deleted="true"), {"hooked", "deletion_pending"}),
        (machine(deleting=0), APPROVED, {"deletion_approved"}),
        (machine(deleting=0), node(), set()),
        (machine(), APPROVED, set()),
        (hooked(request="requested"), node(), {"hooked", "maintenance_requested"}),
        (hooked(request="approved"), node(), {"hooked", "maintenance_approved"}),
        (hooked(request="other"), node(), {"hooked"}),
        (hooked(request="approved", deleting=0), node(), {"hooked", "deletion_pending", "maintenance_approved"}),
    ],
)
def test_what_machines_wait_for(asked: MachineRow, about: Row, expected: set[str]) -> None:
    assert states(asked, about) == dict.fromkeys(expected, 1)


def test_machines_add_up_and_others_do_not_count() -> None:
    more = [machine(name, hook=ORIGINAL, node=name) for name in ("a", "b")]
    assert states(*more, hooked(enabled="no", request="requested")) == {"hooked": 2}


def test_clusters_are_told_apart_by_namespace() -> None:
    store = linked(machine(), machine(namespace="other"), node())
    found = {dict(labels)["namespace"]: value for name, labels, value in samples(store) if name.endswith("connected")}
    assert found == {"fleet": 1, "other": 0}


def test_of_a_cluster_that_nobody_names_nothing_is_left() -> None:
    assert not gauges(connection(), machine(enabled=None), node())


def test_looking_leaves_no_trace_in_the_store() -> None:
    """It is done in another thread, while the store's own goes through its tables."""
    store = Store()
    store.put(machine())
    store.write(connection(Connection.REJECTED))
    tables = set(store.tables)
    assert list(samples(store))
    assert set(store.tables) == tables
