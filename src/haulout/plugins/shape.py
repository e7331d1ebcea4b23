"""The types that configuration fields can have, and how single values are converted to them, as in elastic/go-ucfg."""

from __future__ import annotations

import functools
import math
import types
import typing
from datetime import timedelta
from enum import Enum
from typing import Annotated, Any, NamedTuple

import msgspec

from haulout.base import duration
from haulout.base.number import INT64_MAX, INT64_MIN, format_float, parse_bool, parse_float, parse_int
from haulout.base.yaml import Node, Scalar

Plain = str | int | float | bool


class Kind(Enum):
    """The shapes of fields that contain no other shape. The value is the name of the type in ucfg's messages."""

    STRING = "string"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    DURATION = "duration"
    DURATION_TEXT = "duration as string"
    ANY = "any"
    BLOCK = "block"
    FIELDS = "fields"


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of all settings that are read from a file. A subclass has to repeat `frozen=True, kw_only=True`.

    A field without a default is required: text and lists must not be empty, numbers and durations not zero. Fields
    are `str`, `int`, `float`, `bool`, `GoDuration`, `GoDurationText`, another Config, `tuple[..., ...]` or
    `dict[str, ...]` of these, `Block | None`, and `Fields`. They are read in their order. In the file they have camel
    case names, unless `msgspec.field(name=...)` gives another one.
    """

    def validate(self) -> None:
        """Raise ConfigProblem for a mistake that the types of the fields do not exclude."""


class ListOf(NamedTuple):
    """The shape of a field that holds a list. `item` is the shape of its members."""

    item: Shape


class MapOf(NamedTuple):
    """The shape of a field that holds names with values. `item` is the shape of the values."""

    item: Shape


class Nested(NamedTuple):
    """The shape of a field that holds another block of settings. `kind` is the class of that block."""

    kind: type[Config]


Shape = Kind | ListOf | MapOf | Nested


class Block(msgspec.Struct, frozen=True):
    """A block that is read later, when its type is known, such as the settings of a plugin."""

    node: Node
    path: tuple[str, ...]


class Min(NamedTuple):
    """The least number that a field of a configuration accepts.

    With `Annotated[float, Min(0.001)]`, an absent field counts as 0 and is refused, too.
    """

    limit: float


class Field(NamedTuple):
    """One field of a Config class, as the reader of configurations uses it.

    `name`, `wire`: its names in Python and in the file.
    `minimum`: the least number that is accepted; None if any number is.
    """

    name: str
    wire: str
    shape: Shape
    is_required: bool
    default: Any
    minimum: float | None


TEXTS = frozenset((Kind.STRING, Kind.DURATION, Kind.DURATION_TEXT))

_PLAIN = {str: Kind.STRING, int: Kind.INT, float: Kind.FLOAT, bool: Kind.BOOL, Any: Kind.ANY}
_ZEROS: dict[Kind, Any] = {
    Kind.STRING: "",
    Kind.INT: 0,
    Kind.FLOAT: 0.0,
    Kind.BOOL: False,
    Kind.DURATION: timedelta(0),
    Kind.DURATION_TEXT: timedelta(0),
}


@functools.cache
def plan(kind: type[Config]) -> tuple[Field, ...]:
    """Return the fields of a configuration class, in its order."""
    return tuple(_field(info) for info in msgspec.structs.fields(kind))


def zero(shape: Shape) -> Any:
    match shape:
        case ListOf():
            return ()
        case MapOf():
            return {}
        case Nested(kind):
            return kind(**{field.name: field.default for field in plan(kind)})
        case _:
            return _ZEROS.get(shape)


def missing(shape: Shape, value: Any, *, is_present: bool) -> str:
    """Return why a required field is missing; empty if it is not."""
    if value:
        return ""
    match shape:
        case Kind.STRING | Kind.DURATION_TEXT:
            return "string value is not set"
        case Kind.INT | Kind.FLOAT | Kind.DURATION:
            return "missing required field"
        case ListOf():
            return "empty array" if is_present else "missing required field"
        case MapOf():
            return "empty map" if is_present else "missing required field"
        case _:
            return ""


def coerce(kind: Kind, value: Plain | None) -> Any:
    """Return a value converted to a text, number or boolean; None if that is not possible."""
    match kind:
        case _ if value is None:
            return None
        case Kind.STRING | Kind.DURATION_TEXT:
            return text_of(value)
        case Kind.BOOL:
            return parse_bool(value) if isinstance(value, str) else value if isinstance(value, bool) else None
        case Kind.INT:
            return _int64(value)
        case _:
            number = parse_float(value) if isinstance(value, str) else value
            return None if number is None or isinstance(number, bool) else float(number)


def span(value: Plain | None) -> timedelta:
    """Return a value as a duration. A number counts as seconds."""
    match value:
        case bool() | str():
            return duration.parse(text_of(value))
        case int() | float():
            nanoseconds = value * 1_000_000_000
            if not INT64_MIN <= nanoseconds <= INT64_MAX:
                raise duration.DurationError("integer overflow")
            return duration.from_nanoseconds(int(nanoseconds))
        case _:
            raise duration.DurationError("type mismatch")


def text_of(value: Plain) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return format_float(value)
        case _:
            return str(value)


def type_name(node: Node) -> str:
    """Return the name of a value's type in ucfg's messages, where positive integers are unsigned."""
    match node:
        case Scalar(None):
            return "any"
        case Scalar(bool()):
            return "bool"
        case Scalar(int() as number):
            return "uint" if number > 0 else "int"
        case Scalar(float()):
            return "float"
        case Scalar():
            return "string"
        case _:
            return "object"


def _field(info: msgspec.structs.FieldInfo) -> Field:
    shape, minimum = _shape(info.type)
    if info.required:
        default = zero(shape)
    elif info.default is msgspec.NODEFAULT:
        default = info.default_factory()
    else:
        default = info.default
    return Field(info.name, info.encode_name, shape, info.required, default, minimum)


def _shape(annotation: Any) -> tuple[Shape, float | None]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        minimum = next((mark.limit for mark in arguments[1:] if isinstance(mark, Min)), None)
        kind = next((mark for mark in arguments[1:] if isinstance(mark, Kind)), None)
        return kind or _shape(arguments[0])[0], minimum
    if origin is tuple and arguments[1:] == (...,):
        return ListOf(_shape(arguments[0])[0]), None
    if origin is dict:
        return MapOf(_shape(arguments[1])[0]), None
    if origin in {types.UnionType, typing.Union} and Block in arguments:
        return Kind.BLOCK, None
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return Nested(annotation), None
    if annotation in _PLAIN:
        return _PLAIN[annotation], None
    raise TypeError(f"a configuration field cannot be {annotation}")


def _int64(value: Plain) -> int | None:
    """Return a number rounded towards zero; None if it is not one, or does not fit into 64 bits."""
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    number = parse_int(value) if isinstance(value, str) else int(value)
    return number if number is not None and INT64_MIN <= number <= INT64_MAX else None
