"""Waiting for a condition, with patience for busy machines and a message that says what was last seen.

See decision 0123.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 120.0


def eventually(
    probe: Callable[[], T | None], what: str, within: float = PATIENCE, *, refused: tuple[type[Exception], ...] = ()
) -> T:
    """Return the first true value of `probe`. A `refused` exception counts as "not yet"."""
    ends = time.monotonic() + within
    pause = 0.01
    while True:
        last: object
        try:
            value = probe()
            if value:
                return value
            last = value
        except refused as error:
            last = error
        if time.monotonic() > ends:
            raise AssertionError(f"not within {within:.0f} s: {what}; last seen: {last!r}")
        time.sleep(pause)
        pause = min(pause * 1.3, 0.2)
