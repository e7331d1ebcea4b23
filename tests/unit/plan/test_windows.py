"""When the windows of budgets, checks and notify's scheduler are open during a plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from haulout.core.budgets.decisions import BUDGETS
from haulout.core.planned import Schedule
from haulout.plan.windows import MOST_CHANGES, timetables
from haulout.surfaces.notify.options import Blackout, Operators, Options, Scheduler, Window
from haulout.surfaces.notify.planned import planned_schedules

# A Monday.
BEGINS_AT = datetime(2026, 3, 2, tzinfo=UTC)
ENDS_AT = BEGINS_AT + timedelta(days=2)


def openings(*schedules: Schedule) -> dict[str, list[tuple[int, int | None]]]:
    """Return the hours, counted from the beginning, at which each schedule opens and closes."""

    def hours(at: datetime | None) -> int:
        assert at is not None
        return int((at - BEGINS_AT) / timedelta(hours=1))

    found = timetables(schedules, BEGINS_AT, ENDS_AT)
    return {each.name: [(hours(span.begins_at), hours(span.ends_at)) for span in each.openings] for each in found}


def budget(*windows: dict[str, object]) -> dict[str, object]:
    return {"kind": "NodeDisruptionBudget", "metadata": {"name": "nights"}, "spec": {"windows": list(windows)}}


def test_a_budget_is_open_in_its_windows_less_what_denies() -> None:
    nights: dict[str, object] = {"from": "22:00", "to": "06:00"}
    backup: dict[str, object] = {"type": "Deny", "from": "01:00", "to": "02:00"}
    found = BUDGETS.planned_schedules(None, [budget(nights, backup)])
    assert openings(*found) == {"budget nights": [(0, 1), (2, 6), (22, 25), (26, 30), (46, 48)]}


def test_a_budget_without_windows_has_no_schedule() -> None:
    assert list(BUDGETS.planned_schedules(None, [budget(), {"kind": "Node", "metadata": {"name": "n"}}])) == []


def test_the_scheduler_of_notify_by_selector() -> None:
    scheduler = Scheduler(
        enabled=True,
        windows=(Window(start="02:00", end="04:00"), Window(start="10:00", end="12:00", node_selector="pool=a")),
        blackouts=(Blackout(since="2026-03-03T00:00:00Z", to="2026-03-03T11:00:00Z"),),
    )
    options = Options(sla_for=timedelta(hours=1), operators=Operators(scheduler=scheduler))
    assert openings(*planned_schedules(options, ())) == {
        "notify": [(2, 4)],
        "notify, pool=a": [(2, 4), (10, 12), (35, 36)],
    }


def test_a_scheduler_that_is_off_has_no_schedule() -> None:
    scheduler = Scheduler(windows=(Window(start="02:00", end="04:00"),))
    options = Options(sla_for=timedelta(hours=1), operators=Operators(scheduler=scheduler))
    assert list(planned_schedules(options, ())) == []


def test_a_schedule_that_never_changes_and_one_that_changes_all_the_time() -> None:
    always = Schedule("always", lambda at: True, lambda at: None)
    restless = Schedule("restless", lambda at: at.microsecond >= 500000, lambda at: at + timedelta(milliseconds=1))
    found = {each.name: each for each in timetables((always, restless), BEGINS_AT, ENDS_AT)}
    assert [(span.begins_at, span.ends_at) for span in found["always"].openings] == [(BEGINS_AT, ENDS_AT)]
    assert len(found["restless"].openings) <= MOST_CHANGES
