"""Semantic versions: their order, and texts that are none."""

from __future__ import annotations

import itertools

import pytest

from haulout.base.semver import SemverError, Version

# The examples of semver.org, in order.
ORDER = (
    "0.1.0",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0-0",
    "2.0.0",
)


@pytest.mark.parametrize(("lower", "higher"), list(itertools.combinations(ORDER, 2)))
def test_order(lower: str, higher: str) -> None:
    assert Version(lower) < Version(higher)
    assert not Version(higher) < Version(lower)


def test_builds_do_not_count() -> None:
    assert Version("1.0.0+a.1") == Version("1.0.0+b") == Version("1.0.0")
    assert hash(Version("1.0.0+a")) == hash(Version("1.0.0"))
    assert str(Version("1.0.0+a")) == "1.0.0+a"


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.2", "v1.2.3", "01.2.3", "1.02.3", "1.2.3.4", "1.2.3-", "1.2.3+", "1.2.3-01", "1.2.3-a..b", " 1.2.3"],
)
def test_refuses(text: str) -> None:
    with pytest.raises(SemverError):
        Version(text)
