"""Writes the types of the console's page, web/src/api/schema.ts, from the schemas of the description of its API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

HEAD = "/** The forms of the HTTP API. Written by `python -m tools.openapi` from the description of the API. */\n"
SCALARS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def typescript(schemas: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a module with a type for each schema."""
    return "\n".join([HEAD, *(_declared(name, schema) for name, schema in sorted(schemas.items()))])


def _declared(name: str, schema: Mapping[str, Any]) -> str:
    comment = _comment(schema.get("description", ""))
    if "properties" not in schema:
        return f"{comment}export type {name} = {_type(schema)};\n"
    required = schema.get("required", [])
    lines = [
        f"  {json.dumps(field) if not field.isidentifier() else field}{'' if field in required else '?'}: {_type(each)};"
        for field, each in schema["properties"].items()
    ]
    return "\n".join([f"{comment}export interface {name} {{", *lines, "}", ""])


def _comment(text: str) -> str:
    lines = [line.rstrip().replace("*/", "* /") for line in text.splitlines()]
    if len(lines) <= 1:
        return f"/** {lines[0]} */\n" if lines else ""
    return "\n".join(["/**", *(f" * {line}".rstrip() for line in lines), " */", ""])


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    match schema.get("type"):
        case "array":
            item = _type(schema.get("items", {}))
            return f"({item})[]" if "|" in item else f"{item}[]"
        case "object":
            more = schema.get("additionalProperties", {})
            return f"Record<string, {_type(more) if isinstance(more, dict) else 'unknown'}>"
        case str() as scalar:
            return SCALARS[scalar]
        case list() as several:
            return " | ".join(SCALARS[each] for each in several)
        case _:
            return "unknown"
