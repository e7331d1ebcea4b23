"""Go's numbers and truth values: reading and writing them as Go does."""

from __future__ import annotations

import math

import pytest

from haulout.base.number import format_float, parse_bool, parse_float, parse_int


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("42", 42),
        ("-42", -42),
        ("+42", 42),
        ("010", 8),
        ("0o17", 15),
        ("0X1f", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("0_7", 7),
        ("0x_f", 15),
        ("18446744073709551616", 1 << 64),
        ("08", None),
        ("0x", None),
        ("1__0", None),
        ("_1", None),
        ("1_", None),
        (" 1", None),
        ("1.0", None),
        ("", None),
        ("٣", None),
        ("9" * 5000, None),
    ],
    ids=lambda text: repr(text)[:24],
)
def test_integers(text: str, value: int | None) -> None:
    assert parse_int(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("1.5e3", 1500.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1_0.5", 10.5),
        ("0x1p-2", 0.25),
        ("-Inf", -math.inf),
        ("infinity", math.inf),
        ("1e400", None),
        ("0x10", None),
        ("+nan", None),
        (".", None),
        ("1_", None),
        (" 1", None),
        ("0xp1", None),
        ("0x1p99999", None),
    ],
)
def test_floats(text: str, value: float | None) -> None:
    assert parse_float(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.1, "1.1"),
        (1000.0, "1000"),
        (999999.0, "999999"),
        (1e6, "1e+06"),
        (123456789.0, "1.23456789e+08"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e100, "1e+100"),
        (0.0, "0"),
        (-0.5, "-0.5"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_floats_are_written_like_go(value: float, text: str) -> None:
    assert format_float(value) == text


@pytest.mark.parametrize(("text", "value"), [("t", True), ("1", True), ("False", False), ("yes", None), ("", None)])
def test_truth(text: str, value: bool | None) -> None:
    assert parse_bool(text) is value
