"""Structural schemas of custom kinds: prune unknown fields, fill in defaults, check the rest.

No value is changed in place; a value without changes is returned as the same object. CEL rules are not evaluated.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Callable, Iterator
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from haulout.base.patch import same
from haulout.embedded.interfaces import Json
from haulout.embedded.rules.refusals import Problem, duplicate, missing, unsupported_value, wrong

# The types whose values need no check but that of their type, if their schema has only these two keywords.
_PLAIN_TYPES: dict[str, type] = {"boolean": bool, "integer": int, "string": str}
_PLAIN_SCHEMA = frozenset({"type", "description"})
TYPES = ("array", "boolean", "integer", "number", "object", "string")
_EMBEDDED = frozenset({"apiVersion", "kind", "metadata"})


def prune(schema: Json, value: Any, old: Any, path: str, unknown: list[str]) -> Any:
    if value is old:
        return value
    if isinstance(value, dict):
        return _prune_object(schema, value, old if isinstance(old, dict) else {}, path, unknown)
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        before = old if isinstance(old, list) else ()
        return [
            prune(items, item, before[index] if index < len(before) else None, f"{path}[{index}]", unknown)
            for index, item in enumerate(value)
        ]
    return value


def _prune_object(schema: Json, value: Json, old: Json, path: str, unknown: list[str]) -> Json:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    keeps = schema.get("x-kubernetes-preserve-unknown-fields") or others is True
    embedded = schema.get("x-kubernetes-embedded-resource")
    result = {}
    for name, item in value.items():
        here = f"{path}.{name}" if path else name
        inner = properties.get(name, others if isinstance(others, dict) else None)
        if item is None and inner is not None and not inner.get("nullable"):
            continue
        if inner is not None:
            result[name] = prune(inner, item, old.get(name), here, unknown)
        elif keeps or (embedded and name in _EMBEDDED):
            result[name] = item
        else:
            unknown.append(here)
    return result


def fill(schema: Json, value: Any) -> Any:
    """Return the value with the schema's defaults for missing fields."""
    if isinstance(value, dict):
        return _fill_object(schema, value)
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        filled = [fill(items, item) for item in value]
        return filled if any(new is not item for new, item in zip(filled, value, strict=True)) else value
    return value


def _fill_object(schema: Json, value: Json) -> Json:
    changed: Json = {}
    for name, inner in schema.get("properties", {}).items():
        if name in value:
            filled = fill(inner, value[name])
            if filled is not value[name]:
                changed[name] = filled
        elif "default" in inner:
            changed[name] = fill(inner, inner["default"])
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        known = schema.get("properties", {})
        for name, item in value.items():
            if name not in known and (filled := fill(others, item)) is not item:
                changed[name] = filled
    return {**value, **changed} if changed else value


def only_defaults(schema: Json) -> Json:
    """Return the parts of a schema that `fill` needs: the defaults and the schemas around them; `{}` if it has none."""
    reduced = {name: schema[name] for name in ("default",) if name in schema}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict) and (inner := only_defaults(schema[name])):
            reduced[name] = inner
    properties = {name: only_defaults(inner) for name, inner in schema.get("properties", {}).items()}
    # A property without defaults must stay where it would be filled by `additionalProperties` otherwise.
    if "additionalProperties" not in reduced:
        properties = {name: inner for name, inner in properties.items() if inner}
    return {**reduced, "properties": properties} if properties else reduced


def acceptor(schema: Json) -> Callable[[Any], bool]:
    """Return a quick test of values: `prune` keeps all of an accepted value, and `check` finds no problem in it.

    A value that is not accepted may have no problems, either. A schema with a keyword that the test does not know
    accepts nothing.
    """
    kind, known = schema.get("type"), schema.keys() <= _ACCEPTED_KEYWORDS
    items, others = schema.get("items"), schema.get("additionalProperties")
    if kind == "object" and known and (others is None or isinstance(others, dict)):
        return _object_acceptor(schema)
    if kind == "array" and known and isinstance(items, dict):
        return _list_acceptor(schema)
    if kind in {"boolean", "integer", "number", "string"}:
        return lambda value: value is not None and next(_check(schema, value, "", " "), None) is None
    return _accept_nothing


