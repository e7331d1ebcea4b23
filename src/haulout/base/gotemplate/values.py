"""The values that templates work on: stand-ins for Go's types for which Python has no type.

None stands for no value, `dict` for map[string]interface {}, and `list` for []interface {}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Map:
    """A Go map with string keys. `zero` is the value that Go returns for a missing key."""

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
    """A Go struct with fields and methods. `text`: the result of its String method, if it has one."""

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
    """A nil pointer. `methods`: the names of its type's methods. Calling one of them fails."""

    def __init__(self, type_name: str, methods: frozenset[str] = frozenset()) -> None:
        self.type_name = type_name
        self.methods = methods


class Func:
    """A function that templates can call, with the types that Go checks its arguments against.

    `takes`: the types of its arguments. `more`: the type of any number of further arguments; empty if it takes none.
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
    """A text that also has fields."""

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
    """Return the entries of a map sorted by the bytes of their keys, as Go prints them."""
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
