"""Versions of packages: how they are parsed and compared."""

from __future__ import annotations

import re
from typing import NamedTuple

_LABEL = "[0-9A-Za-z-]+"
_VERSION = re.compile(
    rf"v?(?P<major>[0-9]+)(?:\.(?P<minor>[0-9]+)(?:\.(?P<patch>[0-9]+)(?:-(?P<pre>{_LABEL}(?:\.{_LABEL})*))?)?)?"
)
# A version is part of a label's value, which has room for 63 characters.
_LONGEST = 63


class _Label(NamedTuple):
    """One part of a pre-release. Numbers sort before words, numbers by value, words alphabetically."""

    is_word: bool
    number: int
    word: str


class PackageVersion(NamedTuple):
    """A version that sorts by precedence. Missing numbers count as 0; leading zeros do not count."""

    numbers: tuple[int, int, int]
    is_release: bool
    labels: tuple[_Label, ...]


def parse(text: str) -> PackageVersion | None:
    """Return the version; None if the text is not one.

    `1.0.0+build` is not, because an image tag cannot contain `+`.
    """
    found = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return None
    labels = tuple(map(_label, found["pre"].split("."))) if found["pre"] else ()
    numbers = (int(found["major"]), int(found["minor"] or 0), int(found["patch"] or 0))
    return PackageVersion(numbers, not labels, labels)


def is_version(text: str) -> bool:
    return parse(text) is not None


def is_lower(new: str, old: str) -> bool:
    """Whether `new` is lower than `old`. A text that is not a version is lower than every version."""
    first, second = parse(new), parse(old)
    if first is None or second is None:
        return first is None and second is not None
    return first < second


def _label(text: str) -> _Label:
    return _Label(False, int(text), "") if text.isdecimal() else _Label(True, 0, text)
