"""How much the tests try: few examples in an everyday run, all in a full one, and in a long one every kill on the real server.

HAULOUT_TEST is unset, `full` (what CI runs) or `long` (`make test-long`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")

FULL = os.environ.get("HAULOUT_TEST") in {"full", "long"}
LONG = os.environ.get("HAULOUT_TEST") == "long"
# The day, so that each day has another sample. In the environment, so that the workers of a run that lasts beyond midnight
# agree, and so that a failure can be repeated. Haulout reads what begins with HAULOUT_ as settings.
TURN = int(os.environ.setdefault("TEST_TURN", str(datetime.now(UTC).toordinal())))


def examples(count: int) -> int:
    return count if FULL else max(5, count // 4)


def rotating(items: Iterable[T], share: int) -> list[T]:
    """Return one item in `share`, others in each turn. In a long run, return all of them."""
    found = list(items)
    return found if LONG else found[TURN % share :: share]
