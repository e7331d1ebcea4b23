"""Patterns of file names with Go's rules (`path/filepath.Match` on Unix)."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

# `?` and `*` never match a slash; a group in brackets may.
_ONE = "[^/]"


class GlobError(ValueError):
    """A pattern is malformed by Go's rules."""

    def __init__(self) -> None:
        super().__init__("syntax error in pattern")


class _Chunk(NamedTuple):
    """The part of a pattern between two stars. Each element matches one letter. `starred`: a star precedes it."""

    starred: bool
    elements: re.Pattern[str]
    length: int


def matches(pattern: str, name: str) -> bool:
    """Whether the whole name fits the pattern. Raises GlobError.

    As in Go, each chunk is matched at the first place where it fits. There is no backtracking, so no pattern is slow.
    """
    at, chunks = 0, _chunks(pattern)
    for number, chunk in enumerate(chunks):
        found = _place(chunk, name, at, is_last=number == len(chunks) - 1)
        if found is None:
            return False
        at = found + chunk.length
    return at == len(name)


def _place(chunk: _Chunk, name: str, at: int, *, is_last: bool) -> int | None:
    """Return the first position from `at` on at which a chunk fits; None if there is none."""
    if not chunk.starred:
        return at if chunk.elements.match(name, at) else None
    if is_last:
        end = len(name) - chunk.length
        fits = end >= at and "/" not in name[at:end] and chunk.elements.match(name, end)
        return end if fits else None
    slash = name.find("/", at)
    for start in range(at, (len(name) if slash < 0 else slash) + 1):
        if chunk.elements.match(name, start):
            return start
    return None


@functools.lru_cache(maxsize=1024)
def _chunks(pattern: str) -> tuple[_Chunk, ...]:
    made: list[_Chunk] = []
    starred, elements, at = False, list[str](), 0
    while at < len(pattern):
        if pattern[at] != "*":
            element, at = _element(pattern, at)
            elements.append(element)
            continue
        if elements:
            made.append(_Chunk(starred, re.compile("".join(elements), re.DOTALL), len(elements)))
        starred, elements, at = True, [], at + 1
    return (*made, _Chunk(starred, re.compile("".join(elements), re.DOTALL), len(elements)))


def _element(pattern: str, at: int) -> tuple[str, int]:
    """Return the regular expression of the element at a position, and the position after the element."""
    match pattern[at]:
        case "?":
            return _ONE, at + 1
        case "[":
            return _group(pattern, at + 1)
        case _:
            letter, at = _letter(pattern, at)
            return re.escape(letter), at


def _group(pattern: str, at: int) -> tuple[str, int]:
    negated = pattern[at : at + 1] == "^"
    at += negated
    low, high, at = _range(pattern, at)
    ranges = [(low, high)]
    while pattern[at : at + 1] != "]":
        low, high, at = _range(pattern, at)
        ranges.append((low, high))
    # A range that runs backwards has no letters.
    inside = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in ranges if low <= high)
    if not inside:
        return "." if negated else "(?!)", at + 1
    return f"[{'^' if negated else ''}{inside}]", at + 1


def _range(pattern: str, at: int) -> tuple[str, str, int]:
    low, at = _member(pattern, at)
    high = low
    if pattern[at : at + 1] == "-":
        high, at = _member(pattern, at + 1)
    return low, high, at


def _member(pattern: str, at: int) -> tuple[str, int]:
    """Return one letter of a group. Raises GlobError at the end of the pattern, and for a bare `-` or `]`."""
    if pattern[at : at + 1] in ("", "-", "]"):
        raise GlobError
    return _letter(pattern, at)


def _letter(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at] != "\\":
        return pattern[at], at + 1
    if at + 1 == len(pattern):
        raise GlobError
    return pattern[at + 1], at + 2
