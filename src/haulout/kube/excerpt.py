"""Excerpts of JSON texts that are too long to be held: read piece by piece, only what a type declares is kept.

See decision 0020.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect

# The longest object that is decoded whole. etcd takes 1.5 MiB by default, and custom resources are stored as JSON. So
# only an object whose JSON is longer than its stored form can be longer: Go's encoder makes six bytes of a "<".
LONGEST_OBJECT = 2 * 2**20
# A longer string is kept as an empty string; a field with a longer key is left out.
LONGEST_STRING = 16 * 2**10
# The items of arrays and maps are kept until an excerpt is this long. Single fields, which name the object, are kept
# for as much again.
ROOM = 256 * 2**10
# Deeper values are left out. No struct of ours is as deep.
DEEPEST = 32
# How many bytes are read at once, and how many tokens are parsed before other work has a turn: 2 ms for tokens that may
# be kept. Each of those costs as much as four that are skipped.
SLICE = 64 * 2**10
MOST_TOKENS = 500

_GAP = re.compile(rb"[\s:,]*+")
_STRING_REST = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_TOKEN = re.compile(rb'([\[{])|([\]}])|("[^"\\]*+(?:\\.[^"\\]*+)*+")|([^\s:,\[\]{}"]++)(?=[\s:,\[\]{}])', re.DOTALL)
_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|([\[{])|([\]}])|(")', re.DOTALL)


class Shape:
    """The parts of a JSON value that an excerpt keeps.

    `fields`: the shape of each field of an object. `rest`: the shape of every item of an array or a map.
    """

    def __init__(self, fields: Mapping[bytes, Shape] | None = None, rest: Shape | None = None) -> None:
        self.fields = fields or {}
        self.rest = rest


SCALAR = Shape()
ANYTHING = Shape()
ANYTHING.rest = ANYTHING


def shape_of(kind: Any) -> Shape:
    """Return what has to be kept of a JSON value for it to be decoded as this type."""
    return _shape_of(kind)


@functools.cache
def _shape_of(kind: Any) -> Shape:
    return _shape(inspect.type_info(kind))


def _shape(info: inspect.Type) -> Shape:
    match info:
        case inspect.StructType(fields=fields):
            return Shape({f'"{field.encode_name}"'.encode(): _shape(field.type) for field in fields})
        case inspect.CollectionType(item_type=item):
            return Shape(rest=_shape(item))
        case inspect.DictType(value_type=value):
            return Shape(rest=_shape(value))
        case inspect.UnionType(types=types):
            return next((shape for each in types if (shape := _shape(each)) is not SCALAR), SCALAR)
        case inspect.AnyType() | inspect.RawType() | inspect.CustomType():
            return ANYTHING
        case _:
            return SCALAR


# Stands in for a key that is too long.
_LEFT_OUT = b"..."


class Excerpt(bytes):
    """The JSON that was kept of a longer text. `length` is the length of the whole text in bytes."""

    length: int


class _Frame(msgspec.Struct):
    """An object or array that has been opened in the excerpt and not closed."""

    shape: Shape
    end: bytes
    key: bytes = b""
    filled: bool = False


class Excerpting:
    """A parser that makes an excerpt of a JSON text. It holds no more in memory than the excerpt and one piece."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._kept = bytearray()
        self._frames: list[_Frame] = []
        # The bytes that have arrived and are not parsed: the beginning of a token.
        self._text = b""
        # How many brackets are open in a value that is left out, and whether the text is within one of its strings.
        self._depth = 0
        self._in_string = False
        self._length = 0
        # How many tokens have been parsed since other work had a turn.
        self._tokens = 0

    def feed(self, piece: bytes) -> Iterator[None]:
        """Parse the next piece of the text, at most `SLICE` bytes. Yield whenever other work should have a turn."""
        self._length += len(piece)
        self._text += piece
        at, before = 0, -1
        while before < at < len(self._text):
            before = at
            if self._in_string:
                at = self._pass_string(at)
            elif self._depth:
                at = self._pass_value(at)
            else:
                at = self._take(at)
            self._tokens += 1
            if self._tokens >= MOST_TOKENS:
                self._tokens = 0
                yield
        self._text = self._text[at:]

    def finish(self) -> Excerpt:
        """Return the excerpt. It is valid JSON if the text was complete."""
        excerpt = Excerpt(self._kept)
        excerpt.length = self._length
        return excerpt

    def _pass_string(self, at: int) -> int:
        """Skip the rest of a string. Return the position after it, or after as much of it as has arrived."""
        text = self._text
        if text.find(b'"', at) < 0:
            # A backslash at the end escapes the next byte, unless the backslash is escaped itself.
            slashes = len(text) - len(text[at:].rstrip(b"\\")) - at
            return len(text) - slashes % 2
        end = _end(_STRING_REST, text, at)
        if text[end : end + 1] == b'"':
            self._in_string = False
            return end + 1
        return end

    def _pass_value(self, at: int) -> int:
        """Skip the rest of an object or array. Return the position after it, or after as much of it as has arrived."""
        for number, token in enumerate(_BRACKET.finditer(self._text, at)):
            opening, closing, cut_off = token.groups()
            self._depth += bool(opening) - bool(closing)
            self._in_string = bool(cut_off)
            if self._in_string or not self._depth:
                self._tokens += number // 4
                return token.end()
            if number >= 4 * MOST_TOKENS:
                self._tokens = MOST_TOKENS
                return token.end()
        return len(self._text)

    def _take(self, at: int) -> int:
        """Parse one token. Return the position after it, or its own position if it has not arrived completely."""
        at = _end(_GAP, self._text, at)
        token = _TOKEN.match(self._text, at)
        if token is not None:
            opening, closing, string, literal = token.groups()
            if closing:
                self._close()
            elif string:
                self._string(string if len(string) <= LONGEST_STRING else b"")
            else:
                self._value(opening or literal, opens=opening is not None)
            return token.end()
        if len(self._text) - at <= LONGEST_STRING:
            return at
        if self._text[at : at + 1] == b'"':
            self._string(b"")
            self._in_string = True
            return at + 1
        # No real number is this long, so all but its last byte are skipped. Parsing them one by one would take seconds
        # for a slice.
        return len(self._text) - 1

    def _string(self, text: bytes) -> None:
        """Take a key or a string with its quotes. An empty `text` stands for one that is too long to be kept."""
        frame = self._frames[-1] if self._frames else None
        if frame is not None and frame.end == b"}" and not frame.key:
            frame.key = text or _LEFT_OUT
        else:
            self._value(text or b'""', opens=False)

    def _value(self, text: bytes, *, opens: bool) -> None:
        shape = self._wanted()
        frame = self._frames[-1] if self._frames else None
        if shape is not None:
            if frame is not None:
                self._kept += (b"," if frame.filled else b"") + frame.key + (b":" if frame.key else b"")
                frame.filled = True
            self._kept += text
            if opens:
                self._frames.append(_Frame(shape, b"}" if text == b"{" else b"]"))
        elif opens:
            self._depth = 1
        if frame is not None:
            frame.key = b""

    def _wanted(self) -> Shape | None:
        """Return the shape of what to keep of the next value; None if all of it is left out."""
        if not self._frames:
            return None if self._kept else self._shape
        frame = self._frames[-1]
        field = frame.shape.fields.get(frame.key)
        if field is not None:
            return field if len(self._kept) < 2 * ROOM else None
        if len(self._kept) >= ROOM or len(self._frames) >= DEEPEST or frame.key == _LEFT_OUT:
            return None
        return frame.shape.rest

    def _close(self) -> None:
        if self._frames:
            self._kept += self._frames.pop().end


def count_values(text: bytes) -> int:
    """Return an estimate of how many objects, arrays and strings a JSON text has. Counting 1 MiB takes 1 ms."""
    whole = bytes(text)
    return whole.count(b"{") + whole.count(b"[") + whole.count(b'"') // 2


def excerpt(text: bytes, shape: Shape) -> Excerpt:
    """Return the excerpt of a text that is in memory already."""
    reader, view = Excerpting(shape), memoryview(text)
    for start in range(0, len(text), SLICE):
        for _ in reader.feed(bytes(view[start : start + SLICE])):
            pass
    return reader.finish()


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
