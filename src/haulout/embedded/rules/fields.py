"""The fields of built-in kinds as Go decodes and prints them: unknown fields are dropped, empty ones left out."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

import msgspec

from haulout.base.number import INT64_MAX, INT64_MIN
from haulout.base.quantity import canonical
from haulout.embedded.interfaces import Json

# Takes a value, the previous value (an identical object is not converted again) and a list for unknown fields. Returns
# the value as the server prints it.
Convert = Callable[[Any, Any, list[str]], Any]

_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_MICRO_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{6,9})(Z|[+-]\d\d:\d\d)")


NO_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


class Misfit(Exception):
    """A value does not have its field's type. `diagnose` returns the place, in Go's error message."""


class Field(NamedTuple):
    """One field of a Go struct."""

    type: str
    pointer: bool
    # When Go leaves the field out: "empty" (omitempty), "zero" (omitzero), or "" for never.
    omit: str
    # The key by which strategic merge patches merge list items; "" for items that are plain values, None for lists that
    # are replaced.
    merge_key: str | None
    retain: bool
    # The number of the field in protobuf; 0: it has none.
    number: int = 0


@lru_cache(1)
def _declared() -> dict[str, dict[str, str]]:
    data = resources.files("haulout.embedded.rules").joinpath("kinds.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, dict[str, str]])


@lru_cache(None)
def fields_of(name: str) -> dict[str, Field]:
    """Return the fields of a Go struct, in Go's order."""
    return {field: _parse(text) for field, text in _declared()[name].items() if not field.startswith("+")}


def inlined_structs(name: str) -> dict[int, str]:
    """Return the structs that JSON inlines into this one, by their number in protobuf, where each is a message."""
    return {int(field[1:]): text for field, text in _declared()[name].items() if field.startswith("+")}


def is_struct(name: str) -> bool:
    return name in _declared()


def _parse(text: str) -> Field:
    kind, *flags = text.split(" ")
    merge = next((flag[6:] for flag in flags if flag.startswith("merge=")), None)
    omit = next((flag for flag in flags if flag in {"empty", "zero"}), "")
    number = next((int(flag[1:]) for flag in flags if flag.startswith("#")), 0)
    return Field(kind.removeprefix("*"), kind.startswith("*"), omit, merge, "retain" in flags, number)


def normalise(name: str, value: Any, old: Any, unknown: list[str]) -> Json:
    """Return the object as the server would print it. Unknown fields are added to `unknown`. Raises `Misfit`."""
    result: Json = converter(name)(value, old, unknown)
    return result


@lru_cache(None)
def converter(type_name: str) -> Convert:
    base = type_name.partition(":")[0]
    if base.startswith("[]"):
        return _list_of(base[2:])
    if base.startswith("{}"):
        return _map_of(base[2:])
    if base in LEAVES:
        return LEAVES[base]
    return _Struct(base).convert


# The compiled treatment of one field: the class of values that need no conversion, whether an empty value is printed,
# and the conversion. A plain tuple, because it is unpacked for every field of every write.
_Slot = tuple[type | None, bool, Convert]


class _Struct:
    def __init__(self, name: str) -> None:
        self._name = name
        self._slots: dict[str, _Slot] | None = None
        self._always: tuple[tuple[str, Callable[[], Any]], ...] = ()

    def _prepare(self) -> dict[str, _Slot]:
        """Prepare a type when it is first used: types may contain themselves."""
        slots, always = {}, []
        for name, field in fields_of(self._name).items():
            kind = field.type.partition(":")[0]
            nothing = _zero(field)
            if nothing is not None:
                always.append((name, nothing))
            keep = field.pointer or not field.omit or kind in {"time", "microtime", "any"} or is_struct(kind)
            slots[name] = (_PLAIN.get(kind), keep and field.omit != "zero", converter(field.type))
        self._slots, self._always = slots, tuple(always)
        return slots

    def convert(self, value: Any, old: Any, unknown: list[str]) -> Any:
        if value.__class__ is not dict:
            if value is None:
                value = {}
            else:
                raise Misfit
        slots = self._slots
        if slots is None:
            slots = self._prepare()
        before = old if old.__class__ is dict else _NOTHING
        # Most fields are the previous ones or plain, so they are copied at once and only the others are looked at.
        result = value.copy()
        for name, item in value.items():
            previous = before.get(name)
            if item is previous and item is not None:
                continue
            slot = None if item is None else slots.get(name)
            if slot is None:
                del result[name]
                if item is not None:
                    unknown.append(name)
                continue
            plain, keep_empty, convert = slot
            printed = item if item.__class__ is plain else convert(item, previous, unknown)
            if printed or keep_empty:
                result[name] = printed
            else:
                del result[name]
        for name, nothing in self._always:
            if name not in result:
                result[name] = nothing()
        return result


_NOTHING: Json = {}
# Classes whose values need no conversion.
_PLAIN: dict[str, type] = {"string": str, "bool": bool}


def _zero(field: Field) -> Callable[[], Any] | None:
    """Return what Go prints for a missing field; None if it prints nothing."""
    kind = field.type.partition(":")[0]
    if field.omit == "zero":
        return None
    if field.pointer or kind.startswith(("[]", "{}")) or kind in {"any", "bytes"}:
        return None if field.omit else _null
    if is_struct(kind):
        return lambda: converter(kind)({}, None, [])
    if kind in {"time", "microtime"}:
        return _null
    if field.omit:
        return None
    zero = {"string": "", "bool": False, "quantity": "0"}.get(kind, 0)
    return lambda: zero


