"""Semantic versions, strictly by the rules of semver.org, and their order."""

from __future__ import annotations

import re
from functools import total_ordering
from typing import NamedTuple

_NUMBER = "(?:0|[1-9][0-9]*)"
_LABEL = f"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
# The longest version. Kubelets write theirs, and Python refuses numbers of some thousand digits.
_LONGEST = 256
_VERSION = re.compile(
    rf"(?P<major>{_NUMBER})\.(?P<minor>{_NUMBER})\.(?P<patch>{_NUMBER})"
    rf"(?:-(?P<pre>{_LABEL}(?:\.{_LABEL})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


class SemverError(ValueError):
    """A text that is not a semantic version."""

    def __init__(self, text: str) -> None:
        super().__init__(f'"{text}" is no semantic version (such as 1.2.3, 1.2.3-rc.1 or 1.2.3+build)')


class _Label(NamedTuple):
    """One part of a pre-release, in an order in which numbers come before words."""

    is_word: bool
    number: int
    word: str


@total_ordering
class Version:
    """A semantic version that can be compared.

    Versions of equal precedence are equal: the build after a `+` does not count.
    """

    __slots__ = ("_order", "text")

    def __init__(self, text: str) -> None:
        found = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
        if not found:
            raise SemverError(text)
        self.text = text
        labels = tuple(map(_label, found["pre"].split("."))) if found["pre"] else ()
        numbers = (int(found["major"]), int(found["minor"]), int(found["patch"]))
        # A version comes after all its pre-releases, and a longer pre-release after its own beginning.
        self._order = (numbers, not labels, labels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._order == other._order

    def __lt__(self, other: Version) -> bool:
        return self._order < other._order

    def __hash__(self) -> int:
        return hash(self._order)

    def __repr__(self) -> str:
        return f"Version({self.text!r})"

    def __str__(self) -> str:
        return self.text


def _label(text: str) -> _Label:
    return _Label(False, int(text), "") if text.isdecimal() else _Label(True, 0, text)
