"""The writer: its requests, their order, and what stops them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from haulout.kube.errors import Conflict, RequestTimeout
from haulout.kube.transport import JSON, MERGE_PATCH, METADATA_ONLY
from haulout.kube.writer import Continued, Withheld, Writer
from tests.build.fakeapi import refusal
from tests.build.objects import Objects
from tests.build.virtual import virtual

POD = "/api/v1/namespaces/n/pods/p"
NODE = "/api/v1/nodes/a"


def world(**options: Any) -> tuple[Objects, Writer]:
    objects = Objects()
    for path in (POD, f"{POD}/eviction", f"{POD}/binding", f"{POD}/status", NODE):
        objects.put(path, {"metadata": {"name": path}})
    return objects, Writer(objects, **options)


MANAGED = {"fieldManager": "haulout"}

CALLS: dict[str, tuple[Callable[[Writer], Awaitable[bytes]], tuple[str, str, dict[str, str], Any, str, str]]] = {
    "get": (
        lambda writer: writer.get(NODE, key="k"),
        ("GET", NODE, {}, None, JSON, JSON),
    ),
    "create": (
        lambda writer: writer.create("/api/v1/pods", {"metadata": {"name": "x"}}, key="k"),
        ("POST", "/api/v1/pods", MANAGED, {"metadata": {"name": "x"}}, JSON, JSON),
    ),
    "merge patch": (
        lambda writer: writer.merge_patch(NODE, {"spec": {"unschedulable": True}}, key="k"),
        ("PATCH", NODE, MANAGED, {"spec": {"unschedulable": True}}, MERGE_PATCH, JSON),
    ),
    "merge patch of a version": (
        lambda writer: writer.merge_patch(NODE, {"metadata": {"labels": {"x": None}}}, key="k", version="7", slim=True),
        (
            "PATCH",
            NODE,
            MANAGED,
            {"metadata": {"labels": {"x": None}, "resourceVersion": "7"}},
            MERGE_PATCH,
            METADATA_ONLY,
        ),
    ),
    "merge patch of a subresource": (
        lambda writer: writer.merge_patch(POD, {"status": {}}, key="k", subresource="status"),
        ("PATCH", f"{POD}/status", MANAGED, {"status": {}}, MERGE_PATCH, JSON),
    ),
    "delete": (
        lambda writer: writer.delete(POD, key="k"),
        (
            "DELETE",
            POD,
            {},
            {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"},
            JSON,
            JSON,
        ),
    ),
    "delete under conditions": (
        lambda writer: writer.delete(POD, key="k", uid="u", grace_seconds=0),
        (
            "DELETE",
            POD,
            {},
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "u"},
                "gracePeriodSeconds": 0,
                "propagationPolicy": "Background",
            },
            JSON,
            JSON,
        ),
    ),
}


@pytest.mark.parametrize("call,expected", CALLS.values(), ids=CALLS.keys())
@virtual
async def test_requests_on_the_wire(call: Callable[[Writer], Awaitable[bytes]], expected: tuple[Any, ...]) -> None:
    objects, writer = world()
    assert (await call(writer)).startswith(b"{")
    (asked,) = objects.asked
    assert (asked.method, asked.path, asked.query, asked.body, asked.content_type, asked.accept) == expected


@virtual
async def test_an_eviction_carries_the_uid() -> None:
    objects, writer = world()
    objects.faults += [refusal(409, "Conflict")]
    with pytest.raises(Conflict):
        await writer.evict("n", "p", key="k", uid="u", grace_seconds=5)
    (evict,) = objects.asked
    assert (evict.method, evict.path, evict.query) == ("POST", f"{POD}/eviction", MANAGED)
    assert evict.body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "n"},
        "deleteOptions": {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 5},
    }


@virtual
async def test_no_more_in_flight_than_allowed() -> None:
    objects, writer = world(in_flight=4)
    await asyncio.gather(*(writer.get(NODE, key=count) for count in range(50)))
    assert objects.most_in_flight == 4
    assert len(objects.asked) == 50
    assert writer.waiting == 0


@virtual
async def test_a_crowd_of_one_key_does_not_delay_anothers_first() -> None:
    objects, writer = world(in_flight=2)
    objects.takes = 1.0
    crowd = [asyncio.create_task(writer.get(NODE, key="crowd")) for _ in range(1000)]
    await asyncio.sleep(0.1)
    assert writer.waiting == 998
    others = [asyncio.create_task(writer.get(POD, key=name)) for name in "abc"]
    await asyncio.gather(*others)
    assert asyncio.get_running_loop().time() < 4
    assert len([task for task in crowd if task.done()]) <= 5
    for task in crowd:
        task.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
    assert writer.waiting == 0


@virtual
async def test_order_within_a_key_is_kept_and_keys_take_turns() -> None:
    objects, writer = world(in_flight=1)
    first = asyncio.create_task(writer.get(NODE, key="z"))
    await asyncio.sleep(0)
    calls = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("b", 1)]
    tasks = [asyncio.create_task(writer.merge_patch(NODE, {"k": f"{key}{count}"}, key=key)) for key, count in calls]
    await asyncio.gather(first, *tasks)
    assert [asked.body["k"] for asked in objects.asked[1:]] == ["a0", "b0", "c0", "a1", "b1", "a2"]


@virtual
async def test_what_continues_goes_before_what_begins() -> None:
    objects, writer = world(in_flight=1)
    first = asyncio.create_task(writer.get(NODE, key="z"))
    await asyncio.sleep(0)
    keys = ["a", "b", Continued("c"), "d", Continued("e"), Continued("c")]
    tasks = [asyncio.create_task(writer.merge_patch(NODE, {"k": count}, key=key)) for count, key in enumerate(keys)]
    await asyncio.gather(first, *tasks)
    assert [asked.body["k"] for asked in objects.asked[1:]] == [2, 4, 5, 0, 1, 3]
    assert writer.waiting == 0


@virtual
async def test_cancelled_requests_give_their_place_away() -> None:
    objects, writer = world(in_flight=1)
    objects.takes = 1.0
    tasks = [asyncio.create_task(writer.get(NODE, key="k")) for _ in range(4)]
    await asyncio.sleep(0.5)
    tasks[0].cancel()
    tasks[1].cancel()
    await asyncio.sleep(0)
    tasks[2].cancel()
    await tasks[3]
    await asyncio.wait_for(writer.get(NODE, key="k"), 2)
    assert writer.waiting == 0


@virtual
async def test_guard_is_asked_at_the_moment_of_sending() -> None:
    objects, writer = world(in_flight=1)
    objects.takes = 5.0
    loop = asyncio.get_running_loop()
    first = asyncio.create_task(writer.get(NODE, key="a"))
    await asyncio.sleep(0)
    with pytest.raises(Withheld, match=f"GET {NODE}: withheld"):
        await writer.get(NODE, key="a", guard=lambda: None if loop.time() > 3.0 else 1.0)
    await first
    assert len(objects.asked) == 1


@virtual
async def test_guard_bounds_the_request() -> None:
    objects, writer = world(longest=30.0)
    objects.takes = 3.0
    with pytest.raises(RequestTimeout):
        await writer.get(NODE, key="a", guard=lambda: 2.0)
    with pytest.raises(Withheld):
        await writer.get(NODE, key="a", guard=lambda: -1.0)
    await writer.get(NODE, key="a", guard=lambda: 100.0)
    assert [asked.timeout for asked in objects.asked] == [2.0, 30.0]