def _null() -> None:
    return None


def _list_of(item_type: str) -> Convert:
    convert = converter(item_type)
    plain = _PLAIN.get(item_type.partition(":")[0])
    absent = _absent_item(item_type)

    def of_list(value: Any, old: Any, unknown: list[str]) -> Any:
        if value.__class__ is not list:
            raise Misfit
        before = old if old.__class__ is list else ()
        count = len(before)
        result = []
        for index, item in enumerate(value):
            previous = before[index] if index < count else None
            if item is None:
                result.append(absent())
            elif item is previous or item.__class__ is plain:
                result.append(item)
            else:
                result.append(convert(item, previous, unknown))
        return result

    return of_list


def _map_of(item_type: str) -> Convert:
    convert = converter(item_type)
    plain = _PLAIN.get(item_type.partition(":")[0])
    absent = _absent_item(item_type)

    def of_map(value: Any, old: Any, unknown: list[str]) -> Any:
        if value.__class__ is not dict:
            raise Misfit
        before = old if old.__class__ is dict else _NOTHING
        result = {}
        for key, item in value.items():
            if item.__class__ is plain:
                result[key] = item
            elif item is None:
                result[key] = absent()
            else:
                result[key] = convert(item, before.get(key), unknown)
        return result

    return of_map


def _absent_item(item_type: str) -> Callable[[], Any]:
    return _zero(_parse(item_type)) or _null


def _string(value: Any, old: Any, unknown: list[str]) -> str:
    if value.__class__ is not str:
        raise Misfit
    return str(value)


def _bool(value: Any, old: Any, unknown: list[str]) -> bool:
    if value.__class__ is not bool:
        raise Misfit
    return bool(value)


def _int32(value: Any, old: Any, unknown: list[str]) -> int:
    if value.__class__ is not int or not _INT32_MIN <= value <= _INT32_MAX:
        raise Misfit
    return int(value)


def _int64(value: Any, old: Any, unknown: list[str]) -> int:
    if value.__class__ is not int or not INT64_MIN <= value <= INT64_MAX:
        raise Misfit
    return int(value)


def _float64(value: Any, old: Any, unknown: list[str]) -> float:
    if value.__class__ is int or value.__class__ is float:
        number: float = value
        return number
    raise Misfit


def _any(value: Any, old: Any, unknown: list[str]) -> Any:
    return value


def _int_or_string(value: Any, old: Any, unknown: list[str]) -> int | str:
    if value.__class__ is str:
        return str(value)
    return _int32(value, old, unknown)


def _quantity(value: Any, old: Any, unknown: list[str]) -> str:
    if value.__class__ is int or value.__class__ is float:
        value = str(value)
    if value.__class__ is not str:
        raise Misfit
    # What is stored has been converted before.
    if value == old:
        return str(value)
    try:
        return canonical(value)
    except ValueError:
        raise Misfit from None


def _bytes(value: Any, old: Any, unknown: list[str]) -> str:
    if value.__class__ is not str:
        raise Misfit
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Misfit from None
    return str(value)


def _time(value: Any, old: Any, unknown: list[str]) -> str:
    if value.__class__ is not str:
        raise Misfit
    # What is stored has been converted before.
    return str(value) if value == old else _canonical_time(value)


# Many fields have the time of the same write.
@lru_cache(1024)
def _canonical_time(value: str) -> str:
    if _TIME.fullmatch(value):
        return value
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        raise Misfit from None
    if instant.tzinfo is None:
        raise Misfit
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: Any, old: Any, unknown: list[str]) -> str:
    found = _MICRO_TIME.fullmatch(value) if value.__class__ is str else None
    if not found:
        raise Misfit
    if found[3] == "Z":
        return f"{found[1]}.{found[2][:6]}Z"
    instant = datetime.fromisoformat(f"{found[1]}.{found[2][:6]}{found[3]}")
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


LEAVES: dict[str, Convert] = {
    "string": _string,
    "bool": _bool,
    "int32": _int32,
    "int64": _int64,
    "int": _int64,
    "float64": _float64,
    "any": _any,
    "intorstring": _int_or_string,
    "quantity": _quantity,
    "bytes": _bytes,
    "time": _time,
    "microtime": _micro_time,
}


def unknown_fields(name: str, value: Any) -> list[str]:
    """Return the paths of fields that the struct does not have: `spec.foo`, `spec.containers[0].bar`."""
    return list(_unknown(name, value, ""))


def _unknown(kind: str, value: Any, path: str) -> Iterator[str]:
    if kind.startswith("[]") and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(kind[2:], item, f"{path}[{index}]")
    elif kind.startswith("{}") and isinstance(value, dict):
        for key, item in value.items():
            yield from _unknown(kind[2:], item, f"{path}.{key}")
    elif is_struct(kind) and isinstance(value, dict):
        fields = fields_of(kind)
        for key, item in value.items():
            here = f"{path}.{key}" if path else key
            if key in fields:
                yield from _unknown(fields[key].type, item, here)
            else:
                yield here
