"""Each case on the embedded cluster: it answers as recorded of the real server, except for differences on purpose."""

from __future__ import annotations

import pytest

from tests.contract.cases import CASES
from tests.contract.compare import differing, explained, failed
from tests.contract.differences import DIFFERENCES
from tests.contract.normal import normal
from tests.contract.records import FOLDER, REFRESH, recorded, records_of, text_of
from tests.contract.registry import Case
from tests.contract.runs import Runs

BY_CASE = {difference.case: difference for difference in DIFFERENCES}


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES.values()])
def test_embedded_cluster_answers_as_recorded(case: Case, embedded: Runs) -> None:
    theirs, ours = recorded(case), embedded.transcript(case)
    expected = set(BY_CASE[case.name].steps) if case.name in BY_CASE else set()
    found = differing(theirs, ours)
    same = [f"step {number} is listed as a difference, but is the same" for number in sorted(expected - found)]
    if found != expected:
        pytest.fail("\n".join([*same, explained(theirs, ours, found - expected, "embedded")]), pytrace=False)


def test_each_case_is_recorded_once_and_works_on_the_real_server() -> None:
    areas = {path.stem for path in FOLDER.glob("*.json")}
    records = {(area, name): steps for area in areas for name, steps in records_of(area).items()}
    assert set(records) == {(case.area, case.name) for case in CASES.values()}, REFRESH
    assert [name for name, steps in records.items() if not steps or any(failed(step) for step in steps)] == []


def test_records_are_written_as_the_refresh_writes_them() -> None:
    files = {path.stem: path.read_text() for path in FOLDER.glob("*.json")}
    assert files == {area: text_of(records_of(area)) for area in files}


def test_differences_are_those_of_cases() -> None:
    assert set(BY_CASE) <= set(CASES)
    assert len(BY_CASE) == len(DIFFERENCES)


def test_a_name_that_a_uid_happens_to_hold_is_part_of_the_uid() -> None:
    steps = [{"uid": "1ca2e8ba-0b7c-41d9-a75d-a40e1ece053d"}, {"names": ["a-1", "a-0"]}]
    expected = [{"uid": "<uid 1>"}, {"names": ["a-<generated 1>", "a-<generated 2>"]}]
    assert normal(steps, {"a-0": "a-", "a-1": "a-"}) == expected
