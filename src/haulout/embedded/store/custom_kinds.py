"""Kinds of the embedded API server that are made from CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from haulout.embedded.interfaces import Json
from haulout.embedded.rules import fields, refusals, schemas
from haulout.embedded.rules.refusals import Problem, wrong
from haulout.embedded.store.kinds import Column, Decode, Kind, Select, parts_differ, path_selector
from haulout.embedded.store.versions import rank

_META = "meta.ObjectMeta"
_ENVELOPE = frozenset({"apiVersion", "kind", "metadata"})
_AGE = Column("Age", "date", path=".metadata.creationTimestamp")


def custom_kind(spec: Json, version: Json) -> Kind:
    group, names = spec["group"], spec["names"]
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    parts = version.get("subresources") or {}
    has_status = "status" in parts
    own, api = version["name"], f"{group}/{version['name']}"
    storage = next(each["name"] for each in spec["versions"] if each["storage"])
    stored_api = f"{group}/{storage}"

    def to_wire(obj: Json) -> Json:
        return obj if obj["apiVersion"] == api else {**obj, "apiVersion": api}

    def to_stored(obj: Json) -> Json:
        return obj if obj["apiVersion"] == stored_api else {**obj, "apiVersion": stored_api}

    defaults = schemas.only_defaults(schema)

    def default(obj: Json, old: Json | None) -> None:
        if not defaults:
            return
        filled = schemas.fill(defaults, obj)
        if filled is not obj:
            obj.update(filled)

    part_schemas: Json = schema.get("properties", {})
    # Most written parts have nothing to prune and no problems. A quick test tells.
    acceptors = {name: schemas.acceptor(inner) for name, inner in part_schemas.items()}
    scale = parts.get("scale") or {}

    def check(obj: Json) -> list[Problem]:
        return schemas.check(schema, obj, "") + _check_scale(scale, obj, "specReplicasPath")

    def check_status(obj: Json, old: Json) -> list[Problem]:
        inner, problems = part_schemas.get("status"), list[Problem]()
        if inner and "status" in obj and not acceptors["status"](obj["status"]):
            problems = schemas.check(inner, obj["status"], "status", "")
        return problems + _check_scale(scale, obj, "statusReplicasPath")

    def prepare(obj: Json) -> None:
        if has_status:
            obj.pop("status", None)

    return Kind(
        group=group,
        version=own,
        plural=names["plural"],
        kind=names["kind"],
        singular=names.get("singular", ""),
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        decode=_decoder(schema, acceptors, names["kind"], api),
        has_status=has_status,
        has_scale="scale" in parts,
        default=default,
        prepare=prepare,
        check=check,
        recheck_status=check_status,
        respecified=_respecified(("metadata", "status") if has_status else ("metadata",)),
        selectable=_selectable(version),
        unconditional_update=False,
        to_wire=to_wire,
        to_stored=to_stored,
        verbs=("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"),
        columns=_columns(version),
        custom=True,
        schema=schema,
        deprecation=_deprecation(spec, version),
    )


def _deprecation(spec: Json, version: Json) -> str:
    if not version.get("deprecated"):
        return ""
    if warning := version.get("deprecationWarning"):
        return str(warning)
    group, kind = spec["group"], spec["names"]["kind"]
    text = f"{group}/{version['name']} {kind} is deprecated"
    better = [each["name"] for each in spec["versions"] if each["served"] and not each.get("deprecated")]
    better = [name for name in better if rank(name) < rank(version["name"])]
    return f"{text}; use {group}/{min(better, key=rank)} {kind}" if better else text


def _check_scale(scale: Json, obj: Json, member: str) -> list[Problem]:
    """Check that the replicas of a scale are an integer, whatever the schema says."""
    path = scale.get(member, "")
    value: Any = obj
    for step in filter(None, path.split(".")):
        if not isinstance(value, dict):
            text = f"{path} accessor error: {value} is of the type {_go_type(value)}, expected map[string]interface{{}}"
            return [wrong(path, 0, text)]
        value = value.get(step)
        if value is None:
            return []
    if not path or (isinstance(value, int) and not isinstance(value, bool)):
        return []
    printed = f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else value
    return [wrong(path, 0, f"{path} accessor error: {printed} is of the type {_go_type(value)}, expected int64")]


def _go_type(value: Any) -> str:
    names: dict[type, str] = {str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")


def _decoder(schema: Json, acceptors: dict[str, Callable[[Any], bool]], kind: str, api: str) -> Decode:
    meta_of = fields.converter(_META)

    def is_clean(name: str, part: Any, before: Json) -> bool:
        accepts = acceptors.get(name)
        return accepts is not None and ((part is not None and part is before.get(name)) or accepts(part))

    def decode(value: Any, old: Json | None, unknown: list[str]) -> Json:
        if not isinstance(value, dict):
            raise refusals.bad_request(f"the object provided is unrecognized (must be of type {kind})")
        before = old or {}
        rest = {name: item for name, item in value.items() if name not in _ENVELOPE}
        result: Json = {"apiVersion": api, "kind": kind, "metadata": value.get("metadata")}
        if result["metadata"] is None or result["metadata"] is not before.get("metadata"):
            found: list[str] = []
            result["metadata"] = meta_of(result["metadata"], before.get("metadata"), found)
            unknown += [f"metadata.{name}" for name in found]
        # A new object is copied by `prune`: it may belong to a caller that goes on to change it.
        if old is None or not all(is_clean(name, part, old) for name, part in rest.items()):
            rest = schemas.prune(schema, rest, before, "", unknown)
        result |= rest
        return result

    return decode


def _respecified(ignored: tuple[str, ...]) -> Callable[[Json, Json], bool]:
    skipped = frozenset({*ignored, "apiVersion", "kind"})
    return lambda obj, old: parts_differ(obj, old, skipped)


def _selectable(version: Json) -> dict[str, Select]:
    chosen: dict[str, Select] = {
        "metadata.name": path_selector("metadata", "name"),
        "metadata.namespace": path_selector("metadata", "namespace"),
    }
    for field in version.get("selectableFields", ()):
        steps = field["jsonPath"].strip(".").split(".")
        chosen[".".join(steps)] = path_selector(*steps)
    return chosen


def _columns(version: Json) -> tuple[Column, ...]:
    columns = version.get("additionalPrinterColumns")
    if not columns:
        return (_AGE,)
    return tuple(
        Column(
            each["name"],
            each["type"],
            each.get("format", ""),
            each.get("description", ""),
            each.get("priority", 0),
            each["jsonPath"],
        )
        for each in columns
    )
