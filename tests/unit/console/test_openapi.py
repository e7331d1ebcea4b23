"""The description of the console's API agrees with its code."""

from __future__ import annotations

from haulout.console.api import HANDLERS, Api
from haulout.console.operations import ALWAYS, OPERATIONS
from haulout.console.problems import CODES
from tools.openapi import FILE, TYPES, text, types


def test_the_committed_description_is_up_to_date() -> None:
    """`python -m tools.openapi` makes it so."""
    assert FILE.read_text() == text()
    assert TYPES.read_text() == types()


def test_every_operation_has_a_handler() -> None:
    assert {each.name for each in OPERATIONS} == {*HANDLERS, "login"}
    assert [name for name in HANDLERS.values() if not callable(getattr(Api, name, None))] == []


def test_every_code_of_a_problem_is_described() -> None:
    assert {code for each in OPERATIONS for code in each.problems} | {*ALWAYS} <= CODES.keys()
