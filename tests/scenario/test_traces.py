"""Traces of maintenances of all surfaces, as a collector gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from haulout.app.tracing import Tracing
from haulout.core.action import Evict
from haulout.core.logbook.trace import trace_id
from haulout.core.logbook.wire import MaintenanceRecord, read_record
from haulout.embedded import Resource
from haulout.settings.settings import Traces
from tests.build.collector import Collector, attributes
from tests.build.every_owner import EveryOwner

RECORDS = Resource("haulout.dev", "v1alpha1", "maintenancerecords")
LIVES: dict[str, Callable[[EveryOwner], None]] = {
    "nodemaintenance": lambda ops: ops.maintain("n0"),
    "profiles": lambda ops: ops.want_profile("n0"),
    "notify": lambda ops: ops.notice("n0"),
    "packages": lambda ops: ops.roll(),
    "esx": lambda ops: ops.stop_guest(),
    "kubernikus": lambda ops: ops.delete_server(),
}
# The stages that the trace of each surface has. Others, such as the cordon, take no time in this world.
STAGES = {
    "nodemaintenance": {"drain", "work"},
    "profiles": {"drain", "work"},
    "notify": {"wait", "drain", "work"},
    "packages": {"work"},
    "esx": {"work"},
    "kubernikus": {"work"},
}


class VirtualTime:
    """The clock of an embedded cluster, for parts that ask a clock."""

    def __init__(self, ops: EveryOwner) -> None:
        self._ops = ops

    def now(self) -> datetime:
        return self._ops.world.time.now()

    def monotonic(self) -> float:
        return self.now().timestamp()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as made:
        yield made


def traced(collector: Collector, **settings: Any) -> tuple[EveryOwner, Tracing]:
    """Return a world whose operator exports its traces. Evictions are seen as the sender would see them."""
    ops = EveryOwner(1, records=True)
    chosen = Traces(**{"endpoint": collector.url, "percent": 100, "slow_for": timedelta(), **settings})
    tracing = Tracing(chosen, ops.kernel.store, VirtualTime(ops), lambda: True)
    ops.on_write = lambda body: tracing.asked(body) if isinstance(body, Evict) else None
    return ops, tracing


def records(ops: EveryOwner) -> list[MaintenanceRecord]:
    return [each for found in ops.world.objects.list(RECORDS) if (each := read_record(found)) is not None]


def instant(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 10**9, UTC)


@pytest.mark.parametrize("surface", LIVES)
async def test_each_maintenance_of_a_surface_has_one_trace(surface: str, collector: Collector) -> None:
    ops, tracing = traced(collector)
    LIVES[surface](ops)
    ops.run(150)
    await tracing.close()
    closed = {trace_id(each.metadata.uid): each for each in records(ops) if not each.is_open}
    traces = collector.traces()
    assert closed
    assert traces.keys() == closed.keys()
    for trace, spans in traces.items():
        check(spans, closed[trace])
    names = {span.name for spans in traces.values() for span in spans}
    assert STAGES[surface] <= names, names


def check(spans: list[Span], record: MaintenanceRecord) -> None:
    """Compare a trace with the record of its maintenance."""
    (root,) = [each for each in spans if not each.parent_span_id]
    assert root.name == "maintenance"
    ids = [each.span_id for each in spans]
    assert len(set(ids)) == len(ids)
    assert {each.parent_span_id for each in spans if each is not root} <= set(ids)
    assert record.status.ended_at is not None
    assert abs(instant(root.end_time_unix_nano) - record.status.ended_at) < timedelta(milliseconds=1)
    known = attributes(root)
    assert (known["haulout.surface"], known["k8s.node.name"]) == (record.spec.surface, record.spec.node.name)
    assert known["haulout.outcome"] == str(record.status.outcome)
    within = [each for each in spans if each.name != "return"]
    assert all(root.start_time_unix_nano <= each.start_time_unix_nano for each in within)
    assert all(each.start_time_unix_nano <= each.end_time_unix_nano <= root.end_time_unix_nano for each in within)


async def test_an_eviction_that_takes_long_is_part_of_the_trace(collector: Collector) -> None:
    ops, tracing = traced(collector, slow_for=timedelta(seconds=1))
    ops.maintain("n0")
    ops.run(60)
    await tracing.close()
    evictions = [each for each in collector.spans if each.name == "evict"]
    (drain,) = [each for each in collector.spans if each.name == "drain"]
    assert evictions
    assert {each.parent_span_id for each in evictions} == {drain.span_id}
    assert all(each.end_time_unix_nano - each.start_time_unix_nano >= 10**9 for each in evictions)


async def test_quick_evictions_have_no_spans(collector: Collector) -> None:
    ops, tracing = traced(collector, slow_for=timedelta(hours=1))
    ops.maintain("n0")
    ops.run(60)
    await tracing.close()
    assert "drain" in {each.name for each in collector.spans}
    assert "evict" not in {each.name for each in collector.spans}


async def test_what_is_not_sampled_is_not_exported(collector: Collector) -> None:
    ops, tracing = traced(collector, percent=0)
    ops.maintain("n0")
    ops.run(60)
    await tracing.close()
    assert [each for each in records(ops) if not each.is_open]
    assert collector.spans == []
