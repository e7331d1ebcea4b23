"""Decoding of watch lines: every event type, every way in which one object can be wrong, without harm to others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from haulout.kube.codec import Added, Bookmark, Broken, Deleted, Failure, Garbled, Kind, Modified
from haulout.model.lease import Lease
from haulout.model.meta import ObjectMeta, OwnerReference, wire_micro_time, wire_time
from haulout.model.node import Node, NodeMeta, Taint
from haulout.model.pod import Pod
from haulout.model.policy import PodDisruptionBudget

PODS = Kind(Pod)
NODES = Kind(Node)


def test_event_and_object_come_out_of_one_line() -> None:
    line = b'{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"a","uid":"u"},"spec":{"unschedulable":true,"providerID":"p://1","taints":[{"key":"k","effect":"NoSchedule"}]}}}'
    event = NODES.event(line)
    assert isinstance(event, Added)
    assert event.object.metadata == NodeMeta(name="a", uid="u")
    assert event.object.spec.unschedulable
    assert event.object.spec.provider_id == "p://1"
    assert event.object.spec.taints == (Taint(key="k", effect="NoSchedule"),)


def test_every_event_type() -> None:
    obj = b'"object":{"metadata":{"name":"a","resourceVersion":"7"}}}'
    assert isinstance(PODS.event(b'{"type":"ADDED",' + obj), Added)
    assert isinstance(PODS.event(b'{"type":"MODIFIED",' + obj), Modified)
    assert isinstance(PODS.event(b'{"type":"DELETED",' + obj), Deleted)
    mark = PODS.event(b'{"type":"BOOKMARK",' + obj)
    assert isinstance(mark, Bookmark)
    assert not mark.ends_list
    assert PODS.event(b'{"type":"SOMETHING-NEW",' + obj) is None


def test_bookmark_that_ends_a_streaming_list() -> None:
    mark = PODS.event(
        b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null}}}'
    )
    assert isinstance(mark, Bookmark)
    assert mark.ends_list


def test_error_event_carries_a_status() -> None:
    event = PODS.event(
        b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old","metadata":{}}}'
    )
    assert isinstance(event, Failure)
    assert (event.object.code, event.object.reason) == (410, "Expired")


@pytest.mark.parametrize(
    "obj,name,why",
    [
        (b'{"metadata":{"name":"a","namespace":"n"},"spec":{"nodeName":3}}', "n/a", "Expected `str`, got `int`"),
        (b'{"metadata":{"name":"a","deletionTimestamp":"noon"}}', "a", "datetime"),
        (b'{"metadata":{"name":"a","labels":{"x":1}}}', "a", "labels"),
        (b'{"metadata":{"name":7}}', "7", "Expected `str`"),
        (b'{"metadata":{"name":"a","namespace":"\xff"}}', "", "utf-8"),
        (b'{"metadata":{"name":"a"},"status":{"phase":"\xff"}}', "a", "utf-8"),
        (b'{"metadata":[]}', "", "Expected `object`"),
        (b"[]", "", "Expected `object`"),
        (b'{"metadata":{"name":"a"},"x":' + b"[" * 5000 + b"]" * 5000 + b"}", "", "recursion"),
    ],
    ids=["type", "time", "label", "name", "utf-8", "utf-8 elsewhere", "metadata", "no object", "depth"],
)
def test_object_that_does_not_fit_is_broken_in_event_and_page(obj: bytes, name: str, why: str) -> None:
    event = PODS.event(b'{"type":"MODIFIED","object":' + obj + b"}")
    assert isinstance(event, Broken)
    assert event.name == name
    assert why in event.why
    page = PODS.page(b'{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"x]}"}},' + obj + b",{}]}")
    first, second, third = page
    assert isinstance(first, Pod)
    assert isinstance(second, Broken)
    assert second.name == name
    assert isinstance(third, Pod)
    assert (page.version, len(page)) == ("5", 3)


def test_broken_object_tells_its_version() -> None:
    event = PODS.event(b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"12"},"spec":7}}')
    assert isinstance(event, Broken)
    assert event.version == "12"


def test_deleted_object_needs_only_its_metadata() -> None:
    event = PODS.event(b'{"type":"DELETED","object":{"metadata":{"name":"a","uid":"u"},"spec":{"nodeName":3}}}')
    assert isinstance(event, Deleted)
    assert event.object == Pod(metadata=ObjectMeta(name="a", uid="u"))
    assert isinstance(PODS.event(b'{"type":"DELETED","object":{"metadata":{"name":1}}}'), Broken)


@pytest.mark.parametrize(
    "line",
    [b"", b"<html>", b'{"type":"ADDED","object":{"meta', b"[]", b"{}", b'{"type":"ERROR","object":[]}', b'{"type":"BOOKMARK","object":7}'],
)  # fmt: skip
def test_line_that_is_no_event_is_garbled(line: bytes) -> None:
    with pytest.raises(Garbled, match=r"not a watch event|cannot be read"):
        PODS.event(line)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items":7}', b'{"items":[{}', b"[" * 5000])
def test_body_that_is_no_list_is_garbled(body: bytes) -> None:
    with pytest.raises(Garbled, match="not a list"):
        PODS.page(body)


def test_page_tells_where_the_next_begins() -> None:
    page = PODS.page(
        b'{"kind":"PodList","metadata":{"resourceVersion":"5","continue":"t","remainingItemCount":7},"items":[]}'
    )
    assert (page.version, page.next, page.remaining, list(page)) == ("5", "t", 7, [])
    last = PODS.page(b'{"metadata":{},"items":null}')
    assert (last.next, last.remaining, list(last)) == ("", None, [])


def test_head_of_a_deep_list_is_found_behind_its_items() -> None:
    deep = b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}"
    page = PODS.page(
        b'{"items": [' + deep + b', {"metadata":{"name":"\\"]"}}], "metadata":{"resourceVersion":"5","continue":"t"}}'
    )
    assert (page.version, page.next, len(page)) == ("5", "t", 2)


def test_times_of_any_precision_are_aware() -> None:
    leases = Kind(Lease)
    lease = leases.item(
        b'{"metadata":{"creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"renewTime":"2026-01-02T03:04:05.123456789Z","acquireTime":null}}'
    )
    assert isinstance(lease, Lease)
    assert lease.metadata.creation_timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert lease.spec.renew_time == datetime(2026, 1, 2, 3, 4, 5, 123457, tzinfo=UTC)
    assert lease.spec.acquire_time is None


def test_times_are_written_as_go_reads_them() -> None:
    instant = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert wire_time(instant) == "2026-01-02T03:04:05Z"
    assert wire_micro_time(instant) == "2026-01-02T03:04:05.000000Z"
    assert wire_time(instant.replace(microsecond=987654)) == "2026-01-02T03:04:05Z"
    assert wire_micro_time(instant.replace(microsecond=987654)) == "2026-01-02T03:04:05.987654Z"


def test_times_of_other_zones_and_early_years_are_written_as_go_reads_them() -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    assert wire_time(datetime(2026, 1, 2, 3, 4, 5, tzinfo=east)) == "2026-01-01T21:34:05Z"
    assert wire_micro_time(datetime(2026, 1, 2, 3, 4, 5, tzinfo=east)) == "2026-01-01T21:34:05.000000Z"
    assert wire_time(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00Z"


def test_budget_with_numbers_and_percentages() -> None:
    budget = Kind(PodDisruptionBudget).item(
        b'{"spec":{"minAvailable":"50%","maxUnavailable":1},"status":{"disruptionsAllowed":2,"disruptedPods":{"a":"2026-01-02T03:04:05Z"}}}'
    )
    assert isinstance(budget, PodDisruptionBudget)
    assert (budget.spec.min_available, budget.spec.max_unavailable, budget.spec.selector) == ("50%", 1, None)
    assert set(budget.status.disrupted_pods) == {"a"}


def test_pod_with_what_decisions_ask() -> None:
    pod = PODS.item(
        b'{"metadata":{"ownerReferences":[{"kind":"Node","name":"n"},{"kind":"ReplicaSet","name":"r","controller":true}]},"spec":{"volumes":[{"name":"v","emptyDir":{}}],"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}}]}}},"status":{"initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":3}}}]}}'
    )
    assert isinstance(pod, Pod)
    assert pod.metadata.controller == OwnerReference(kind="ReplicaSet", name="r", controller=True)
    assert pod.spec.has_empty_dir
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.node_affinity is not None
    (term,) = pod.spec.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    assert term.preference.match_expressions[0].values == ("v",)
    assert pod.status.init_container_statuses[0].state.terminated is not None
    assert pod.status.init_container_statuses[0].state.terminated.exit_code == 3


FEW = Kind(Node, most_values=100)


def labelled(count: int) -> bytes:
    labels = ",".join(f'"{i}":"x"' for i in range(count))
    return f'{{"metadata":{{"name":"a","resourceVersion":"7","labels":{{{labels}}}}}}}'.encode()


def test_object_with_too_many_values_is_left_alone_in_event_and_page() -> None:
    left = Broken("a", "7", "it has more than 100 values")
    assert FEW.event(b'{"type":"ADDED","object":' + labelled(60) + b"}") == left
    first, second = FEW.page(b'{"items":[' + labelled(60) + b"," + labelled(40) + b"]}")
    assert (first, isinstance(second, Node)) == (left, True)
    assert isinstance(FEW.event(b'{"type":"ADDED","object":' + labelled(40) + b"}"), Added)


def test_object_with_too_many_values_can_be_deleted() -> None:
    event = FEW.event(b'{"type":"DELETED","object":' + labelled(60) + b"}")
    assert event == Deleted(Node(metadata=NodeMeta(name="a", resource_version="7")))
