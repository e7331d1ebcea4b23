"""Each case on both servers: the transcripts agree, except for the differences that are on purpose."""

from __future__ import annotations

import difflib
import itertools
import json

import pytest

from tests.contract.cases import CASES
from tests.contract.differences import DIFFERENCES
from tests.contract.normal import normal
from tests.contract.registry import Case
from tests.contract.runs import Runs, Transcript

BY_CASE = {difference.case: difference for difference in DIFFERENCES}


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES.values()])
def test_same_answers(case: Case, real: Runs, embedded: Runs) -> None:
    theirs, ours = real.transcript(case), embedded.transcript(case)
    assert not [step for step in theirs if failed(step)], "the case does not work on the real server"
    expected = set(BY_CASE[case.name].steps) if case.name in BY_CASE else set()
    found = differing(theirs, ours)
    if found != expected:
        pytest.fail(explained(theirs, ours, found, expected), pytrace=False)


def test_differences_are_those_of_cases() -> None:
    assert set(BY_CASE) <= set(CASES)
    assert len(BY_CASE) == len(DIFFERENCES)


def test_a_name_that_a_uid_happens_to_hold_is_part_of_the_uid() -> None:
    steps = [{"uid": "1ca2e8ba-0b7c-41d9-a75d-a40e1ece053d"}, {"names": ["a-1", "a-0"]}]
    expected = [{"uid": "<uid 1>"}, {"names": ["a-<generated 1>", "a-<generated 2>"]}]
    assert normal(steps, {"a-0": "a-", "a-1": "a-"}) == expected


def failed(step: dict[str, object]) -> bool:
    """Whether a step shows a failure of the case itself: a time-out, no answer, or an exception."""
    code = str(step.get("code"))
    return code in {"never", "599"} or "broke off" in f"{code} {step.get('noted')}"


def differing(theirs: Transcript, ours: Transcript) -> set[int]:
    """Return the numbers of the steps that differ, counted from 1."""
    pairs = enumerate(itertools.zip_longest(theirs, ours), 1)
    return {number for number, (one, other) in pairs if one != other}


def explained(theirs: Transcript, ours: Transcript, found: set[int], expected: set[int]) -> str:
    lines = [f"step {number} is listed as a difference, but is the same" for number in sorted(expected - found)]
    for number in sorted(found - expected):
        one, other = (side[number - 1 : number] for side in (theirs, ours))
        lines.append(f"step {number}: {asked_of(one or other)}")
        lines += difflib.unified_diff(printed(one), printed(other), "real", "embedded", lineterm="", n=4)
    return "\n".join(lines)


def asked_of(steps: Transcript) -> str:
    return next(
        (str(step[key]) for step in steps for key in ("asked", "watched", "awaited", "noted") if key in step), ""
    )


def printed(steps: Transcript) -> list[str]:
    return json.dumps(steps[0], indent=1, sort_keys=True).splitlines() if steps else []
