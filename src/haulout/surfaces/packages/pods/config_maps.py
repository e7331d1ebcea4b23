"""The ConfigMaps of packages and of node metadata: their rows, and the objects to create."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from haulout.base.bounds import LARGE
from haulout.cluster.key import Key
from haulout.cluster.project import Resource, within
from haulout.cluster.rows import NodeRow, ObjectRow, Row
from haulout.cluster.store import Index
from haulout.model.meta import ObjectMeta
from haulout.surfaces.packages.entries.entry import go_json
from haulout.surfaces.packages.pods import names
from haulout.surfaces.packages.pods.bodies import PodPlace, in_groups, owner_of
from haulout.surfaces.packages.pods.owners import owner_uid
from haulout.surfaces.packages.wire import (
    NAME,
    NODE_META,
    NODE_NAME,
    PACKAGE_NAME,
    PACKAGE_VERSION,
    Interrupt,
    Package,
)

# Only ConfigMaps in the packages' own namespace are watched, because a tenant can put any label on a ConfigMap.
PACKAGE_CONFIG, NODE_METADATA = "PackageConfigMap", "NodeMetadataConfigMap"
# The keys of a metadata ConfigMap, which packages see as files.
ANNOTATIONS, LABELS, PACKAGES = "annotations.json", "labels.json", "packages.json"
# An annotation on a package's ConfigMap: its data is about to change, and nodes go back to `config` before it does.
CHANGING = "haulout.dev/config-change"
KEPT_ANNOTATIONS = frozenset({NAME, PACKAGE_NAME, PACKAGE_VERSION, CHANGING})


class ConfigMap(Struct, frozen=True):
    """A ConfigMap (core v1) without binary data."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class PackageConfigRow(ObjectRow, frozen=True, kw_only=True):
    """The row of the ConfigMap of one package version.

    `is_changing`: its data is about to change. `owner`: the UID of the object that owns it.
    """

    skyhook: str = ""
    package: str = ""
    package_version: str = ""
    data: Mapping[str, str] = {}
    is_changing: bool = False
    owner: str = ""


class MetadataRow(ObjectRow, frozen=True, kw_only=True):
    """The row of the ConfigMap with a node's metadata for one Skyhook.

    `packages`: the digest of the packages. `host`: the digest of the node's labels and annotations.
    `owner`: the UID of the object that owns it.
    """

    node: str = ""
    skyhook: str = ""
    packages: str = ""
    host: str = ""
    owner: str = ""

    def is_of(self, skyhook: str, node: str) -> bool:
        """Whether it is that of this Skyhook and node, and not one of another that has the same name."""
        return self.skyhook == skyhook and self.node in ("", node)


def _package_config(obj: ConfigMap, common: dict[str, Any]) -> PackageConfigRow:
    annotations = obj.metadata.annotations
    return PackageConfigRow(
        **common,
        skyhook=obj.metadata.labels.get(NAME, ""),
        package=annotations.get(PACKAGE_NAME, ""),
        package_version=annotations.get(PACKAGE_VERSION, ""),
        data=obj.data,
        is_changing=CHANGING in annotations,
        owner=owner_uid(obj.metadata),
    )


def _metadata(obj: ConfigMap, common: dict[str, Any]) -> MetadataRow:
    return MetadataRow(
        **common,
        node=obj.metadata.annotations.get(NODE_NAME, ""),
        skyhook=obj.metadata.labels.get(NODE_META, ""),
        packages=digest(obj.data.get(PACKAGES, "")),
        host=host_digest(obj.data),
        owner=owner_uid(obj.metadata),
    )


PACKAGE_CONFIG_RESOURCE = Resource(
    PACKAGE_CONFIG, "/api/v1", "configmaps", True, ConfigMap, _package_config, labels=NAME, bounds=LARGE
)
METADATA_RESOURCE = Resource(
    NODE_METADATA, "/api/v1", "configmaps", True, ConfigMap, _metadata, labels=NODE_META, bounds=LARGE
)


def _skyhook_of(row: Row) -> Iterable[Hashable]:
    return (row.skyhook,) if isinstance(row, PackageConfigRow) else ()


