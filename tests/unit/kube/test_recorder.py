"""Events: what is written, what is folded, what is dropped, and that no caller waits for any of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from haulout.kube.errors import ConnectionFailed
from haulout.kube.recorder import Recorder, Reporter
from haulout.kube.writer import Writer
from haulout.model.event import ObjectReference
from tests.build.fakeapi import refusal
from tests.build.objects import Objects
from tests.build.virtual import LoopClock, virtual

PROFILES = Reporter("maintenance", "maintenance-host")
MEDIK8S = Reporter("NodeMaintenance", "", api="v1")
NODE = ObjectReference(kind="Node", name="node-1", uid="u", api_version="v1", resource_version="7")
POD = ObjectReference(kind="Pod", namespace="ns", name="p", uid="v", api_version="v1")


class Recording(Recorder):
    """A recorder whose `run` is running, in `task`."""

    task: asyncio.Task[None]


@asynccontextmanager
async def recording(objects: Objects, **options: Any) -> AsyncIterator[Recording]:
    clock = LoopClock()
    recorder = Recording(Writer(objects), clock, random=Random(1), **options)
    recorder.task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        recorder.task.cancel()
        await asyncio.gather(recorder.task, return_exceptions=True)


def only(objects: Objects) -> dict[str, Any]:
    (found,) = objects.stored.values()
    result: dict[str, Any] = found
    return result


@virtual
async def test_event_of_the_new_api() -> None:
    objects = Objects()
    async with recording(objects) as recorder:
        recorder.record(PROFILES, POD, "Evicting", "Evicting pod during node drain", action="Drain", related=NODE)
        await asyncio.sleep(1)
    (asked,) = objects.asked
    assert asked.path == "/apis/events.k8s.io/v1/namespaces/ns/events"
    name = asked.body["metadata"].pop("name")
    assert re.fullmatch(r"p\.[0-9a-f]{16}", name)
    assert asked.body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "maintenance",
        "reportingInstance": "maintenance-host",
        "action": "Drain",
        "reason": "Evicting",
        "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "ns", "name": "p", "uid": "v", "apiVersion": "v1"},
        "related": {"kind": "Node", "name": "node-1", "uid": "u", "apiVersion": "v1", "resourceVersion": "7"},
        "note": "Evicting pod during node drain",
    }


@virtual
async def test_event_of_the_core_api_about_a_node_lies_in_default() -> None:
    objects = Objects()
    async with recording(objects) as recorder:
        recorder.record(MEDIK8S, NODE, "UncordonNode", "Uncordon a node", type="Warning")
        await asyncio.sleep(1)
    (asked,) = objects.asked
    assert asked.path == "/api/v1/namespaces/default/events"
    del asked.body["metadata"]["name"]
    assert asked.body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "node-1", "uid": "u", "apiVersion": "v1", "resourceVersion": "7"},
        "reason": "UncordonNode",
        "message": "Uncordon a node",
        "source": {"component": "NodeMaintenance"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        "type": "Warning",
        "reportingComponent": "NodeMaintenance",
    }


@virtual
async def test_repetitions_become_a_series_told_once_and_at_its_end() -> None:
    objects = Objects()
    async with recording(objects) as recorder:
        for _ in range(5):
            recorder.record(PROFILES, NODE, "Changed", "note", action="Change")
            await asyncio.sleep(60)
        assert objects.short[0] == "POST events"
        assert [asked.body for asked in objects.asked[1:]] == [
            {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
        ]
        await asyncio.sleep(8 * 60)
        assert only(objects)["series"] == {"count": 5, "lastObservedTime": "2026-01-01T00:04:00.000000Z"}
        assert len(objects.asked) == 3
        recorder.record(PROFILES, NODE, "Changed", "note", action="Change")
        await asyncio.sleep(1)
        assert len(objects.stored) == 2


@virtual
async def test_long_series_is_refreshed() -> None:
    objects = Objects()
    async with recording(objects) as recorder:
        for _ in range(45):
            recorder.record(PROFILES, NODE, "Changed", "note", action="Change")
            await asyncio.sleep(60.5)
        assert len(objects.asked) == 3
        assert only(objects)["series"]["count"] > 30


@pytest.mark.parametrize(
    "other",
    [
        {"regarding": ObjectReference(kind="Node", name="node-1", uid="u", api_version="v1", resource_version="8")},
        {"reason": "Other"},
        {"action": "Other"},
        {"related": POD},
        {"reporter": Reporter("esx-maintenance", "maintenance-host")},
        {"type": "Warning"},
    ],
    ids=["version", "reason", "action", "related", "reporter", "type"],
)
@virtual
async def test_events_that_differ_are_told_apart(other: dict[str, Any]) -> None:
    objects = Objects()
    event: dict[str, Any] = {"reporter": PROFILES, "regarding": NODE, "reason": "R", "note": "n", "action": "A"}
    async with recording(objects) as recorder:
        recorder.record(**event)
        recorder.record(**event | other)
        recorder.record(**event | {"note": "another note is no other event"})
        await asyncio.sleep(1)
    assert len(objects.stored) == 2


@virtual
async def test_core_counts_every_repetition_of_the_same_message() -> None:
    objects = Objects()
    async with recording(objects) as recorder:
        newer = ObjectReference(kind="Node", name="node-1", uid="u", api_version="v1", resource_version="8")
        for regarding in (NODE, newer, newer):
            recorder.record(MEDIK8S, regarding, "R", "m")
            await asyncio.sleep(20 * 60)
        assert only(objects)["count"] == 3
        assert only(objects)["firstTimestamp"] == "2026-01-01T00:00:00Z"
        assert only(objects)["lastTimestamp"] == "2026-01-01T00:40:00Z"
        assert objects.asked[-1].body == {"count": 3, "lastTimestamp": "2026-01-01T00:40:00Z"}
        recorder.record(MEDIK8S, NODE, "R", "another message")
        await asyncio.sleep(1)
        assert len(objects.stored) == 2


@virtual
async def test_repetitions_that_come_faster_than_they_are_written_are_written_together() -> None:
    objects = Objects()
    objects.takes = 1.0
    async with recording(objects) as recorder:
        for _ in range(100):
            recorder.record(MEDIK8S, NODE, "R", "m")
            await asyncio.sleep(0.05)
        await asyncio.sleep(5)
        assert only(objects)["count"] == 100
        assert len(objects.asked) < 10


@virtual
async def test_the_repetitions_of_a_burst_in_core_are_one_write() -> None:
    objects = Objects()
    async with recording(objects) as recorder:
        for _ in range(4):
            recorder.record(MEDIK8S, NODE, "R", "m")
            await asyncio.sleep(0.4)
        recorder.record(MEDIK8S, NODE, "Other", "m")
        await asyncio.sleep(3)
    assert [each.partition(" ")[0] for each in objects.short] == ["POST", "POST", "PATCH"]
    assert objects.asked[-1].body == {"count": 4, "lastTimestamp": "2026-01-01T00:00:01Z"}


@virtual
async def test_flush_writes_repetitions_that_are_still_collected() -> None:
    objects = Objects()
    async with recording(objects) as recorder:
        for _ in range(3):
            recorder.record(MEDIK8S, NODE, "R", "m")
            await asyncio.sleep(0.1)
        recorder.task.cancel()
        await asyncio.gather(recorder.task, return_exceptions=True)
        await recorder.flush()
    assert only(objects)["count"] == 3
    assert len(objects.asked) == 2


@virtual
async def test_repetition_of_an_event_that_the_server_forgot_is_written_anew() -> None:
    objects = Objects()
    async with recording(objects) as recorder:
        recorder.record(MEDIK8S, NODE, "R", "m")
        await asyncio.sleep(1)
        objects.stored.clear()
        recorder.record(MEDIK8S, NODE, "R", "m")
        await asyncio.sleep(5)
        assert only(objects)["count"] == 2


@virtual
async def test_names_differ_in_one_instant_and_stay_valid() -> None:
    objects = Objects()
    long = ObjectReference(kind="Node", name="n" * 230 + "." * 23, uid="u")
    async with recording(objects) as recorder:
        for count in range(20):
            recorder.record(PROFILES, long, f"R{count}", "ä" * 1000)
        await asyncio.sleep(1)
    assert len(objects.stored) == 20
    for asked in objects.asked:
        assert len(asked.body["metadata"]["name"]) <= 253
        assert ".." not in asked.body["metadata"]["name"]
        assert len(asked.body["note"].encode()) == 1024


@virtual
async def test_oldest_is_dropped_and_counted_when_the_queue_is_full() -> None:
    objects = Objects()
    async with recording(objects, queue=10) as recorder:
        for count in range(25):
            recorder.record(PROFILES, NODE, f"R{count}", "n")
        await asyncio.sleep(1)
        assert recorder.dropped == 15
        assert {event["reason"] for event in objects.stored.values()} == {f"R{count}" for count in range(15, 25)}


@virtual
async def test_a_hundred_objects_that_are_written_all_the_time_do_not_keep_events_back() -> None:
    objects, clock = Objects(), LoopClock()
    writer = Writer(objects, in_flight=4)
    recorder = Recorder(writer, clock)
    telling = asyncio.create_task(recorder.run())

    async def roll(node: ObjectReference) -> None:
        objects.put(f"/api/v1/nodes/{node.name}", {})
        for turn in range(10):
            await writer.merge_patch(f"/api/v1/nodes/{node.name}", {}, key=node.name)
            recorder.record(PROFILES, node, f"R{turn}", "n")

    await asyncio.gather(*(roll(ObjectReference(kind="Node", name=f"node-{i}", uid=f"u{i}")) for i in range(100)))
    told_meanwhile = objects.short.count("POST events")
    await asyncio.sleep(10)
    telling.cancel()
    assert told_meanwhile > 100
    assert objects.short.count("POST events") == 1000
    assert recorder.dropped == 0


@virtual
async def test_memory_of_known_events_is_bounded_and_passes() -> None:
    objects = Objects()
    async with recording(objects, known=50) as recorder:
        for count in range(500):
            recorder.record(PROFILES, NODE, f"R{count}", "n")
        assert len(recorder._known) == 50
        await asyncio.sleep(10 * 60)
        assert len(recorder._known) == 0


@pytest.mark.parametrize(
    "fault",
    [ConnectionFailed("refused"), refusal(503, "Unavailable"), refusal(429, "TooManyRequests", retry_after="1")],
    ids=["connection", "503", "429"],
)
@virtual
async def test_passing_failures_are_tried_again(fault: Exception) -> None:
    objects = Objects()
    objects.faults += [fault] * 4  # type: ignore[list-item]
    async with recording(objects, tries=5) as recorder:
        recorder.record(PROFILES, NODE, "R", "n")
        await asyncio.sleep(60)
        assert len(objects.stored) == 1
        assert recorder.failed == 0


@pytest.mark.parametrize(
    "tries,fault", [(5, ConnectionFailed("")), (1, refusal(403, "Forbidden"))], ids=["lost", "403"]
)
@virtual
async def test_an_event_that_cannot_be_written_is_given_up_alone(tries: int, fault: Exception) -> None:
    objects = Objects()
    objects.faults += [fault] * tries  # type: ignore[list-item]
    async with recording(objects, tries=5, at_once=1) as recorder:
        recorder.record(PROFILES, NODE, "R", "n")
        recorder.record(PROFILES, NODE, "S", "n")
        await asyncio.sleep(60)
        assert recorder.failed == 1
        assert only(objects)["reason"] == "S"
        recorder.record(PROFILES, NODE, "R", "n")
        await asyncio.sleep(1)
        assert len(objects.stored) == 2


@virtual
async def test_lost_answer_makes_no_second_event() -> None:
    objects = Objects()
    objects.lost_answers = 1
    async with recording(objects) as recorder:
        recorder.record(PROFILES, NODE, "R", "n")
        await asyncio.sleep(30)
        assert len(objects.stored) == 1
        assert recorder.failed == 0


@virtual
async def test_flush_writes_what_is_left_once_each() -> None:
    objects = Objects()
    async with recording(objects) as recorder:
        for _ in range(4):
            recorder.record(PROFILES, NODE, "Series", "n")
            await asyncio.sleep(1)
        for count in range(20):
            recorder.record(PROFILES, NODE, f"R{count}", "n")
        objects.takes = 0.5
        await asyncio.sleep(0.1)
        recorder.task.cancel()
        await asyncio.gather(recorder.task, return_exceptions=True)
        await recorder.flush()
        assert len(objects.stored) == 21
        assert [event["series"]["count"] for event in objects.stored.values() if "series" in event] == [4]
        assert recorder.dropped == 0


@virtual
async def test_flush_gives_up_in_time() -> None:
    objects = Objects()
    async with recording(objects) as recorder:
        objects.takes = 4.0
        for count in range(20):
            recorder.record(PROFILES, NODE, f"R{count}", "n")
        recorder.task.cancel()
        await asyncio.gather(recorder.task, return_exceptions=True)
        await recorder.flush(within=5.0)
        assert asyncio.get_running_loop().time() < 5.1
        assert recorder.dropped == 4


@virtual
async def test_what_may_not_be_written_any_more_is_dropped() -> None:
    objects, seconds = Objects(), [30.0, None]
    async with recording(objects, guard=lambda: seconds.pop(0)) as recorder:
        recorder.record(PROFILES, NODE, "First", "n")
        await asyncio.sleep(1)
        recorder.record(PROFILES, NODE, "Second", "n")
        await asyncio.sleep(30)
        assert [event["reason"] for event in objects.stored.values()] == ["First"]
        assert (recorder.dropped, recorder.failed) == (1, 0)


@virtual
async def test_what_the_role_does_not_allow_is_reported_once_for_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    objects = Objects()
    objects.faults += [refusal(403, "Forbidden")] * 6
    async with recording(objects) as recorder:
        for number in range(3):
            recorder.record(PROFILES, NODE, f"Reason{number}", "note")
            recorder.record(PROFILES, POD, f"Reason{number}", "note")
            await asyncio.sleep(1)
    warnings = [record.about for record in caplog.records if record.levelname == "WARNING"]  # type: ignore[attr-defined]
    assert (sorted(warnings), recorder.failed) == (["Node default/node-1", "Pod ns/p"], 6)
