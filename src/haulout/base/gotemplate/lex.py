"""Splits a template into items, as text/template/parse does."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from haulout.base.gotemplate.text import quote

LEFT, RIGHT = "{{", "}}"
_SPACES = " \t\r\n"
_END = ""


class Kind(Enum):
    """The kinds of items that a template is split into, with the meanings that Go's text/template/parse gives them."""

    ERROR = auto()
    BOOL = auto()
    CHAR = auto()
    CHAR_CONSTANT = auto()
    COMPLEX = auto()
    ASSIGN = auto()
    DECLARE = auto()
    EOF = auto()
    FIELD = auto()
    IDENTIFIER = auto()
    LEFT_DELIM = auto()
    LEFT_PAREN = auto()
    NUMBER = auto()
    PIPE = auto()
    RAW_STRING = auto()
    RIGHT_DELIM = auto()
    RIGHT_PAREN = auto()
    SPACE = auto()
    STRING = auto()
    TEXT = auto()
    VARIABLE = auto()
    DOT = auto()
    NIL = auto()
    BLOCK = auto()
    BREAK = auto()
    CONTINUE = auto()
    DEFINE = auto()
    ELSE = auto()
    END = auto()
    IF = auto()
    RANGE = auto()
    TEMPLATE = auto()
    WITH = auto()


KEYWORDS = {
    kind.name.lower(): kind
    for kind in (
        Kind.NIL,
        Kind.BLOCK,
        Kind.BREAK,
        Kind.CONTINUE,
        Kind.DEFINE,
        Kind.ELSE,
        Kind.END,
        Kind.IF,
        Kind.RANGE,
        Kind.TEMPLATE,
        Kind.WITH,
    )
}
_KEYWORD_KINDS = {*KEYWORDS.values(), Kind.DOT}
_SIMPLE = {"=": Kind.ASSIGN, "|": Kind.PIPE}
_QUOTES = {'"': "unterminated quoted string", "'": "unterminated character constant"}


class Item(NamedTuple):
    """One token of a template. `str()` of it is the form in which Go quotes the token in its error messages.

    `pos`: its offset in the template.
    `line`: the line on which it begins, counted from 1.
    """

    kind: Kind
    pos: int
    text: str
    line: int

    def __str__(self) -> str:
        match self.kind:
            case Kind.EOF:
                return "EOF"
            case Kind.ERROR:
                return self.text
            case kind if kind in _KEYWORD_KINDS:
                return f"<{self.text}>"
        if len(self.text) > 10:
            return f"{quote(self.text[:10])}..."
        return quote(self.text)


class _Wrong(Exception):
    pass


