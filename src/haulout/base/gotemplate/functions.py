"""The functions that every template has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote_plus

from haulout.base.gotemplate.printing import format_value, sprint, sprintf, sprintln
from haulout.base.gotemplate.text import is_printable, to_bytes, to_text
from haulout.base.gotemplate.values import Func, Map, Slice, entries, items, kind, truth, type_name

_BASIC = frozenset(("bool", "int", "float", "complex", "string"))
_HTML = str.maketrans({"\0": "\ufffd", '"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;"})
_JS = {"\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026", "=": "\\u003D"}


class CallFailed(Exception):
    """A template function failed. The executor adds the place to the message."""


def index(item: Any, *keys: Any) -> Any:
    if item is None:
        raise CallFailed("index of untyped nil")
    for key in keys:
        match kind(item):
            case "ptr":
                raise CallFailed("index of nil pointer")
            case "slice":
                item = items(item)[_position(key, len(items(item)), inside=True)]
            case "string":
                data = to_bytes(item)
                item = data[_position(key, len(data), inside=True)]
            case "map":
                item = _entry(item, key)
            case _:
                raise CallFailed(f"can't index item of type {type_name(item)}")
    return item


def _entry(item: Any, key: Any) -> Any:
    if key is None:
        raise CallFailed("value is nil; should be of type string")
    if not isinstance(key, str):
        raise CallFailed(f"value has type {type_name(key)}; should be string")
    return entries(item).get(key, item.zero if isinstance(item, Map) else None)


def _position(key: Any, most: int, *, inside: bool = False) -> int:
    if key is None:
        raise CallFailed("cannot index slice/array with nil")
    if kind(key) != "int":
        raise CallFailed(f"cannot index slice/array with type {type_name(key)}")
    if not 0 <= key <= most:
        raise CallFailed(f"index out of range: {int(key)}")
    if inside and key == most:
        # Go's function lets this index pass, and then the reflect package panics with this message.
        raise CallFailed("reflect: slice index out of range")
    return int(key)


def slice_of(item: Any, *bounds: Any) -> Any:
    if item is None:
        raise CallFailed("slice of untyped nil")
    if kind(item) == "ptr":
        raise CallFailed("slice of nil pointer")
    if len(bounds) > 3:
        raise CallFailed(f"too many slice indexes: {len(bounds)}")
    match kind(item):
        case "string" if len(bounds) == 3:
            raise CallFailed("cannot 3-index slice a string")
        case "string":
            size = len(to_bytes(item))
        case "slice":
            size = len(items(item))
        case _:
            raise CallFailed(f"can't slice item of type {type_name(item)}")
    found = [_position(bound, size) for bound in bounds]
    low, high, most = [*found, *[0, size, size][len(found) :]]
    for first, second in ((low, high), (high, most)):
        if first > second:
            raise CallFailed(f"invalid slice index: {first} > {second}")
    if kind(item) == "string":
        return to_text(to_bytes(item)[low:high])
    return Slice(items(item)[low:high], type_name(item))


def length(item: Any) -> int:
    match kind(item):
        case "ptr":
            raise CallFailed("len of nil pointer")
        case "string":
            return len(to_bytes(item))
        case "map":
            return len(entries(item))
        case "slice":
            return len(items(item))
        case "invalid":
            raise CallFailed("reflect: call of reflect.Value.Type on zero Value")
    raise CallFailed(f"len of type {type_name(item)}")


def equal(first: Any, *others: Any) -> bool:
    if not others:
        raise CallFailed("missing argument for comparison")
    return any(_is_equal(first, other) for other in others)


def _is_equal(first: Any, other: Any) -> bool:
    one, two = _basic(first), _basic(other)
    if one != two:
        if first is not None and other is not None:
            raise CallFailed(f"incompatible types for comparison: {type_name(first)} and {type_name(other)}")
        return False
    if one != "other":
        return bool(first == other)
    return _is_same(first, other)


def _is_same(first: Any, other: Any) -> bool:
    if first is not None and other is not None and kind(first) != kind(other):
        raise CallFailed(
            f"non-comparable types {format_value(first)}: {type_name(first)}, {type_name(other)}: {format_value(other)}"
        )
    if _is_nil(first) or _is_nil(other):
        return _is_nil(first) == _is_nil(other)
    if kind(other) in {"map", "slice", "func"}:
        raise CallFailed(f"non-comparable type {sprintf('%s', (other,))}: {type_name(other)}")
    return first is other or (first.type_name == other.type_name and first.fields == other.fields)


def _is_nil(value: Any) -> bool:
    return kind(value) in {"invalid", "ptr"}


def _basic(value: Any) -> str:
    found = kind(value)
    return found if found in _BASIC else "other"


def less(first: Any, second: Any) -> bool:
    one, two = _basic(first), _basic(second)
    if "other" in {one, two}:
        raise CallFailed("invalid type for comparison")
    if one != two:
        raise CallFailed(f"incompatible types for comparison: {type_name(first)} and {type_name(second)}")
    if one in {"bool", "complex"}:
        raise CallFailed("invalid type for comparison")
    return bool(to_bytes(first) < to_bytes(second) if one == "string" else first < second)


def less_or_equal(first: Any, second: Any) -> bool:
    return less(first, second) or equal(first, second)


def html(*values: Any) -> str:
    return _text(values).translate(_HTML)


def js(*values: Any) -> str:
    return "".join(map(_escaped, _text(values)))


def _escaped(character: str) -> str:
    if character in _JS:
        return _JS[character]
    code = ord(character)
    if code < 0x20:
        return f"\\u{code:04X}"
    return character if code < 0x80 or is_printable(character) else f"\\u{code:04X}"


def urlquery(*values: Any) -> str:
    return quote_plus(to_bytes(_text(values)), safe="~")


def _text(values: Sequence[Any]) -> str:
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return sprint(["<no value>" if value is None else value for value in values])


def call(name: str, function: Any, *values: Any) -> Any:
    if function is None:
        raise CallFailed("call of nil")
    if not isinstance(function, Func):
        raise CallFailed(f"non-function {name} of type {type_name(function)}")
    if len(values) != len(function.takes) and not (function.more and len(values) > len(function.takes)):
        many = "at least " if function.more else ""
        raise CallFailed(f"wrong number of args for {name}: got {len(values)} want {many}{len(function.takes)}")
    return function.call(*values)


def _any(function: Callable[..., Any], fixed: int, *, more: bool = False) -> Func:
    return Func(function, ["any"] * fixed, "any" if more else "")


FUNCTIONS = {
    "and": _any(lambda *values: None, 1, more=True),
    "or": _any(lambda *values: None, 1, more=True),
    "call": _any(call, 1, more=True),
    "html": _any(html, 0, more=True),
    "index": _any(index, 1, more=True),
    "slice": _any(slice_of, 1, more=True),
    "js": _any(js, 0, more=True),
    "len": _any(length, 1),
    "not": _any(lambda value: not truth(value), 1),
    "print": _any(lambda *values: sprint(values), 0, more=True),
    "printf": Func(lambda template, *values: sprintf(template, values), ["string"], "any"),
    "println": _any(lambda *values: sprintln(values), 0, more=True),
    "urlquery": _any(urlquery, 0, more=True),
    "eq": _any(equal, 1, more=True),
    "ne": _any(lambda first, second: not equal(first, second), 2),
    "lt": _any(less, 2),
    "le": _any(less_or_equal, 2),
    "gt": _any(lambda first, second: not less_or_equal(first, second), 2),
    "ge": _any(lambda first, second: not less(first, second), 2),
}