_ACCEPTED_KEYWORDS = frozenset(
    {
        *("type", "description", "default", "properties", "required", "additionalProperties", "items"),
        *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
    }
)
# The class of the values that need no test, and the test of all others.
_Part = tuple[type | None, Callable[[Any], bool]]


def _accept_nothing(value: Any) -> bool:
    return False


def _part(schema: Any) -> _Part:
    if not isinstance(schema, dict):
        return None, _accept_nothing
    plain = _PLAIN_TYPES.get(schema.get("type", "")) if schema.keys() <= _PLAIN_SCHEMA else None
    return plain, acceptor(schema)


def _object_acceptor(schema: Json) -> Callable[[Any], bool]:
    parts = {name: _part(inner) for name, inner in schema.get("properties", {}).items()}
    required, others = tuple(schema.get("required", ())), _part(schema.get("additionalProperties"))

    def accepts(value: Any) -> bool:
        if value.__class__ is not dict:
            return False
        for name in required:
            if name not in value:
                return False
        for name, item in value.items():
            plain, accepts_item = parts.get(name, others)
            if item.__class__ is not plain and not accepts_item(item):
                return False
        return True

    return accepts


def _list_acceptor(schema: Json) -> Callable[[Any], bool]:
    plain, accepts_item = _part(schema["items"])
    is_unique = schema.get("x-kubernetes-list-type") in {"set", "map"}

    def accepts(value: Any) -> bool:
        if value.__class__ is not list:
            return False
        for item in value:
            if item.__class__ is not plain and not accepts_item(item):
                return False
        return not is_unique or next(_duplicates(schema, value, ""), None) is None

    return accepts


def check(schema: Json, value: Any, field: str, place: str | None = None) -> list[Problem]:
    """Return the problems of the value at `field`. `place` is the name in messages, where that differs."""
    return list(_check(schema, value, field, field if place is None else place))


def _check(schema: Json, value: Any, field: str, place: str) -> Iterator[Problem]:
    if value is None and (schema.get("nullable") or place == ""):
        return
    kind = _kind(value)
    if problem := _type_problem(schema, value, kind, field, place):
        yield from problem
        return
    if "enum" in schema and not any(same(value, allowed) for allowed in schema["enum"]):
        yield unsupported_value(field, value, map(str, schema["enum"]))
    match kind:
        case "string":
            yield from _check_string(schema, value, field, place)
        case "integer" | "number":
            yield from _check_number(schema, value, field, place)
        case "array":
            yield from _check_list(schema, value, field, place)
        case "object":
            yield from _check_object(schema, value, field, place)
    yield from _check_alternatives(schema, value, place)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _type_problem(schema: Json, value: Any, kind: str, field: str, place: str) -> list[Problem]:
    wanted = "integer,string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
    if not wanted or kind in wanted.split(",") or (wanted == "number" and kind == "integer"):
        return []
    if kind == "number" and "integer" in wanted and float(value).is_integer():
        return []
    text = f'{place} in body must be of type {wanted}: "{kind}"'
    problems = [Problem("FieldValueTypeInvalid", field, f'Invalid value: "{kind}": {text}')]
    if kind == "number" and wanted == "integer":
        text = f"Checked value must be of type integer (default format) in {place}"
        problems.append(wrong("<nil>", "", text))
    return problems


