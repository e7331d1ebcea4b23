"""Compares transcripts step by step, and prints how they differ."""

from __future__ import annotations

import difflib
import itertools
import json
from collections.abc import Set as AbstractSet

from tests.contract.records import Transcript


def failed(step: dict[str, object]) -> bool:
    """Whether a step shows a failure of the case itself: a time-out, no answer, or an exception."""
    code = str(step.get("code"))
    return code in {"never", "599"} or "broke off" in f"{code} {step.get('noted')}"


def differing(theirs: Transcript, ours: Transcript) -> set[int]:
    """Return the numbers of the steps that differ, counted from 1."""
    pairs = enumerate(itertools.zip_longest(theirs, ours), 1)
    return {number for number, (one, other) in pairs if one != other}


def explained(theirs: Transcript, ours: Transcript, steps: AbstractSet[int], name: str) -> str:
    """Return the differences of these steps between the record and the transcript of the server with this name."""
    lines: list[str] = []
    for number in sorted(steps):
        one, other = (side[number - 1 : number] for side in (theirs, ours))
        lines.append(f"step {number}: {asked_of(one or other)}")
        lines += difflib.unified_diff(printed(one), printed(other), "record", name, lineterm="", n=4)
    return "\n".join(lines)


def asked_of(steps: Transcript) -> str:
    return next(
        (str(step[key]) for step in steps for key in ("asked", "watched", "awaited", "noted") if key in step), ""
    )


def printed(steps: Transcript) -> list[str]:
    return json.dumps(steps[0], indent=1, sort_keys=True).splitlines() if steps else []
