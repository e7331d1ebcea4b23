"""Objects of our kinds with one text, list or map that is far too large: one for each place in their definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from haulout.embedded import Json, Objects
from tests.build.free_texts import DEFINITIONS, definition
from tests.build.maintenances import DEFINITIONS as CRDS

MIB = 1 << 20
# As many short members as 1 MiB of JSON has.
MANY = 60_000
STRATEGY: Json = {"fixed": {}}
# The least that an object of each kind needs beside the large part.
LEAST: dict[str, Json] = {
    "NotifyMaintenance": {"nodeObject": "n0", "maintenanceID": "large", "maintenanceType": "planned"},
    "NodeMaintenance": {"nodeName": "n0"},
    "Skyhook": {"packages": {"base": {"version": "1.0.0", "image": "reg.test/base"}}},
    "NodeWright": {"packages": {"base": {"version": "1.0.0", "image": "reg.test/base"}}},
    "NodeMaintenanceSet": {"nodes": ["n0"]},
    "DeploymentPolicy": {"default": {"budget": {"count": 1}, "strategy": STRATEGY}},
    "NodeDisruptionBudget": {},
    "MaintenanceRecord": {"node": {"name": "n0"}, "surface": "profiles"},
    "PlatformInfo": {},
}


class Large(NamedTuple):
    """An object with one large part. `plural`: the name of its definition's file. `path`: where the part is. `form`: what it is."""

    plural: str
    kind: str
    path: str
    form: str
    object: Json


def schema_of(plural: str) -> Json:
    [version] = definition(plural)["spec"]["versions"]
    found: Json = version["schema"]["openAPIV3Schema"]
    return found


def accept_everything(objects: Objects, plurals: Iterable[str]) -> None:
    """Replace the definitions of kinds by some that accept any spec and status."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
    for plural in plurals:
        found = definition(plural)
        versions = [{**version, "schema": schema} for version in found["spec"]["versions"]]
        objects.patch(CRDS, "", found["metadata"]["name"], {"spec": {"versions": versions}})


def large_objects(plural: str) -> Iterator[Large]:
    """Yield an object for each text, list and map of a definition, in spec and status."""
    spec = definition(plural)["spec"]
    kind, version = spec["names"]["kind"], f"{spec['group']}/{spec['versions'][0]['name']}"
    schema = schema_of(plural)
    for part in ("spec", "status"):
        inner = schema["properties"].get(part)
        for number, (path, form, value) in enumerate(_values(inner, part) if inner else ()):
            least = {"spec": LEAST[kind]}
            body = {"apiVersion": version, "kind": kind, "metadata": {"name": f"{part}-{number}", "uid": f"u-{number}"}}
            yield Large(plural, kind, path, form, {**body, **least, part: _merged(least.get(part, {}), value)})


def _merged(least: Any, value: Any) -> Any:
    if isinstance(least, dict) and isinstance(value, dict):
        return {**least, **{name: _merged(least.get(name), each) for name, each in value.items()}}
    return value


def _values(schema: Json, path: str) -> Iterator[tuple[str, str, Any]]:
    """Yield each place below a schema with the value of the schema that has something large there, and only there."""
    if _is_text(schema):
        yield path, "text", "x" * MIB
    if schema.get("type") == "array":
        yield path, "items", [_example(schema["items"], number) for number in range(MANY)]
        yield from ((where, form, [value]) for where, form, value in _values(schema["items"], f"{path}[]"))
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        yield path, "keys", {f"k{number}": _example(more, number) for number in range(MANY)}
        yield path, "key", {"k" * MIB: _example(more, 0)}
        yield from ((where, form, {"base": value}) for where, form, value in _values(more, f"{path}{{}}"))
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        yield path, "unknown", {"x": "x" * MIB}
    required = {name: _example(each, 0) for name, each in _properties(schema) if name in schema.get("required", ())}
    for name, inner in _properties(schema):
        for where, form, value in _values(inner, f"{path}.{name}"):
            yield where, form, {**required, name: value}


def _properties(schema: Json) -> list[tuple[str, Json]]:
    return list((schema.get("properties") or {}).items())


def _is_text(schema: Json) -> bool:
    is_any = schema.get("x-kubernetes-int-or-string")
    is_text = schema.get("type") == "string" and "enum" not in schema and schema.get("format") != "date-time"
    return bool(is_any) or is_text


def _example(schema: Json, number: int) -> Any:
    """Return a short value of a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("format") == "date-time":
        return "2026-03-01T10:00:00Z"
    match schema.get("type"):
        case "integer":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return {
                name: _example(each, number) for name, each in _properties(schema) if name in schema.get("required", ())
            }
        case _:
            return f"v{number}"


ALL = [large for plural in DEFINITIONS for large in large_objects(plural)]
