"""Pods that maintenance moves, by their owners."""

from __future__ import annotations

import math

import msgspec
import pytest

from haulout.cluster.key import Key
from haulout.cluster.rows import Owner, PodRow, Row, WorkloadRow
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import NotListed, View
from haulout.surfaces.profiles.moved_pods import COUNT, KINDS, PER_REPLICA, measures, zero_samples
from tests.build.profiles import worker


def workload(kind: str, name: str, *owners: Owner, replicas: int | None = 2, ready: int = 0) -> WorkloadRow:
    key = Key("", kind, "default", name)
    return WorkloadRow(key=key, uid=name, version=1, owners=owners, replicas=replicas, ready_replicas=ready)


def pod(name: str, *owners: Owner) -> PodRow:
    return PodRow(key=Key("", "Pod", "default", name), uid=name, version=1, node="n", owners=owners)


def owner(kind: str, name: str) -> Owner:
    return Owner(kind, name, name, controller=True)


def store(*rows: Row) -> Store:
    made = Store()
    for kind in KINDS:
        made.set_listing("", kind, Listing.LISTED)
    for row in rows:
        made.put(row)
    return made


FLEET = (
    workload("Deployment", "web", replicas=4),
    workload("ReplicaSet", "web-1", owner("Deployment", "web")),
    workload("ReplicaSet", "alone", replicas=None),
    workload("ReplicaSet", "rollout", owner("Rollout", "r")),
    workload("StatefulSet", "db"),
    workload("DaemonSet", "agent", ready=5),
    workload("DaemonSet", "broken"),
)
PODS = (
    pod("a", owner("ReplicaSet", "web-1")),
    pod("b", owner("ReplicaSet", "web-1")),
    pod("c", owner("ReplicaSet", "alone")),
    pod("d", owner("ReplicaSet", "rollout")),
    pod("e", owner("StatefulSet", "db")),
    pod("f", owner("DaemonSet", "agent")),
    pod("g", owner("DaemonSet", "broken")),
    pod("h", owner("Job", "j")),
    pod("i"),
    pod("j", owner("ReplicaSet", "gone")),
)


def test_each_owner_is_counted_and_weighted() -> None:
    """G13: whose owners cannot be told is left out alone."""
    found = {
        (each.counter, dict(each.labels)["owner"]): each.amount
        for each in measures(View(store(*FLEET, *PODS)), worker("n"), "p")
    }
    assert {name: amount for (counter, name), amount in found.items() if counter == COUNT} == {
        "deployment_web": 2,
        "replica_set_alone": 1,
        "stateful_set_db": 1,
        "daemon_set_agent": 1,
        "daemon_set_broken": 1,
    }
    assert {name: amount for (counter, name), amount in found.items() if counter == PER_REPLICA} == {
        "deployment_web": 0.5,
        "replica_set_alone": 1,
        "stateful_set_db": 0.5,
        "daemon_set_agent": 0.2,
        "daemon_set_broken": math.inf,
    }


def test_what_may_not_be_read_is_not_counted_and_what_is_not_yet_listed_is_waited_for() -> None:
    known = store(*FLEET, *PODS)
    known.set_listing("", "ReplicaSet", Listing.UNREADABLE)
    assert measures(View(known), worker("n"), "p") == ()
    known.set_listing("", "ReplicaSet", Listing.WAITING)
    with pytest.raises(NotListed):
        measures(View(known), worker("n"), "p")


def test_series_are_there_before_anything_is_counted() -> None:
    nodes = [worker("n", "p--q")]
    elsewhere = msgspec.structs.replace(PODS[0], key=Key("", "Pod", "default", "z"), node="other")
    found = {
        (name, labels) for name, labels, value in zero_samples(nodes, [PODS[0], PODS[3], elsewhere], FLEET) if not value
    }
    assert found == {
        (name, (("owner", "deployment_web"), ("profile", profile)))
        for name in (COUNT, PER_REPLICA)
        for profile in ("p", "q")
    }
