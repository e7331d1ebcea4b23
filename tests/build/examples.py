"""How many examples a property is tried with: all of them where everything has to run, some of them all day long."""

from __future__ import annotations

import os

FULL = os.environ.get("HAULOUT_TEST") == "full"


def examples(count: int) -> int:
    return count if FULL else max(5, count // 4)