def _check_string(schema: Json, value: str, field: str, place: str) -> Iterator[Problem]:
    if len(value) > schema.get("maxLength", len(value)):
        yield Problem("FieldValueTooLong", field, f"Too long: may not be more than {schema['maxLength']} bytes")
    elif len(value) < schema.get("minLength", 0):
        yield wrong(field, value, f"{place} in body should be at least {schema['minLength']} chars long")
    elif (pattern := schema.get("pattern")) and not _pattern(pattern).search(value):
        yield wrong(field, value, f"{place} in body should match '{pattern}'")
    if (name := schema.get("format")) in _FORMATS and not _FORMATS[name](value):
        text = f'{place} in body must be of type {name}: "{value}"'
        yield Problem("FieldValueTypeInvalid", field, f'Invalid value: "{value}": {text}')


def _check_number(schema: Json, value: float, field: str, place: str) -> Iterator[Problem]:
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    if lowest is not None:
        if schema.get("exclusiveMinimum") and value <= lowest:
            yield wrong(field, value, f"{place} in body should be greater than {_number(lowest)}")
        elif value < lowest:
            yield wrong(field, value, f"{place} in body should be greater than or equal to {_number(lowest)}")
    if highest is not None:
        if schema.get("exclusiveMaximum") and value >= highest:
            yield wrong(field, value, f"{place} in body should be less than {_number(highest)}")
        elif value > highest:
            yield wrong(field, value, f"{place} in body should be less than or equal to {_number(highest)}")
    if (step := schema.get("multipleOf")) and abs(value / step - round(value / step)) > 1e-9:
        yield wrong(field, value, f"{place} in body should be a multiple of {_number(step)}")
    if schema.get("format") == "int32" and not -(2**31) <= value < 2**31:
        yield wrong("<nil>", "", f"Checked value must be of type integer with format int32 in {place}")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _check_list(schema: Json, value: list[Any], field: str, place: str) -> Iterator[Problem]:
    most = schema.get("maxItems")
    if len(value) < schema.get("minItems", 0):
        yield wrong(field, len(value), f"{place} in body should have at least {schema['minItems']} items")
    if most is not None and len(value) > most:
        yield Problem("FieldValueTooMany", field, f"Too many: {len(value)}: must have at most {most} items")
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            if not _fits_plainly(items, item):
                yield from _check(items, item, f"{field}[{index}]", f"{place}[{index}]")
    if schema.get("x-kubernetes-list-type") in {"set", "map"}:
        yield from _duplicates(schema, value, field)


def _duplicates(schema: Json, value: list[Any], field: str) -> Iterator[Problem]:
    """Yield the items of a list that must be unique and are not."""
    seen: list[Any] = []
    unique = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys", ())
    for index, item in enumerate(value):
        identity = {key: item.get(key) for key in keys} if unique == "map" and isinstance(item, dict) else item
        if identity in seen:
            yield duplicate(f"{field}[{index}]", identity)
        seen.append(identity)


def _check_object(schema: Json, value: Json, field: str, place: str) -> Iterator[Problem]:
    for name in schema.get("required", ()):
        if name not in value:
            yield missing(f"{field}.{name}" if field else name)
    if len(value) < schema.get("minProperties", 0):
        yield wrong(field, len(value), f"{place} in body should have at least {schema['minProperties']} properties")
    most = schema.get("maxProperties")
    if most is not None and len(value) > most:
        yield Problem("FieldValueTooMany", field, f"Too many: {len(value)}: must have at most {most} items")
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        inner = properties.get(name, others if isinstance(others, dict) else None)
        if inner is not None and not _fits_plainly(inner, item):
            yield from _check(inner, item, _join(field, name), _join(place, name))


