"""The spans of a trace, which follow from the record of a maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from haulout.core.logbook.trace import Removal, Span, is_sampled, return_span, spans_of, trace_id
from haulout.core.logbook.wire import (
    OPEN_LABEL,
    DrainCounts,
    MaintenanceRecord,
    Outcome,
    Phase,
    RecordedNode,
    RecordMeta,
    RecordSpec,
    RecordStatus,
    Waited,
)

ASKED = datetime(2026, 3, 1, 10, tzinfo=UTC)
WHOLE = {"requested": 0, "begun": 10, "cordoned": 11, "drained": 20, "working": 20, "done": 30, "validating": 30}


def at(minute: float) -> datetime:
    return ASKED + timedelta(minutes=minute)


def record(phases: Mapping[str, float], ended: float = 40, uid: str = "uid-1", **status: Any) -> MaintenanceRecord:
    known = tuple(Phase(name, at(minute)) for name, minute in (*phases.items(), ("ended", ended)))
    fields = {"outcome": Outcome.COMPLETED, "ended_at": at(ended), "phases": known, **status}
    spec = RecordSpec(node=RecordedNode("n1", "node-uid"), surface="notify", begun_at=at(phases.get("begun", 0)))
    return MaintenanceRecord(RecordMeta(name="r", uid=uid), spec, RecordStatus(**fields))


def courses(spans: tuple[Span, ...]) -> dict[str, tuple[float, float]]:
    """Return the beginning and the end of each span in minutes."""
    minute = timedelta(minutes=1)
    return {each.name: ((each.begun_at - ASKED) / minute, (each.ended_at - ASKED) / minute) for each in spans}


@pytest.mark.parametrize(
    "phases, status, expected",
    [
        (
            WHOLE,
            {},
            {"wait": (0, 10), "cordon": (10, 11), "drain": (11, 20), "work": (20, 30), "validation": (30, 40)},
        ),
        (
            {"requested": 0, "begun": 10, "cordoned": 11, "drained": 20, "done": 30},
            {},
            {"wait": (0, 10), "cordon": (10, 11), "drain": (11, 20), "work": (20, 30), "return": (30, 40)},
        ),
        ({"begun": 0, "cordoned": 5}, {}, {"cordon": (0, 5), "work": (5, 40)}),
        ({"begun": 0, "cordoned": 5}, {"drain": DrainCounts(1)}, {"cordon": (0, 5), "drain": (5, 40)}),
        ({"begun": 0, "drained": 5}, {}, {"drain": (0, 5), "work": (5, 40)}),
        ({"begun": 0}, {}, {"work": (0, 40)}),
        ({}, {}, {"work": (0, 40)}),
    ],
    ids=["all", "without validation", "cordon alone", "called off", "cordon not seen", "begun alone", "no phases"],
)
def test_phases_are_spans(
    phases: Mapping[str, float], status: dict[str, Any], expected: dict[str, tuple[float, float]]
) -> None:
    root, *stages = spans_of(record(phases, **status))
    assert (root.name, root.parent) == ("maintenance", "")
    assert courses((root,)) == {"maintenance": (0, 40)}
    assert courses(tuple(stages)) == expected
    assert {(each.trace, each.parent) for each in stages} == {(root.trace, root.id)}


def test_the_ids_of_spans_are_the_same_whenever_they_are_made() -> None:
    one, again, other = spans_of(record(WHOLE)), spans_of(record(WHOLE)), spans_of(record(WHOLE, uid="uid-2"))
    assert one == again
    assert {each.trace for each in one} == {trace_id("uid-1")}
    assert {each.id for each in one}.isdisjoint(each.id for each in other)
    assert len({each.id for each in one}) == len(one)
    assert {(len(each.trace), len(each.id)) for each in one} == {(32, 16)}


def test_what_a_maintenance_waited_for_is_below_the_stage_in_which_it_began() -> None:
    waits = (
        Waited("budget-full", "NodeDisruptionBudget/two", 300, at(2)),
        Waited("pdb-blocks", "PodDisruptionBudget/a/b", 60, at(12)),
        Waited("old", "Node/without", 60),
    )
    spans = {each.name: each for each in spans_of(record(WHOLE, waited_for=waits))}
    assert courses((spans["wait budget-full"], spans["wait pdb-blocks"])) == {
        "wait budget-full": (2, 7),
        "wait pdb-blocks": (12, 13),
    }
    assert spans["wait budget-full"].parent == spans["wait"].id
    assert spans["wait pdb-blocks"].parent == spans["drain"].id
    assert "wait old" not in spans


def test_a_wait_without_a_request_begins_the_trace() -> None:
    waits = (Waited("budget-full", "NodeDisruptionBudget/two", 300, at(2)),)
    root, *stages = spans_of(record({"begun": 10}, waited_for=waits))
    assert courses((root,)) == {"maintenance": (2, 40)}
    assert courses(tuple(stages))["wait"] == (2, 10)


def test_slow_evictions_are_below_the_drain() -> None:
    gone = Removal("a", "web-1", "p1", "evict", at(12), at(14), 3, 2)
    left = Removal("a", "web-2", "p2", "delete", at(13))
    spans = {each.name: each for each in spans_of(record(WHOLE), (gone, left))}
    assert courses((spans["evict"], spans["delete"])) == {"evict": (12, 14), "delete": (13, 40)}
    assert {spans["evict"].parent, spans["delete"].parent} == {spans["drain"].id}
    assert (spans["evict"].error, bool(spans["delete"].error)) == ("", True)
    assert dict(spans["evict"].attributes)["haulout.blocked"] == 2


@pytest.mark.parametrize("outcome, fails", [(Outcome.FAILED, True), (Outcome.LOST, True), (Outcome.CANCELLED, False)])
def test_a_failed_maintenance_is_an_error(outcome: Outcome, fails: bool) -> None:
    root = spans_of(record(WHOLE, outcome=outcome))[0]
    assert bool(root.error) == fails
    assert dict(root.attributes)["haulout.outcome"] == outcome.value


def test_an_error_is_in_the_words_of_its_surface() -> None:
    assert spans_of(record(WHOLE, outcome=Outcome.FAILED, error="no lease"))[0].error == "no lease"


def test_an_open_record_has_no_spans() -> None:
    closed = record(WHOLE)
    assert spans_of(msgspec.structs.replace(closed, metadata=RecordMeta(uid="u", labels={OPEN_LABEL: "true"}))) == ()
    assert spans_of(msgspec.structs.replace(closed, metadata=RecordMeta())) == ()
    assert spans_of(msgspec.structs.replace(closed, status=RecordStatus())) == ()


def test_spans_have_no_negative_lengths_where_clocks_disagree() -> None:
    waits = (Waited("late", "Node/n", 60, at(90)),)
    removals = (Removal("a", "web", "p", "evict", at(80), at(90)),)
    spans = spans_of(record({"requested": 50, "begun": 45, "drained": 60}, ended=40, waited_for=waits), removals)
    assert all(each.begun_at <= each.ended_at for each in spans)


def test_the_return_is_part_of_the_trace() -> None:
    ended = record(WHOLE)
    root = spans_of(ended)[0]
    span = return_span(ended, at(42))
    assert span is not None
    assert (span.trace, span.parent, span.ended_at) == (root.trace, root.id, at(42))
    assert return_span(ended, at(40)) is None


def test_samples_are_a_share_and_larger_shares_contain_smaller_ones() -> None:
    uids = [f"uid-{number}" for number in range(2000)]
    few, many = ({each for each in uids if is_sampled(each, percent)} for percent in (10, 50))
    assert few < many
    assert 100 < len(few) < 300
    assert all(is_sampled(each, 100) and not is_sampled(each, 0) for each in uids)
