"""The last error in `status`: what the operator has reported about itself, and not about objects of people."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.app import budgets, logbook
from haulout.explain.installation import ENDED_BY, _last_error


class Events:
    """Events under the operator's name. `reasons`: their reasons in order; those of the operator's recovery are normal."""

    def __init__(self, *regarding: str, reasons: tuple[str, ...] = ()) -> None:
        self._items = [
            {
                "eventTime": f"2026-01-01T00:00:0{number}Z",
                "reason": reason,
                "note": "n",
                "type": "Normal" if reason in ENDED_BY else "Warning",
                "regarding": {"kind": kind},
            }
            for number, (kind, reason) in enumerate(
                zip(regarding, reasons or map("R{}".format, range(9)), strict=False)
            )
        ]

    async def items(self, path: str, resource: str, query: dict[str, str]) -> list[Any]:
        return self._items


async def test_warnings_about_other_objects_are_no_errors_of_the_operator() -> None:
    assert await _last_error(Events("Lease", "Pod", "NodeMaintenance")) == "R1: n (2026-01-01 00:00 UTC)"  # type: ignore[arg-type]
    assert await _last_error(Events("NodeMaintenance")) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reasons", "last"),
    [
        (("RecordsRefused", "RecordsWritten"), ""),
        (("RecordsRefused", "RecordsWritten", "RecordsRefused"), "RecordsRefused"),
        (("BudgetsUnreadable", "RecordsRefused", "RecordsWritten"), "BudgetsUnreadable"),
    ],
    ids=["ended", "again", "another one lasts"],
)
async def test_an_error_is_over_once_the_operator_has_reported_its_end(reasons: tuple[str, ...], last: str) -> None:
    found = await _last_error(Events("Pod", "Pod", "Pod", reasons=reasons))  # type: ignore[arg-type]
    assert found.partition(":")[0] == last


def test_the_ends_of_troubles_are_those_that_the_operator_reports() -> None:
    assert ENDED_BY == {
        logbook.RECORDED: (logbook.UNRECORDED, logbook.REFUSED),
        budgets.READABLE: (budgets.UNREADABLE,),
    }
