"""Writes tables and values for the reference pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from haulout.base.duration import to_text


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table and an empty one after it."""
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |".replace("  ", " ")
    yield ""


def code(text: str) -> str:
    """Return a text as Markdown code; empty for an empty text."""
    return f"`{text}`" if text else ""


def shown(value: Any) -> str:
    """Return a default value as Markdown code, spelled as in a configuration file."""
    match value:
        case None | "" | () | {}:
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case timedelta():
            return f"`{to_text(value)}`"
        case tuple() | list():
            return f"`{', '.join(map(str, value))}`"
        case _:
            return f"`{value}`"
