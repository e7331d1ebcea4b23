"""/openapi/v3, as far as kubectl needs it to have the server validate objects, to compute patches and explain fields.

/openapi/v2 is served without any types. kubectl downloads it, only as protobuf, for a kind that is not in v3. It finds
no schema there, and then reports that the kind does not exist.
"""

from __future__ import annotations

from typing import Any

from haulout.embedded.face.discovery import versions
from haulout.embedded.interfaces import Json
from haulout.embedded.rules.fields import Field, fields_of, is_struct
from haulout.embedded.store.kinds import Catalog, Kind

_LEAVES: dict[str, Json] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "int": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "intorstring": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "any": {"type": "object"},
}
_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]

TITLE, VERSION = "Haulout embedded cluster", "unversioned"
# Clients request a media type with an @ in it, which the type of a response must not have.
V2_ACCEPTED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
V2_PROTOBUF = V2_ACCEPTED.replace("@", ".")
V2: Json = {"swagger": "2.0", "info": {"title": TITLE, "version": VERSION}, "paths": {}, "definitions": {}}


def v2_protobuf() -> bytes:
    """Return `V2` as the message openapi.v2.Document."""
    info = _text(1, TITLE.encode()) + _text(2, VERSION.encode())
    return _text(1, b"2.0") + _text(2, info) + _text(8, b"") + _text(9, b"")


def _text(number: int, value: bytes) -> bytes:
    """Return a field of a protobuf message, of at most 127 bytes."""
    return bytes((number << 3 | 2, len(value))) + value


def index(catalog: Catalog) -> Json:
    paths = {}
    for group, known in versions(catalog).items():
        for version in known:
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={catalog.edition}"}
    return {"paths": paths}


def document(catalog: Catalog, group: str, version: str) -> Json | None:
    if version not in versions(catalog).get(group, ()):
        return None
    paths: Json = {}
    schemas: dict[str, Json] = {}
    for kind in catalog:
        if (kind.group, kind.version) == (group, version):
            name = _describe(kind, schemas)
            paths |= _paths(kind, name)
    return {
        "openapi": "3.0.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _paths(kind: Kind, name: str) -> Json:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    collection = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
    known = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    answer = {"200": {"description": "OK", "content": {"application/json": {"schema": _reference(name)}}}}

    def operation(action: str) -> Json:
        return {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": known,
            "parameters": _PARAMETERS,
            "responses": answer,
        }

    return {
        collection: {"get": operation("list"), "post": operation("post")},
        f"{collection}/{{name}}": {
            "get": operation("get"),
            "put": operation("put"),
            "patch": operation("patch"),
            "delete": operation("delete"),
        },
    }


def _describe(kind: Kind, schemas: dict[str, Json]) -> str:
    """Add the schema of a kind and of every type that it refers to. Return its name."""
    known = [{"group": kind.group, "version": kind.version, "kind": kind.kind}]
    if kind.custom:
        name = ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])
        meta = _struct("meta.ObjectMeta", schemas)
        members = {**kind.schema.get("properties", {}), "metadata": {"allOf": [_reference(meta)]}}
        members |= {member: {"type": "string"} for member in ("apiVersion", "kind")}
        schemas[name] = {**kind.schema, "properties": members, "x-kubernetes-group-version-kind": known}
        return name
    name = _struct(kind.type, schemas)
    schemas[name] = {**schemas[name], "x-kubernetes-group-version-kind": known}
    return name


def _struct(type_name: str, schemas: dict[str, Json]) -> str:
    package, _, bare = type_name.rpartition(".")
    name = f"io.k8s.api.{package or 'core'}.v1.{bare}"
    if name not in schemas:
        schemas[name] = {"type": "object"}
        members = {member: _member(field, schemas) for member, field in fields_of(type_name).items()}
        if members:
            schemas[name]["properties"] = members
    return name


def _member(field: Field, schemas: dict[str, Json]) -> Json:
    schema = dict(_schema(field.type, schemas))
    if field.merge_key is not None:
        schema["x-kubernetes-patch-strategy"] = "merge,retainKeys" if field.retain else "merge"
        if field.merge_key:
            schema["x-kubernetes-patch-merge-key"] = field.merge_key
    return schema


def _schema(type_name: str, schemas: dict[str, Json]) -> Json:
    if type_name.startswith("[]"):
        return {"type": "array", "items": _schema(type_name[2:], schemas)}
    if type_name.startswith("{}"):
        return {"type": "object", "additionalProperties": _schema(type_name[2:], schemas)}
    base = type_name.partition(":")[0]
    if is_struct(base):
        return {"allOf": [_reference(_struct(base, schemas))]}
    return _LEAVES[base]


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}
