"""Spans in whole seconds, as people read them."""

from __future__ import annotations

from datetime import timedelta


def whole(seconds: float) -> timedelta:
    return timedelta(seconds=round(seconds))
