"""Bounds for numbers, times and texts from outside. They are applied on input, so that sums of them do not overflow.

Kubernetes accepts a grace period of 2^62 seconds and a renewal in the year 9999. No decision needs values beyond these
bounds. An instant within them, plus or minus several spans within them, is a date that Python can represent.

A text that is cut ends with an ellipsis, which no name, selector, number, time or JSON text has there. So a decision
that reads a cut text finds it invalid or unknown, and never takes it for another one (decision 0169).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, overload

from msgspec import Struct

# 300 years, more than Go's longest duration, which is 292 years.
LONGEST_SECONDS = 300 * 365 * 86_400
EARLIEST, LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
# The largest count of Kubernetes, which is an int32.
MOST = (1 << 31) - 1
# The end of a text that was cut, and the name, value or list member that stands for those that were left out.
LEFT_OUT = "…"
# The longest name of a Kubernetes object.
LONGEST_NAME = 253

T = TypeVar("T")


class TreeBounds(Struct, frozen=True):
    """How large an object may be in memory. The defaults are far above what people write.

    `longest`: characters of one text. `most`: members of one list or map.
    `values`, `characters`: values in the whole object, and characters of all its texts.
    """

    longest: int = 16_384
    most: int = 1000
    values: int = 20_000
    characters: int = 262_144


ORDINARY = TreeBounds()
# For objects that carry the files of users: a ConfigMap may have 1 MiB.
LARGE = TreeBounds(longest=1 << 20, most=20_000, characters=1 << 21)


@overload
def seconds(number: int) -> int: ...


@overload
def seconds(number: int | None) -> int | None: ...


def seconds(number: int | None) -> int | None:
    """Return a number of seconds, limited to 300 years."""
    return None if number is None else min(max(number, -LONGEST_SECONDS), LONGEST_SECONDS)


def span(number: float) -> timedelta:
    """Return a number of seconds, limited to 300 years, as a timedelta."""
    return timedelta(seconds=min(max(number, -LONGEST_SECONDS), LONGEST_SECONDS))


def count(number: int) -> int:
    """Return a count, limited to the range of an int32."""
    return min(max(number, -MOST), MOST)


@overload
def instant(at: datetime) -> datetime: ...


@overload
def instant(at: datetime | None) -> datetime | None: ...


def instant(at: datetime | None) -> datetime | None:
    """Return an instant in UTC, limited to the years 1000 to 9000. Without a time zone, it is taken for UTC."""
    if at is None:
        return None
    if EARLIEST.year < at.year < LATEST.year:
        return at if at.tzinfo is UTC else at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return EARLIEST if at.year <= EARLIEST.year else LATEST


def text(found: str, longest: int) -> str:
    """Return a text, cut to its longest length."""
    return found if len(found) <= longest else f"{found[: longest - 1]}{LEFT_OUT}"


def is_within(tree: object, bounds: TreeBounds) -> bool:
    """Whether a value of structs, maps, lists and texts is within its bounds."""
    values = characters = 0
    waiting = [tree]
    while waiting:
        each = waiting.pop()
        values += 1
        if isinstance(each, str):
            length = len(each)
            characters += length
            if length > bounds.longest:
                return False
        elif isinstance(each, Struct):
            waiting.extend([getattr(each, name) for name in each.__struct_fields__])
        elif isinstance(each, dict):
            if len(each) > bounds.most:
                return False
            waiting.extend(each)
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            if len(each) > bounds.most:
                return False
            waiting.extend(each)
        if values > bounds.values or characters > bounds.characters:
            return False
    return True


def trim(tree: T, bounds: TreeBounds = ORDINARY) -> T:
    """Return a value of structs, maps, lists and texts without what is beyond its bounds: itself if it is within them.

    Texts are cut, and members of lists and maps are left out from where there are too many.
    """
    return tree if is_within(tree, bounds) else _Cutting(bounds).of(tree)


class _Cutting:
    """Cuts one value, and counts what is left of its bounds."""

    def __init__(self, bounds: TreeBounds) -> None:
        self._bounds = bounds
        self._values = bounds.values
        self._characters = bounds.characters

    def of(self, each: Any) -> Any:
        self._values -= 1
        if isinstance(each, str):
            found = text(each, max(1, min(self._bounds.longest, self._characters)))
            self._characters -= len(found)
            return found
        if isinstance(each, Struct):
            return type(each)(**{name: self.of(getattr(each, name)) for name in each.__struct_fields__})
        if isinstance(each, dict):
            return {self.of(name): self.of(each[name]) for name in self._some(each)}
        if isinstance(each, list | tuple):
            return type(each)([self.of(member) for member in self._some(each)])
        return each

    def _some(self, members: Any) -> Any:
        """Yield the members that there is room for."""
        for number, member in enumerate(members):
            if number >= self._bounds.most or self._values <= 0:
                return
            yield member
