"""Tokens of a small language, and a parser's place among them."""

from __future__ import annotations

import re
from typing import NamedTuple

# Deeper than people write, and shallow enough for recursion.
DEEPEST = 100


class Token(NamedTuple):
    """A piece of a text: the name of its group in the pattern, or `end`; its text; its column, which counts from 1."""

    kind: str
    text: str
    column: int

    @property
    def unexpected(self) -> str:
        """The words for a token that stands where it may not."""
        return "unexpected end" if self.kind == "end" else f"unexpected '{self.text}'"


class Tokens:
    """The tokens of a text with the place of the next one. `pattern`: a token in named groups, after white space."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        groups = ((each, str(each.lastgroup)) for each in pattern.finditer(text.rstrip()))
        self._tokens = [Token(group, each[group], each.start(group) + 1) for each, group in groups]
        self._tokens.append(Token("end", "", len(text) + 1))
        self._at = 0

    def peek(self) -> Token:
        return self._tokens[self._at]

    def take(self) -> Token:
        """Return the next token and go on. The end is never passed."""
        token = self.peek()
        if token.kind != "end":
            self._at += 1
        return token
