"""The last error in `status`: what the operator has reported about itself, and not about objects of people."""

from __future__ import annotations

from typing import Any

from haulout.explain.installation import _last_error


class Events:
    """Warnings under the operator's name."""

    def __init__(self, *regarding: str) -> None:
        self._items = [
            {
                "eventTime": f"2026-01-01T00:00:0{number}Z",
                "reason": f"R{number}",
                "note": "n",
                "regarding": {"kind": kind},
            }
            for number, kind in enumerate(regarding)
        ]

    async def items(self, path: str, resource: str, query: dict[str, str]) -> list[Any]:
        return self._items


async def test_warnings_about_other_objects_are_no_errors_of_the_operator() -> None:
    assert await _last_error(Events("Lease", "Pod", "NodeMaintenance")) == "R1: n (2026-01-01 00:00 UTC)"  # type: ignore[arg-type]
    assert await _last_error(Events("NodeMaintenance")) == ""  # type: ignore[arg-type]
