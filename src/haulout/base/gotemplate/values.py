"""What templates work on: Go's kinds of values, as far as Python's own do not do.

None is no value at all, `dict` is a map[string]interface {}, `list` a []interface {}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Map:
    """A map with keys of text. `zero` is what Go finds under a key that is not there."""

    def __init__(
        self,
        entries: Mapping[str, Any],
        zero: Any = None,
        type_name: str = "map[string]interface {}",
        methods: Mapping[str, Func] | None = None,
    ) -> None:
        self.methods = methods or {}
        self.entries = entries
        self.zero = zero
        self.type_name = type_name


class Slice:
    """A list with the type of a Go slice. `type_name` is the type that Go would print."""

    def __init__(self, items: Sequence[Any], type_name: str = "[]interface {}") -> None:
        self.items = items
        self.type_name = type_name


class Object:
    """A struct with methods. `text`: what its String method answers, if it has one."""

    def __init__(
        self,
        type_name: str,
        fields: Mapping[str, Any],
        *,
        promoted: Mapping[str, Any] | None = None,
        methods: Mapping[str, Func] | None = None,
        text: str | None = None,
    ) -> None:
        self.type_name = type_name
        self.fields = fields
        # The fields of embedded structs, which can be named as if they were its own.
        self.promoted = promoted or {}
        self.methods = methods or {}
        self.text = text


class Nil:
    """A nil pointer. `methods`: the names of those that it would have, and that fail on nothing."""

    def __init__(self, type_name: str, methods: frozenset[str] = frozenset()) -> None:
        self.type_name = type_name
        self.methods = methods


class Func:
    """A function that templates can call, with the types that Go checks its arguments against.

    `takes`: the types of its arguments; `more`: of as many further ones as there are.
    """

    def __init__(self, call: Callable[..., Any], takes: Sequence[str] = (), more: str = "") -> None:
        self.call = call
        self.takes = tuple(takes)
        self.more = more


class Named(int):
    """A number that prints as a word: a weekday, a month."""

    text: str
    type_name: str

    def __new__(cls, value: int, text: str, type_name: str) -> Named:
        made = super().__new__(cls, value)
        made.text, made.type_name = text, type_name
        return made


class Word(str):
    """A text that has fields besides."""

    __slots__ = ("fields",)
    fields: Mapping[str, Any]

    def __new__(cls, text: str, fields: Mapping[str, Any]) -> Word:
        made = super().__new__(cls, text)
        made.fields = fields
        return made


def kind(value: Any) -> str:
    match value:
        case None:
            return "invalid"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case complex():
            return "complex"
        case str():
            return "string"
        case dict() | Map():
            return "map"
        case list() | tuple() | Slice():
            return "slice"
        case Func():
            return "func"
        case Nil():
            return "ptr"
        case Object():
            return "struct"
    raise TypeError(f"a template cannot work on {type(value).__name__}")


_PLAIN = {
    "bool": "bool",
    "int": "int",
    "float": "float64",
    "complex": "complex128",
    "string": "string",
    "map": "map[string]interface {}",
    "slice": "[]interface {}",
    "invalid": "<nil>",
}


def type_name(value: Any) -> str:
    if isinstance(value, Func):
        return f"func({', '.join((*value.takes, *([f'...{value.more}'] if value.more else [])))})"
    return str(getattr(value, "type_name", "")) or _PLAIN[kind(value)]


def entries(value: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = value.entries if isinstance(value, Map) else value
    return found


def items(value: Any) -> Sequence[Any]:
    found: Sequence[Any] = value.items if isinstance(value, Slice) else value
    return found


def sorted_entries(value: Any) -> list[tuple[str, Any]]:
    """Return the entries in the order of their bytes, as Go's own printing has it."""
    return sorted(entries(value).items(), key=lambda entry: entry[0].encode("utf-8", "surrogateescape"))


def truth(value: Any) -> bool:
    match kind(value):
        case "invalid" | "ptr":
            return False
        case "map":
            return bool(entries(value))
        case "slice":
            return bool(items(value))
        case "struct" | "func":
            return True
    return bool(value)