class Lexer:
    """A lexer that splits a template into items, one at a time. After an error it returns no more items."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        self._start = 0
        self._inside = False
        self._depth = 0
        self._ended = False

    def next(self) -> Item:
        if self._ended:
            return Item(Kind.EOF, self._start, "EOF", self._line(self._start))
        try:
            return self._inside_action() if self._inside else self._text_or_action()
        except _Wrong as wrong:
            self._ended = True
            return Item(Kind.ERROR, self._start, str(wrong), self._line(self._start))

    def _line(self, at: int) -> int:
        return 1 + self._text.count("\n", 0, at)

    def _emit(self, kind: Kind) -> Item:
        item = Item(kind, self._start, self._text[self._start : self._pos], self._line(self._start))
        self._start = self._pos
        return item

    def _at(self, text: str, pos: int | None = None) -> bool:
        return self._text.startswith(text, self._pos if pos is None else pos)

    def _peek(self) -> str:
        return self._text[self._pos : self._pos + 1]

    def _take(self) -> str:
        character = self._peek()
        self._pos += len(character)
        return character

    def _text_or_action(self) -> Item:
        while True:
            found = self._text.find(LEFT, self._pos)
            if found < 0:
                self._pos = len(self._text)
                if self._pos > self._start:
                    return self._emit(Kind.TEXT)
                self._ended = True
                return self._emit(Kind.EOF)
            text = self._text[self._start : found]
            if self._trims_left(found + len(LEFT)):
                text = text.rstrip(_SPACES)
            if text:
                self._pos = self._start + len(text)
                item = self._emit(Kind.TEXT)
                self._pos = self._start = found
                return item
            self._pos = self._start = found
            after = found + len(LEFT) + (2 if self._trims_left(found + len(LEFT)) else 0)
            if not self._at("/*", after):
                self._pos = found + len(LEFT)
                item = self._emit(Kind.LEFT_DELIM)
                self._pos = self._start = after
                self._inside, self._depth = True, 0
                return item
            self._skip_comment(after)

    def _skip_comment(self, at: int) -> None:
        self._start = at
        found = self._text.find("*/", at + 2)
        if found < 0:
            raise _Wrong("unclosed comment")
        self._pos = found + 2
        is_right, trims = self._at_right()
        if not is_right:
            raise _Wrong("comment ends before closing delimiter")
        self._pos += len(RIGHT) + (2 if trims else 0)
        if trims:
            self._skip_space()
        self._start = self._pos

    def _skip_space(self) -> None:
        while self._peek() and self._peek() in _SPACES:
            self._pos += 1

    def _trims_left(self, at: int) -> bool:
        return self._at("-", at) and self._text[at + 1 : at + 2] in {*_SPACES}

    def _at_right(self, at: int | None = None) -> tuple[bool, bool]:
        at = self._pos if at is None else at
        if self._text[at : at + 1] in {*_SPACES} and self._at("-" + RIGHT, at + 1):
            return True, True
        return self._at(RIGHT, at), False

    def _inside_action(self) -> Item:
        is_right, trims = self._at_right()
        if is_right:
            if self._depth:
                raise _Wrong("unclosed left paren")
            return self._right(trims)
        character = self._take()
        match character:
            case "":
                raise _Wrong("unclosed action")
            case " " | "\t" | "\r" | "\n":
                return self._space()
            case "=" | "|":
                return self._emit(_SIMPLE[character])
            case ":":
                if self._take() != "=":
                    raise _Wrong("expected :=")
                return self._emit(Kind.DECLARE)
            case '"' | "'":
                return self._quoted(character)
            case "`":
                return self._raw()
            case "$":
                return self._name(Kind.VARIABLE)
            case "." if not self._peek().isascii() or not self._peek().isdigit():
                return self._name(Kind.FIELD)
            case "(":
                self._depth += 1
                return self._emit(Kind.LEFT_PAREN)
            case ")":
                self._depth -= 1
                if self._depth < 0:
                    raise _Wrong("unexpected right paren")
                return self._emit(Kind.RIGHT_PAREN)
            case _ if character in ".+-" or (character.isascii() and character.isdigit()):
                self._pos -= 1
                return self._number()
            case _ if _is_alphanumeric(character):
                return self._word()
            case _ if character.isascii() and character.isprintable():
                return self._emit(Kind.CHAR)
        raise _Wrong(f"unrecognized character in action: {_unicode(character)}")

    def _right(self, trims: bool) -> Item:
        if trims:
            self._pos += 2
            self._start = self._pos
        self._pos += len(RIGHT)
        item = self._emit(Kind.RIGHT_DELIM)
        if trims:
            self._skip_space()
            self._start = self._pos
        self._inside = False
        return item

    def _space(self) -> Item:
        self._skip_space()
        if self._at_right(self._pos - 1) == (True, True):
            self._pos -= 1
            if self._pos == self._start:
                return self._right(True)
        return self._emit(Kind.SPACE)

    def _word(self) -> Item:
        self._skip_alphanumeric()
        word = self._text[self._start : self._pos]
        if word in KEYWORDS:
            return self._emit(KEYWORDS[word])
        return self._emit(Kind.BOOL if word in {"true", "false"} else Kind.IDENTIFIER)

    def _name(self, kind: Kind) -> Item:
        """Read the name after a dot or a dollar sign."""
        if self._at_terminator():
            return self._emit(Kind.DOT if kind is Kind.FIELD else kind)
        self._skip_alphanumeric()
        return self._emit(kind)

    def _skip_alphanumeric(self) -> None:
        while _is_alphanumeric(self._peek()):
            self._pos += 1
        if not self._at_terminator():
            raise _Wrong(f"bad character {_unicode(self._peek())}")

    def _at_terminator(self) -> bool:
        return self._peek() == _END or self._peek() in _SPACES + ".,|:)(" or self._at(RIGHT)

    def _quoted(self, mark: str) -> Item:
        while (character := self._take()) != mark:
            if character == "\\":
                character = self._take()
                character = "" if character == "\n" else character and "x"
            if character in {_END, "\n"}:
                raise _Wrong(_QUOTES[mark])
        return self._emit(Kind.STRING if mark == '"' else Kind.CHAR_CONSTANT)

    def _raw(self) -> Item:
        found = self._text.find("`", self._pos)
        if found < 0:
            raise _Wrong("unterminated raw quoted string")
        self._pos = found + 1
        return self._emit(Kind.RAW_STRING)

    def _number(self) -> Item:
        self._scan_number()
        if self._peek() and self._peek() in "+-":
            self._scan_number()
            if self._text[self._pos - 1] != "i":
                raise self._bad_number()
            return self._emit(Kind.COMPLEX)
        return self._emit(Kind.NUMBER)

    def _scan_number(self) -> None:
        found = _NUMBER.match(self._text, self._pos)
        assert found is not None
        self._pos = found.end()
        if _is_alphanumeric(self._peek()):
            self._pos += 1
            raise self._bad_number()

    def _bad_number(self) -> _Wrong:
        return _Wrong(f"bad number syntax: {quote(self._text[self._start : self._pos])}")


_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?"
    r"|0[oO][0-7_]*(?:\.[0-7_]*)?|0[bB][01_]*(?:\.[01_]*)?"
    r"|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)i?"
)


def _is_alphanumeric(character: str) -> bool:
    return character == "_" or character.isalpha() or character.isdecimal()


def _unicode(character: str) -> str:
    """Return a character like Go's %#U. The end of the text is printed as -1, like Go's eof."""
    if not character:
        return "U+FFFFFFFFFFFFFFFF"
    quoted = f" '{character}'" if character.isprintable() else ""
    return f"U+{ord(character):04X}{quoted}"
