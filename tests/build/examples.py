"""How many examples a property test tries: all of them in a full run, fewer in an everyday run."""

from __future__ import annotations

import os

FULL = os.environ.get("HAULOUT_TEST") == "full"


def examples(count: int) -> int:
    return count if FULL else max(5, count // 4)
