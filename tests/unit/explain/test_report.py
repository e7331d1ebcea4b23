"""`haulout report`, history's table, and which records are expired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import convert

from haulout.core.logbook.chronic import returning
from haulout.core.logbook.notes import Waits
from haulout.core.logbook.options import LogbookOptions
from haulout.core.logbook.retained import RecordEnd, chronic_nodes, expired_records
from haulout.core.logbook.wire import OPEN_LABEL, read_record
from haulout.explain.history import table_of
from haulout.explain.report import percentile, report_of

NOW = datetime(2026, 3, 31, tzinfo=UTC)


def stored(
    node: str, days: int, outcome: str = "Completed", reason: str = "", waited: int = 0, error: str = ""
) -> dict[str, object]:
    begun, ended = NOW - timedelta(days=days), NOW - timedelta(days=days) + timedelta(hours=1)
    phases = [{"name": "begun", "at": begun.isoformat()}, {"name": "ended", "at": ended.isoformat()}]
    waits = [{"code": "budget-full", "subject": "NodeDisruptionBudget/night", "seconds": waited}] if waited else []
    return {
        "metadata": {"name": f"r-{node}-{days}", "uid": f"u-{node}-{days}"},
        "spec": {"node": {"name": node}, "surface": "profiles", "reason": reason, "begunAt": begun.isoformat()},
        "status": {
            "outcome": outcome,
            "endedAt": ended.isoformat(),
            "phases": phases,
            "waitedFor": waits,
            "error": error,
        },
    }


def records(*found: dict[str, object]) -> list[object]:
    return [read_record(each) for each in found]


def test_a_report_counts_ends_times_waits_failures_and_nodes_that_come_back() -> None:
    found = [
        *(stored("a", days, waited=60) for days in range(1, 6)),
        stored("b", 2, "Failed", waited=600),
        stored("c", 90),
    ]
    report = report_of(records(*found), NOW - timedelta(days=30), NOW)  # type: ignore[arg-type]
    assert (report.total, report.nodes) == (6, 2)
    assert [(each.outcome, each.count) for each in report.outcomes] == [("Completed", 5), ("Failed", 1)]
    assert {(each.phase, each.p50) for each in report.phases} == {("begun", 3600.0), ("whole", 3600.0)}
    assert [(each.subject, each.seconds, each.count) for each in report.waits] == [
        ("NodeDisruptionBudget/night", 900, 6)
    ]
    assert [(each.cause, each.count) for each in report.failures] == [("budget-full NodeDisruptionBudget/night", 1)]
    assert [(each.node, each.count) for each in report.chronic] == [("a", 5)]


def test_failures_with_the_same_error_count_as_one_cause() -> None:
    found = [stored(node, 1, "Failed", waited=60, error="Flash: no power") for node in "ab"]
    report = report_of(records(*found), NOW - timedelta(days=30), NOW)  # type: ignore[arg-type]
    assert [(each.cause, each.count) for each in report.failures] == [("Flash: no power", 2)]


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([1.0], 0.95) == 1.0
    assert percentile([float(number) for number in range(100)], 0.95) == 95.0


def test_no_spreadsheet_takes_a_reason_for_a_formula() -> None:
    table = table_of(records(stored("a", 1, reason="=HYPERLINK(1)")))  # type: ignore[arg-type]
    assert "'=HYPERLINK(1)" in table


def ends(*found: dict[str, object]) -> list[RecordEnd]:
    return [convert(each, RecordEnd, strict=False) for each in found]


def test_closed_records_expire_by_age_and_number_and_open_ones_never() -> None:
    opened = stored("o", 400)
    opened["metadata"] = {"name": "open", "labels": {OPEN_LABEL: "true"}}
    all_records = ends(opened, *(stored("a", days) for days in (1, 2, 50, 100)))
    by_age = expired_records(all_records, LogbookOptions(), NOW)
    assert [each.name for each in by_age] == ["r-a-100"]
    by_number = expired_records(all_records, LogbookOptions(most=2), NOW)
    assert [each.name for each in by_number] == ["r-a-100", "r-a-50"]
    assert chronic_nodes(ends(*(stored("a", days) for days in range(1, 6))), NOW) == 1
    assert returning([("a", NOW)], NOW, 2) == []


def test_waits_are_added_up_by_cause() -> None:
    cause = ("budget-full", "NodeDisruptionBudget/night")
    at = NOW
    waits = Waits().seen([cause], at).seen([], at + timedelta(seconds=30)).seen([cause], at + timedelta(seconds=60))
    [wait] = waits.ended(at + timedelta(seconds=70))
    assert (wait.code, wait.subject, wait.seconds) == (*cause, 40)
