"""ConfigMaps that the original has made for NodeWrights alone: they get the labels of skyhook, too, by which they are watched."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import lru_cache
from typing import Any

from haulout.base.bounds import LARGE
from haulout.cluster.project import Resource, within
from haulout.cluster.rows import ObjectRow, Row
from haulout.cluster.store import Index
from haulout.cluster.view import View
from haulout.core.action import Patch
from haulout.model.meta import PartialObject
from haulout.surfaces.packages.groups import NODEWRIGHT
from haulout.surfaces.packages.wire import NAME, NODE_META, NODE_NAME

NEW_CONFIG, NEW_METADATA = "NodeWrightConfigMap", "NodeWrightMetadataConfigMap"
Texts = tuple[tuple[str, str], ...]


class UnlabelledRow(ObjectRow, frozen=True, kw_only=True):
    """The row of a ConfigMap that has the labels of NodeWrights alone.

    `unit`, `node`: what it belongs to. `missing_labels`, `missing_annotations`: those that it gets.
    """

    unit: str = ""
    node: str = ""
    missing_labels: Texts = ()
    missing_annotations: Texts = ()


def _project(obj: PartialObject, common: dict[str, Any]) -> UnlabelledRow:
    labels, annotations = (
        {NODEWRIGHT.inner(name): value for name, value in values.items() if name.startswith(NODEWRIGHT.prefix)}
        for values in (obj.metadata.labels, obj.metadata.annotations)
    )
    if any(name in obj.metadata.labels for name in (NAME, NODE_META)):
        # The answer to the patch, which comes before the watch says that the selector does not match any more.
        return UnlabelledRow(**common)
    return UnlabelledRow(
        **common,
        unit=labels.get(NAME, "") or labels.get(NODE_META, ""),
        node=annotations.get(NODE_NAME, ""),
        missing_labels=tuple(sorted(labels.items())),
        missing_annotations=tuple(sorted(annotations.items())),
    )


def _resource(kind: str, label: str) -> Resource:
    selector = f"{NODEWRIGHT.named(label)},!{label}"
    return Resource(kind, "/api/v1", "configmaps", True, PartialObject, _project, labels=selector, bounds=LARGE)


UNLABELLED_RESOURCES = (_resource(NEW_CONFIG, NAME), _resource(NEW_METADATA, NODE_META))


def _unit_of(row: Row) -> Iterable[Hashable]:
    return (row.unit,) if isinstance(row, UnlabelledRow) and row.unit else ()


def _node_of(row: Row) -> Iterable[Hashable]:
    return (row.node,) if isinstance(row, UnlabelledRow) and row.node else ()


@lru_cache(maxsize=8)
def _of_unit(namespace: str) -> Index:
    return Index("unlabelled-configs-of-unit", within(NEW_CONFIG, namespace), _unit_of)


@lru_cache(maxsize=8)
def _of_node(namespace: str) -> Index:
    return Index("unlabelled-metadata-of-node", within(NEW_METADATA, namespace), _node_of)


def labelled_configs(view: View, namespace: str, unit: str) -> tuple[Patch, ...]:
    """Return the patches that give the ConfigMaps of a unit's packages the labels by which they are watched."""
    return tuple(map(_patch, view.rows(_of_unit(namespace), unit, UnlabelledRow)))


def labelled_metadata(view: View, namespace: str, node: str) -> tuple[Patch, ...]:
    """Return the patches that give the metadata ConfigMaps of a node the labels by which they are watched."""
    return tuple(map(_patch, view.rows(_of_node(namespace), node, UnlabelledRow)))


def _patch(row: UnlabelledRow) -> Patch:
    metadata = {"labels": dict(row.missing_labels), "annotations": dict(row.missing_annotations)}
    return Patch(row.key, {"metadata": metadata})
