"""Splits a text of a small language into tokens, for its parser."""

from __future__ import annotations

import re
from typing import NamedTuple

# The deepest nesting that parsers accept. People write less, and it is shallow enough for recursion.
DEEPEST = 100


class Token(NamedTuple):
    """A piece of a text. `kind`: the name of its group in the pattern, or `end`. `column`: counts from 1."""

    kind: str
    text: str
    column: int

    @property
    def error(self) -> str:
        """The error message for a token that is not allowed in its place."""
        return "unexpected end" if self.kind == "end" else f"unexpected '{self.text}'"


class Tokens:
    """A reader over the tokens of a text. `pattern` matches white space and a token, in a named group for its kind."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        groups = ((each, str(each.lastgroup)) for each in pattern.finditer(text.rstrip()))
        self._tokens = [Token(group, each[group], each.start(group) + 1) for each, group in groups]
        self._tokens.append(Token("end", "", len(text) + 1))
        self._at = 0

    def peek(self) -> Token:
        return self._tokens[self._at]

    def take(self) -> Token:
        """Return the next token and move on. At the end, return the `end` token each time."""
        token = self.peek()
        if token.kind != "end":
            self._at += 1
        return token
