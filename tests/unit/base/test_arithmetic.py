"""Formulas: their truth values and errors."""

from __future__ import annotations

import math

import pytest

from haulout.base.arithmetic import FormulaError, truth


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("value > 3", 4, True),
        ("value >= 3 && value < 4", 3, True),
        ("value < 3 || value == 5", 5, True),
        ("!(value == 5)", 5, False),
        ("!value", 0, True),
        ("value", 0.5, True),
        ("value", 0, False),
        ("-value + 2", 2, False),
        ("2 + 3 * value == 14", 4, True),
        ("(2 + 3) * value == 20", 4, True),
        ("10 - 3 - 2 == value", 5, True),
        ("2 ** 3 ** 2 == value", 64, True),
        ("value % 3 == 1", 7, True),
        ("-7 % 3 == value", -1, True),
        ("value / 0 > 1e300", 1, True),
        ("value / 0 == value / 0", 0, False),
        ("1e3==1000.0&&.5<1", 0, True),
        ("value != 1 == true", 2, True),
        ("true || false && false", 0, True),
        ("value > 1", math.nan, False),
        ("1 == true", 0, False),
    ],
)
def test_truth(text: str, value: float, expected: bool) -> None:
    assert truth(text, {"value": value}) is expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "parsing error: unexpected end at column 1"),
        ("value >", "parsing error: unexpected end at column 8"),
        ("value > > 1", "parsing error: unexpected '>' at column 9"),
        ("(value", "parsing error: unexpected end at column 7"),
        ("value)", "parsing error: unexpected ')' at column 6"),
        ("value 1", "parsing error: unexpected '1' at column 7"),
        ("value = 1", "parsing error: unexpected '=' at column 7"),
        ("other > 1", "unknown parameter other at column 1"),
        ("true + 1", "'+' needs numbers, not true at column 6"),
        ("-(value > 1)", "'-' needs numbers, not false at column 1"),
        ("(" * 200, "nested deeper than 100 at column 101"),
    ],
)
def test_problems(text: str, problem: str) -> None:
    with pytest.raises(FormulaError) as caught:
        truth(text, {"value": 1.0})
    assert str(caught.value) == problem
