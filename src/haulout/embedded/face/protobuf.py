"""The decoder for Kubernetes' protobuf, which kubectl sends for types that it knows. Responses are never protobuf."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from haulout.embedded.interfaces import Json
from haulout.embedded.rules.fields import fields_of, inlined_structs, is_struct

PROTOBUF = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Raw = int | bytes


class Undecodable(ValueError):
    """The bytes are not a protobuf message of the expected type."""


def decode(type_name: str, data: bytes) -> Json:
    """Return the object in a protobuf envelope as it would be in JSON. `type_name` is a Go type of `fields`."""
    if not data.startswith(_MAGIC):
        raise Undecodable("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = dict(_members(data[len(_MAGIC) :]))
    meta = dict(_members(_bytes(envelope.get(1, b""))))
    obj = _message(type_name, _bytes(envelope.get(2, b"")))
    for number, name in ((1, "apiVersion"), (2, "kind")):
        if text := _bytes(meta.get(number, b"")).decode():
            obj[name] = text
    return obj


class _Field(NamedTuple):
    name: str
    type: str


@lru_cache(None)
def _numbered(type_name: str) -> dict[int, _Field]:
    """Return the fields by number. A field without a name is a message whose members are inlined."""
    found = {field.number: _Field(name, field.type) for name, field in fields_of(type_name).items() if field.number}
    return found | {number: _Field("", inner) for number, inner in inlined_structs(type_name).items()}


def _message(type_name: str, data: bytes) -> Json:
    result: Json = {}
    fields = _numbered(type_name)
    for number, raw in _members(data):
        field = fields.get(number)
        if field is None:
            continue
        if not field.name:
            result |= _message(field.type, _bytes(raw))
        elif field.type.startswith("[]"):
            result.setdefault(field.name, []).extend(_items(field.type[2:], raw))
        elif field.type.startswith("{}"):
            entry = dict(_members(_bytes(raw)))
            key = _bytes(entry.get(1, b"")).decode()
            result.setdefault(field.name, {})[key] = _value(field.type[2:], entry.get(2, b""))
        else:
            result[field.name] = _value(field.type, raw)
    return result


def _items(type_name: str, raw: Raw) -> Iterator[Any]:
    base = type_name.partition(":")[0]
    if base in {"int32", "int64", "int"} and isinstance(raw, bytes):
        at = 0
        while at < len(raw):
            number, at = _varint(raw, at)
            yield _signed(number)
    else:
        yield _value(type_name, raw)


def _value(type_name: str, raw: Raw) -> Any:
    base = type_name.partition(":")[0]
    match base:
        case "string":
            return _bytes(raw).decode()
        case "bool":
            return bool(raw)
        case "int32" | "int64" | "int":
            return _signed(raw) if isinstance(raw, int) else 0
        case "float64":
            return struct.unpack("<d", _bytes(raw))[0]
        case "bytes":
            return base64.b64encode(_bytes(raw)).decode()
        case "quantity":
            return _bytes(dict(_members(_bytes(raw))).get(1, b"0")).decode()
        case "intorstring":
            return _int_or_string(dict(_members(_bytes(raw))))
        case "time" | "microtime":
            return _time(dict(_members(_bytes(raw))), micro=base == "microtime")
        case "any":
            text = _bytes(dict(_members(_bytes(raw))).get(1, b"null"))
            return msgspec.json.decode(text)
    if is_struct(base):
        return _message(base, _bytes(raw))
    raise Undecodable(f"no way to read a {type_name}")


def _int_or_string(members: dict[int, Raw]) -> int | str:
    if members.get(1, 0) == 1:
        return _bytes(members.get(3, b"")).decode()
    number = members.get(2, 0)
    return _signed(number) if isinstance(number, int) else 0


def _time(members: dict[int, Raw], *, micro: bool) -> str | None:
    seconds, nanos = members.get(1), members.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        return None
    instant = _EPOCH + timedelta(seconds=_signed(seconds), microseconds=nanos // 1000)
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _bytes(raw: Raw) -> bytes:
    if isinstance(raw, int):
        raise Undecodable("a number stands where bytes should be")
    return raw


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def _members(data: bytes) -> Iterator[tuple[int, Raw]]:
    """Yield the members of a message with their numbers, undecoded."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value
            case 1:
                yield key >> 3, data[at : at + 8]
                at += 8
            case 2:
                length, at = _varint(data, at)
                if at + length > len(data):
                    raise Undecodable("unexpected EOF")
                yield key >> 3, data[at : at + length]
                at += length
            case 5:
                yield key >> 3, data[at : at + 4]
                at += 4
            case kind:
                raise Undecodable(f"wire type {kind} is not known")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Undecodable("unexpected EOF")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
