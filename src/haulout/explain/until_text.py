"""The text about the instant at which time alone changes a reason."""

from __future__ import annotations

from datetime import UTC, datetime

from haulout.base.spans import span_text

WINDOW_CLOSED = "window-closed"


def until_text(code: str, until: datetime | None, now: datetime) -> str:
    """Return how long a reason holds, as the end of its sentence; empty if time does not change it."""
    if until is None or until <= now:
        return ""
    at = until.astimezone(UTC)
    if code == WINDOW_CLOSED:
        return f", opens {at:%a %Y-%m-%d %H:%M} UTC (in {span_text(until - now)})"
    return f", until {at:%Y-%m-%d %H:%M:%S} UTC (in {span_text(until - now)})"
