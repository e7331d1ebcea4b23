"""The reference of custom resources: every field of every version, from the definitions that are installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from haulout.surfaces.registry import all_declarations, definition_of
from tools.reference.table import code, shown, table

Json = dict[str, Any]
HEAD = ("Field", "Type", "Default", "Meaning")
# Fields that every object has, which the documentation of Kubernetes describes.
LEFT_OUT = ("apiVersion", "kind", "metadata")


def lines() -> Iterator[str]:
    yield "# Custom resources"
    yield ""
    yield "Every field of the definitions that `haulout crds` prints. Made by `python -m tools.reference` from the same files."
    yield "An asterisk marks what is required where its parent is given."
    yield ""
    for surface in all_declarations():
        for name in surface.crds:
            yield from _kind(yaml.safe_load(definition_of(surface, name)), surface.name)


def _kind(crd: Json, surface: str) -> Iterator[str]:
    spec = crd["spec"]
    names = spec["names"]
    short = names.get("shortNames") or []
    yield f"## {names['kind']}"
    yield ""
    also = f", short {', '.join(map(code, short))}" if short else ""
    yield f"`{crd['metadata']['name']}`{also}; {spec['scope'].lower()}-scoped; surface `{surface}`."
    yield ""
    for version in spec["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        yield f"### {version['name']}"
        yield ""
        if schema.get("description"):
            yield " ".join(schema["description"].split())
            yield ""
        rows = [
            row for name in _own(schema) for row in _fields(schema["properties"][name], name, name in _required(schema))
        ]
        yield from table(HEAD, rows)


def _own(schema: Json) -> list[str]:
    return [name for name in schema["properties"] if name not in LEFT_OUT]


def _required(schema: Json) -> list[str]:
    return schema.get("required") or []


def _fields(schema: Json, path: str, required: bool) -> Iterator[tuple[str, ...]]:
    meaning = " ".join(str(schema.get("description", "")).split())
    yield f"{code(path)}{' *' if required else ''}", _type(schema), shown(schema.get("default")), meaning
    inner, below = schema, path
    while inner.get("items") or isinstance(inner.get("additionalProperties"), dict):
        is_list = bool(inner.get("items"))
        inner, below = (inner["items"], f"{below}[]") if is_list else (inner["additionalProperties"], f"{below}.NAME")
    for name, each in (inner.get("properties") or {}).items():
        yield from _fields(each, f"{below}.{name}", name in _required(inner))


def _type(schema: Json) -> str:
    if schema.get("enum"):
        return " or ".join(code(str(each)) for each in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "number or text"
    if schema.get("items"):
        return f"list of {_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    return str(schema.get("format") or schema.get("type") or "any")
