"""A small validator of JSON schemas, with the keywords that our own schemas use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
KNOWN = frozenset(
    {
        *("$schema", "$defs", "$ref", "title", "description", "default", "type", "enum", "const", "pattern", "minimum"),
        *("maximum", "exclusiveMinimum", "required", "properties", "additionalProperties", "maxProperties", "items"),
        *("minItems", "maxItems", "anyOf", "allOf", "not", "if", "then"),
    }
)


def accepts(schema: Mapping[str, Any], value: Any, root: Mapping[str, Any] | None = None) -> bool:
    """Whether a value matches the schema. `root`: the schema in which references are looked up."""
    root = root or schema
    unknown = schema.keys() - KNOWN
    assert not unknown, f"the judge does not know {unknown}"
    if "$ref" in schema and not accepts(root["$defs"][schema["$ref"].rpartition("/")[2]], value, root):
        return False
    if "if" in schema and accepts(schema["if"], value, root) and not accepts(schema["then"], value, root):
        return False
    return (
        all(accepts(each, value, root) for each in schema.get("allOf", ()))
        and ("anyOf" not in schema or any(accepts(each, value, root) for each in schema["anyOf"]))
        and not ("not" in schema and accepts(schema["not"], value, root))
        and _is_of_type(schema, value)
        and _is_in_bounds(schema, value)
        and _has_right_parts(schema, value, root)
    )


def _is_of_type(schema: Mapping[str, Any], value: Any) -> bool:
    if "const" in schema and (value != schema["const"] or type(value) is not type(schema["const"])):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    kind = schema.get("type")
    if kind is None:
        return True
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _is_in_bounds(schema: Mapping[str, Any], value: Any) -> bool:
    if isinstance(value, str):
        return "pattern" not in schema or re.search(schema["pattern"], value) is not None
    if isinstance(value, int | float) and not isinstance(value, bool):
        least, most, above = (schema.get(key, value) for key in ("minimum", "maximum", "exclusiveMinimum"))
        return least <= value <= most and (above < value or "exclusiveMinimum" not in schema)
    return True


def _has_right_parts(schema: Mapping[str, Any], value: Any, root: Mapping[str, Any]) -> bool:
    if isinstance(value, list):
        fits = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        return fits and all(accepts(schema.get("items", {}), each, root) for each in value)
    if not isinstance(value, dict):
        return True
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    if not all(key in value for key in schema.get("required", ())) or len(value) > schema.get("maxProperties", 10**6):
        return False
    for key, each in value.items():
        if key not in known and others is False:
            return False
        if not accepts(known.get(key, others or {}), each, root):
            return False
    return True