def _fits_plainly(schema: Json, value: Any) -> bool:
    """Whether the schema requires only a type, and the value has it. That holds for most values of most objects."""
    return value.__class__ is _PLAIN_TYPES.get(schema.get("type", "")) and schema.keys() <= _PLAIN_SCHEMA


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _check_alternatives(schema: Json, value: Any, place: str) -> Iterator[Problem]:
    def fits(inner: Json) -> bool:
        return next(_check(inner, value, "", place or " "), None) is None

    if "oneOf" in schema and (count := sum(map(fits, schema["oneOf"]))) != 1:
        found = f"Found {count} valid alternatives" if count else "Found none valid"
        yield wrong("<nil>", "", f'"{place}" must validate one and only one schema (oneOf). {found}')
    if "anyOf" in schema and not any(map(fits, schema["anyOf"])):
        yield wrong("<nil>", "", f'"{place}" must validate at least one schema (anyOf)')
    if "allOf" in schema and not all(map(fits, schema["allOf"])):
        yield wrong("<nil>", "", f'"{place}" must validate all the schemas (allOf)')
    if "not" in schema and fits(schema["not"]):
        yield wrong("<nil>", "", f'"{place}" must not validate the schema (not)')


@lru_cache(1024)
def _pattern(text: str) -> re.Pattern[str]:
    # In Go, $ matches only at the very end; in Python also before a last line break.
    return re.compile(text.replace(r"\z", r"\Z"))


def _reads(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def fits(value: str) -> bool:
        try:
            parse(value)
        except (ValueError, binascii.Error):
            return False
        return True

    return fits


# Many fields have the time of the same write.
@lru_cache(1024)
def _date_time(value: str) -> datetime:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", value):
        raise ValueError(value)
    return datetime.fromisoformat(value)


_FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _reads(_date_time),
    "date": _reads(date.fromisoformat),
    "uuid": _reads(uuid.UUID),
    "ipv4": _reads(ipaddress.IPv4Address),
    "ipv6": _reads(ipaddress.IPv6Address),
    "cidr": _reads(lambda value: ipaddress.ip_network(value, strict=False)),
    "byte": _reads(lambda value: base64.b64decode(value, validate=True)),
}


def structural_problems(schema: Json, path: str) -> list[Problem]:
    """Return what keeps a schema from being structural, for the mistakes that authors commonly make."""
    every = list(_nested(schema, path))
    lacking = [problem for inner, place in every for problem in _lacking(inner, place, root=inner is schema)]
    return lacking + [problem for inner, place in every for problem in _inconsistent(inner, place)]


def _nested(schema: Json, path: str) -> Iterator[tuple[Json, str]]:
    """Yield the schema and all schemas within it, with their paths."""
    yield schema, path
    for name, inner in schema.get("properties", {}).items():
        yield from _nested(inner, f"{path}.properties[{name}]")
    for member in ("items", "additionalProperties"):
        if isinstance(schema.get(member), dict):
            yield from _nested(schema[member], f"{path}.{member}")


def _lacking(schema: Json, path: str, *, root: bool) -> Iterator[Problem]:
    kind = schema.get("type", "")
    loose = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield missing(f"{path}.items", "must be specified")
    if root and not kind:
        yield missing(f"{path}.type", "must not be empty at the root")
    elif root and kind != "object":
        yield wrong(f"{path}.type", kind, "must be object at the root")
    elif not kind and not loose:
        yield missing(f"{path}.type", "must not be empty for specified object fields")


def _inconsistent(schema: Json, path: str) -> Iterator[Problem]:
    """Return the problems of one schema: an unknown type, an invalid pattern, a default that the schema refuses."""
    kind, pattern = schema.get("type", ""), schema.get("pattern")
    if kind and kind not in TYPES:
        yield unsupported_value(f"{path}.type", kind, TYPES)
    try:
        _pattern(pattern or "")
    except re.error as error:
        text = f"must be a valid regular expression, but isn't: error parsing regexp: {error}"
        yield wrong(f"{path}.pattern", pattern, text)
    else:
        if "default" in schema:
            yield from _check(schema, schema["default"], f"{path}.default", "")


def has_rules(schema: Any) -> bool:
    """Whether the schema has CEL rules anywhere."""
    if isinstance(schema, dict):
        return "x-kubernetes-validations" in schema or any(map(has_rules, schema.values()))
    return isinstance(schema, list) and any(map(has_rules, schema))
