"""The API server's messages about values whose type does not fit their field."""

from __future__ import annotations

import re
from typing import Any

from haulout.base.quantity import canonical
from haulout.embedded.rules.fields import LEAVES, NO_BASE64, Misfit, fields_of, is_struct


def diagnose(name: str, value: Any) -> str:
    """Return Go's error message for the first value that does not fit its type."""
    return _misfit(name, value, "", "") or "the value does not fit its type"


def _misfit(kind: str, value: Any, owner: str, path: str) -> str:
    if value is None:
        return ""
    if kind.startswith("[]") and isinstance(value, list):
        return next((text for item in value if (text := _misfit(kind[2:], item, owner, path))), "")
    if kind.startswith("{}") and isinstance(value, dict):
        return next((text for item in value.values() if (text := _misfit(kind[2:], item, owner, path))), "")
    if is_struct(kind) and isinstance(value, dict):
        fields, struct = fields_of(kind), kind.rpartition(".")[2]
        for key, item in value.items():
            here = f"{path}.{key}" if path else key
            if key in fields and (text := _misfit(fields[key].type, item, struct, here)):
                return text
        return ""
    base = kind.partition(":")[0]
    if base in LEAVES:
        try:
            LEAVES[base](value, None, [])
        except Misfit:
            return _leaf_misfit(kind, value, owner, path)
        return ""
    return _unmarshal(kind, value, owner, path)


def _leaf_misfit(kind: str, value: Any, owner: str, path: str) -> str:
    base = kind.partition(":")[0]
    if isinstance(value, str):
        match base:
            case "quantity":
                return _complaint(value)
            case "time":
                return _unparsable(value, "2006-01-02T15:04:05Z07:00")
            case "microtime":
                return _unparsable(value, "2006-01-02T15:04:05.000000Z07:00")
            case "bytes":
                return f"illegal base64 data at input byte {_bad_byte(value)}"
    return _unmarshal(kind, value, owner, path)


def _bad_byte(value: str) -> int:
    """Return the offset of the first byte that is not base64, or of an incomplete group at the end."""
    found = NO_BASE64.search(value)
    if found is None:
        return len(value) - len(value) % 4
    at = found.start()
    if value[at] != "=" or at % 4 < 2:
        return at
    padding = 4 - at % 4
    return at + padding if value[at:].startswith("=" * padding) else at


def _complaint(value: str) -> str:
    try:
        canonical(value)
    except ValueError as error:
        return str(error)
    return ""


def _unparsable(value: str, layout: str) -> str:
    seconds = re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", value)
    rest, wanted = (value[19:], ".000000" if "." in layout else "Z07:00") if seconds else (value, "2006")
    return f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{wanted}"'


def _unmarshal(kind: str, value: Any, owner: str, path: str) -> str:
    match value:
        case bool():
            found = "bool"
        case str():
            found = "string"
        case int() | float():
            found = f"number {value}" if _go_type(kind).startswith("int") else "number"
        case list():
            found = "array"
        case _:
            found = "object"
    place = f" Go struct field {owner}.{path} of type" if owner else " Go value of type"
    return f"json: cannot unmarshal {found} into{place} {_go_type(kind)}"


def _go_type(kind: str) -> str:
    if kind.startswith("[]"):
        return "[]" + _go_type(kind[2:])
    if kind.startswith("{}"):
        return "map[string]" + _go_type(kind[2:])
    base, _, named = kind.partition(":")
    if named:
        return named
    leaf = {
        "time": "time.Time",
        "microtime": "time.Time",
        "intorstring": "int32",
        "quantity": "resource.Quantity",
        "bytes": "[]uint8",
    }
    if is_struct(base):
        return f"v1.{base.rpartition('.')[2]}"
    return leaf.get(base, base)
