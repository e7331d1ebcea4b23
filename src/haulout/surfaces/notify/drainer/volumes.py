"""The rows of VolumeAttachments, by node."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from msgspec import Struct

from haulout.cluster.project import Resource
from haulout.cluster.rows import ObjectRow, Row
from haulout.cluster.store import Index
from haulout.model.meta import ObjectMeta

VOLUME_KIND = "VolumeAttachment"


class _Spec(Struct, frozen=True, rename="camel"):
    node_name: str = ""


class VolumeAttachment(Struct, frozen=True):
    """A VolumeAttachment (storage.k8s.io/v1), in part: only the node that it is about."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


class VolumeRow(ObjectRow, frozen=True, kw_only=True):
    """The row of a VolumeAttachment."""

    node: str = ""


def _project(obj: VolumeAttachment, common: dict[str, Any]) -> VolumeRow:
    return VolumeRow(**common, node=obj.spec.node_name)


RESOURCE = Resource(VOLUME_KIND, "/apis/storage.k8s.io/v1", "volumeattachments", False, VolumeAttachment, _project)


def _node_of(row: Row) -> tuple[Hashable, ...]:
    return (row.node,) if isinstance(row, VolumeRow) else ()


VOLUMES_OF_NODE = Index("volumes-of-node", VOLUME_KIND, _node_of)
