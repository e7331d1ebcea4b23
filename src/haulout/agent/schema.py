"""The schema of config.json, version v1, and a validator for the few keywords that it uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SEMVER = (
    r"^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)"
    r"(?:-((?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(?:[.](?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:[+]([0-9a-zA-Z-]+(?:[.][0-9a-zA-Z-]+)*))?$"
)
STEP_MODES = (
    "apply",
    "apply-check",
    "config",
    "config-check",
    "post-interrupt",
    "post-interrupt-check",
    "uninstall",
    "uninstall-check",
    "upgrade",
    "upgrade-check",
)
STRING = {"type": "string"}
BOOLEAN = {"type": "boolean"}
STEP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": r"^[a-zA-Z0-9_\-.]+$"},
        "path": STRING,
        "arguments": {"type": "array", "items": STRING},
        "returncodes": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
        "on_host": BOOLEAN,
        "env": {"type": "object", "values": STRING},
        "idempotence": BOOLEAN,
        "upgrade_step": BOOLEAN,
    },
    "required": ("name", "path", "arguments", "returncodes", "on_host", "idempotence", "upgrade_step"),
}
PACKAGE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "schema_version": STRING,
        "package_name": STRING,
        "package_version": {"type": "string", "pattern": SEMVER},
        "expected_config_files": {"type": "array", "items": STRING},
        "modes": {
            "type": "object",
            "properties": {mode: {"type": "array", "items": STEP} for mode in STEP_MODES},
        },
    },
    "required": ("schema_version", "package_name", "package_version", "expected_config_files", "modes"),
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A place in a document where it breaks the schema."""

    message: str
    path: tuple[str | int, ...]


def violation(document: Any) -> Violation | None:
    """Return the first of the shallowest violations of the v1 schema."""
    return min(_violations(document, PACKAGE, ()), key=lambda found: len(found.path), default=None)


def _has_type(value: Any, name: str) -> bool:
    match name:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case _:
            is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return is_whole and not isinstance(value, bool)


def _violations(value: Any, schema: Mapping[str, Any], path: tuple[str | int, ...]) -> Iterator[Violation]:
    """Yield every violation, in the order of the schema's keywords."""
    if not _has_type(value, schema["type"]):
        # The values of `env` are for the step alone and are never printed.
        value_text = "a value of env" if "env" in path[:-1] else repr(value)
        yield Violation(f"{value_text} is not of type {schema['type']!r}", path)
        return
    if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        yield Violation(f"{value!r} does not match {schema['pattern']!r}", path)
    for name, inner in schema.get("properties", {}).items():
        if name in value:
            yield from _violations(value[name], inner, (*path, name))
    for name in value if "values" in schema else ():
        yield from _violations(value[name], schema["values"], (*path, name))
    for place, each in enumerate(value if "items" in schema else ()):
        yield from _violations(each, schema["items"], (*path, place))
    if "minItems" in schema and len(value) < schema["minItems"]:
        yield Violation(f"{value!r} should be non-empty", path)
    for name in schema.get("required", ()):
        if name not in value:
            yield Violation(f"{name!r} is a required property", path)
