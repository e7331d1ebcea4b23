"""Time spans rounded to whole seconds, for people."""

from __future__ import annotations

from datetime import timedelta


def whole(seconds: float) -> timedelta:
    return timedelta(seconds=round(seconds))
