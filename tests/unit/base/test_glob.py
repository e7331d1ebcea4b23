"""Patterns as Go's filepath.Match understands them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.base.glob import GlobError, matches


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("abc", "abc", True),
        ("*", "abc", True),
        ("*", "", True),
        ("*c", "abc", True),
        ("a*", "a", True),
        ("a*", "ab/c", False),
        ("a*/b", "abc/b", True),
        ("a*/b", "a/c/b", False),
        ("a*b*c*d*e*/f", "axbxcxdxe/f", True),
        ("a*b*c*d*e*/f", "axbxcxdxexxx/f", True),
        ("a*b*c*d*e*/f", "axbxcxdxe/xxx/f", False),
        ("a*b?c*x", "abxbbxdbxebxczzx", True),
        ("a*b?c*x", "abxbbxdbxebxczzy", False),
        ("ab[c]", "abc", True),
        ("ab[b-d]", "abc", True),
        ("ab[e-g]", "abc", False),
        ("ab[^c]", "abc", False),
        ("ab[^e-g]", "abc", True),
        ("a\\*b", "a*b", True),
        ("a\\*b", "ab", False),
        ("a?b", "a☺b", True),
        ("a[^a]b", "a☺b", True),
        ("a???b", "a☺b", False),
        ("[a-ζ]*", "α", True),
        ("*[a-ζ]", "A", False),
        ("a?b", "a/b", False),
        ("a*b", "a/b", False),
        ("[\\]a]", "]", True),
        ("[\\-]", "-", True),
        ("[x\\-]", "z", False),
        ("[z-a]", "m", False),
        ("[^z-a]", "m", True),
        ("*.conf", "sysctl.conf", True),
        ("*.conf", "sysctl.conf.bak", False),
        ("*x", "xxx", True),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_fits(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


@pytest.mark.parametrize("pattern", ["[]a]", "[-]", "[x-]", "[-x]", "[a-b-c]", "[", "[^", "[^bc", "a[", "a\\", "*["])
def test_malformed(pattern: str) -> None:
    with pytest.raises(GlobError):
        matches(pattern, "a")


@given(st.text(max_size=20), st.text(max_size=40))
def test_any_text_is_a_pattern_or_malformed(pattern: str, name: str) -> None:
    try:
        matches(pattern, name)
    except GlobError:
        assert set(pattern) & set("[\\")


def test_many_stars_come_to_an_end() -> None:
    """With a regular expression this would take longer than any test may."""
    assert not matches("*a" * 200 + "b", "a" * 2000)