def _node_of(row: Row) -> Iterable[Hashable]:
    return (row.node,) if isinstance(row, MetadataRow) and row.node else ()


@lru_cache(maxsize=8)
def configs_of_skyhook(namespace: str) -> Index:
    return Index("package-configs-of-skyhook", within(PACKAGE_CONFIG, namespace), _skyhook_of)


@lru_cache(maxsize=8)
def metadata_of_node(namespace: str) -> Index:
    return Index("package-metadata-of-node", within(NODE_METADATA, namespace), _node_of)


def _owner_of(row: Row) -> Iterable[Hashable]:
    return (row.owner,) if isinstance(row, PackageConfigRow | MetadataRow) and row.owner else ()


@lru_cache(maxsize=8)
def configs_of_owner(namespace: str) -> Index:
    return Index("package-configs-of-owner", within(PACKAGE_CONFIG, namespace), _owner_of)


@lru_cache(maxsize=8)
def metadata_of_owner(namespace: str) -> Index:
    return Index("package-metadata-of-owner", within(NODE_METADATA, namespace), _owner_of)


def config_key(namespace: str, skyhook: str, package: Package) -> Key:
    name = names.package_config_map(skyhook, package.name, package.version)
    return Key("", within(PACKAGE_CONFIG, namespace), namespace, name)


def metadata_key(namespace: str, skyhook: str, node: str) -> Key:
    return Key("", within(NODE_METADATA, namespace), namespace, names.metadata_config_map(skyhook, node))


def package_config(place: PodPlace, package: Package) -> dict[str, Any]:
    annotations = {NAME: place.skyhook, PACKAGE_NAME: package.name, PACKAGE_VERSION: package.version}
    metadata = {
        "name": names.package_config_map(place.skyhook, package.name, package.version),
        "namespace": place.options.namespace,
        "labels": in_groups(place.group, {NAME: place.skyhook}),
        "annotations": in_groups(place.group, annotations),
        "ownerReferences": [owner_of(place)],
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(package.config_map)}


def node_metadata(place: PodPlace, data: Mapping[str, str]) -> dict[str, Any]:
    metadata = {
        "name": names.metadata_config_map(place.skyhook, place.node),
        "namespace": place.options.namespace,
        "labels": in_groups(place.group, {NODE_META: place.skyhook}),
        "annotations": in_groups(place.group, {NAME: place.skyhook, NODE_NAME: place.node}),
        "ownerReferences": [owner_of(place)],
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def metadata_of(node: NodeRow, packages: str) -> dict[str, str]:
    """Return the data of a node's metadata ConfigMap, which packages can read. `packages`: from `packages_text`."""
    return {
        ANNOTATIONS: go_json(dict(sorted(node.annotations.items()))),
        LABELS: go_json(dict(sorted(node.labels.items()))),
        PACKAGES: packages,
    }


def packages_text(packages: Mapping[str, Package], agent_image: str) -> str:
    described = {name: _described(packages[name]) for name in sorted(packages)}
    return go_json({"agentVersion": tag_of(agent_image), "packages": described})


def host_digest(data: Mapping[str, str]) -> str:
    """Return a digest of the node's labels and annotations in the data of a metadata ConfigMap."""
    return digest("\n".join(data.get(name, "") for name in (ANNOTATIONS, LABELS)))


def config_digest(data: Mapping[str, str]) -> str:
    return digest(go_json(dict(sorted(data.items()))))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def tag_of(image: str) -> str:
    """Return the tag of an image reference; empty if it has none. A registry's port and a digest are not a tag."""
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2]


def _described(package: Package) -> dict[str, Any]:
    form: dict[str, Any] = {"name": package.name, "version": package.version, "image": package.image}
    form |= {"agentImageOverride": package.agent_image_override} if package.agent_image_override else {}
    form |= {"interrupt": _interrupt(package.interrupt)} if package.interrupt is not None else {}
    if package.config_interrupts:
        form["configInterrupts"] = {key: _interrupt(each) for key, each in sorted(package.config_interrupts.items())}
    return form


def _interrupt(interrupt: Interrupt) -> dict[str, Any]:
    services = {"services": list(interrupt.services)} if interrupt.services else {}
    return {"type": interrupt.type, **services}
