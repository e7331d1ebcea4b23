"""Versions of packages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.surfaces.packages.specs.versions import is_lower, is_version, parse


@pytest.mark.parametrize("text", ["1", "1.2", "v1.2.3", "2.3.1-test", "2024.7.7", "2024.05.10", "1.2.3-rc.1", "0.0.0"])
def test_versions(text: str) -> None:
    assert is_version(text)


@pytest.mark.parametrize(
    "text",
    ["", "latest", "2024/07/06", "1.2-beta", "1.0.0+b1", "1.2.3.4", "V1", "1.", "1.2.3-", "1.2.3-a..b", " 1", "١"],
)
def test_no_versions(text: str) -> None:
    assert not is_version(text)


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("1.2.3", "1.2.4"),
        ("1.9", "1.10"),
        ("1.2.3-rc.1", "1.2.3"),
        ("1.2.3-rc.2", "1.2.3-rc.10"),
        ("1.2.3-1", "1.2.3-a"),
        ("1.2.3-a", "1.2.3-a.1"),
        ("2024.05.10", "2024.6.1"),
        ("v1.0.0", "1.0.1"),
        ("latest", "0.0.1"),
    ],
)
def test_order(lower: str, higher: str) -> None:
    assert is_lower(lower, higher)
    assert not is_lower(higher, lower)


@pytest.mark.parametrize(("one", "other"), [("1.2", "1.2.0"), ("v1", "1.0.0"), ("2024.05.10", "2024.5.10"), ("x", "y")])
def test_neither_is_lower(one: str, other: str) -> None:
    assert not is_lower(one, other)
    assert not is_lower(other, one)


@given(st.text(max_size=80) | st.integers(0, 10**70).map(str))
def test_any_text_is_read(text: str) -> None:
    parsed = parse(text)
    assert parsed is None or not is_lower(text, text)
