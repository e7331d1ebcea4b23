"""Checks the objects of a manifest without a cluster: by the schemas of their definitions, then by the rules of surfaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache

import msgspec

from haulout import embedded
from haulout.base import yaml
from haulout.base.yaml import Mapping, Node, Place
from haulout.core.surface import ObjectProblem
from haulout.kube.errors import ApiError
from haulout.surfaces.registry import all_declarations, definition_of, load

_STEP = re.compile(r"[^.\[\]]+")
START = Place(1, 1)


class Definition(msgspec.Struct, frozen=True):
    """A custom resource of ours, as its CustomResourceDefinition names it."""

    group: str
    kind: str
    plural: str
    is_namespaced: bool
    versions: tuple[str, ...]


class PlacedProblem(msgspec.Struct, frozen=True):
    """A problem of an object, with its place in the file. `rule`: `schema`, or `rule` for one of a surface."""

    place: Place
    path: str
    what: str
    is_error: bool
    rule: str


@cache
def definitions() -> dict[tuple[str, str], Definition]:
    """Return the custom resources of all surfaces, by group and kind."""
    found = [yaml.load(definition_of(each, crd))["spec"] for each in all_declarations() for crd in each.crds]
    return {
        (spec["group"], spec["names"]["kind"]): Definition(
            group=spec["group"],
            kind=spec["names"]["kind"],
            plural=spec["names"]["plural"],
            is_namespaced=spec["scope"] == "Namespaced",
            versions=tuple(each["name"] for each in spec["versions"]),
        )
        for spec in found
    }


def definition_of_object(document: Node) -> Definition | None:
    """Return the definition of the kind of an object; None if its kind is not one of ours."""
    version, kind = _word(document, "apiVersion"), _word(document, "kind")
    return definitions().get((version.rpartition("/")[0], kind))


def is_object(document: Node) -> bool:
    """Whether a document is a Kubernetes object of any kind."""
    return bool(_word(document, "apiVersion") and _word(document, "kind"))


def _word(document: Node, name: str) -> str:
    entry = document.entries.get(name) if isinstance(document, Mapping) else None
    return entry.value if isinstance(entry, yaml.Scalar) and isinstance(entry.value, str) else ""


def objects_of(data: bytes) -> list[Node]:
    """Return the Kubernetes objects of a file, with those of a List one by one; none if the file is not a manifest."""
    try:
        documents = yaml.parse_all(data)
    except yaml.YamlError:
        return []
    found: list[Node] = []
    for document in documents:
        if isinstance(document, yaml.Scalar) and document.value is None:
            continue  # Between two separators there is a comment at most.
        if not is_object(document):
            return []
        items = yaml.node_at(document, ("items",)) if _word(document, "kind") == "List" else None
        found += items.items if isinstance(items, yaml.Sequence) else [document]
    return found


def object_problems(document: Node, definition: Definition) -> Iterator[PlacedProblem]:
    """Yield what is wrong with an object of ours. Rules of surfaces are asked only if the object fits its schema."""
    faults = list(_schema_problems(document, definition))
    yield from (_placed(document, each, "schema") for each in faults)
    if not any(each.is_error for each in faults):
        yield from (_placed(document, each, "rule") for each in _rule_problems(document, definition))


def _schema_problems(document: Node, definition: Definition) -> Iterator[ObjectProblem]:
    version = _word(document, "apiVersion").rpartition("/")[2]
    if version not in definition.versions:
        known = ", ".join(definition.versions)
        yield ObjectProblem(f"{definition.kind} has no version {version!r} (there are: {known})", ("apiVersion",))
        return
    content = yaml.plain(document)
    meta = content.get("metadata")
    if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
        yield ObjectProblem("the object has no name", ("metadata",))
        return
    # The namespace need not exist here, and an object is looked at by itself.
    meta = {**meta, "namespace": "default"} if definition.is_namespaced else {**meta}
    server, unknown = _server(), list[str]()
    resource = embedded.Resource(definition.group, version, definition.plural)
    draft = {**content, "metadata": meta}
    try:
        kind = server.kind(resource)
        server.registry.finish(kind, server.begin(kind, meta.get("namespace", ""), draft, unknown))
    except ApiError as error:
        yield from _refusals(error)
    yield from (ObjectProblem("there is no such field", tuple(_STEP.findall(path))) for path in sorted(unknown))


def _refusals(error: ApiError) -> Iterator[ObjectProblem]:
    causes = error.status.details.causes if error.status.details else ()
    if not causes:
        yield ObjectProblem(str(error), ())
    for cause in causes:
        path = "" if cause.field == "<nil>" else cause.field
        yield ObjectProblem(cause.message, tuple(_STEP.findall(path)))


def _rule_problems(document: Node, definition: Definition) -> Iterator[ObjectProblem]:
    content = yaml.plain(document)
    for each in (lint for surface in all_declarations() for lint in surface.object_lint):
        if (each.group, each.kind) == (definition.group, definition.kind):
            yield from load(each.check)(content["metadata"].get("name", ""), content.get("spec") or {})


def _placed(document: Node, problem: ObjectProblem, rule: str) -> PlacedProblem:
    place = yaml.place_of(document, problem.path) or START
    return PlacedProblem(place, ".".join(problem.path), problem.what, problem.is_error, rule)


@cache
def _server() -> embedded.Server:
    """Return an API server in memory that serves the definitions of all surfaces. Nothing else is stored in it."""
    server = embedded.Server(embedded.VirtualTimers(datetime(2026, 1, 1, tzinfo=UTC)), brief=True)
    for each in all_declarations():
        for crd in each.crds:
            server.create(embedded.CUSTOM_RESOURCE_DEFINITIONS, yaml.load(definition_of(each, crd)))
    return server
