"""Spans of time for people: the two largest units, as `4 d 9 h` or `35 s`."""

from __future__ import annotations

from datetime import timedelta

UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def span_text(length: timedelta) -> str:
    """Return a span in its two largest units. A negative span is printed as 0."""
    seconds = max(round(length.total_seconds()), 0)
    for index, (unit, size) in enumerate(UNITS):
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            smaller = UNITS[index + 1 : index + 2]
            if smaller and (more := rest // smaller[0][1]):
                return f"{whole} {unit} {more} {smaller[0][0]}"
            return f"{whole} {unit}"
    return "0 s"
