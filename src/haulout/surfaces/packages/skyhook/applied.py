"""The record of a Skyhook's packages as last applied. It is needed to uninstall a package that was removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from haulout.base.bounds import LARGE
from haulout.cluster.key import Key
from haulout.cluster.project import Resource, within
from haulout.cluster.rows import ObjectRow
from haulout.core.action import Create, Patch
from haulout.surfaces.packages.entries.entry import PackageEntry, go_json
from haulout.surfaces.packages.pods import names
from haulout.surfaces.packages.pods.bodies import PodPlace, owner_of
from haulout.surfaces.packages.pods.config_maps import ConfigMap
from haulout.surfaces.packages.pods.owners import owner_uid
from haulout.surfaces.packages.wire import Package

APPLIED = "AppliedPackages"
# This is not the label of the packages' ConfigMaps, because the operator deletes those that belong to no package.
LABEL = "haulout.dev/applied"


class AppliedRow(ObjectRow, frozen=True, kw_only=True):
    """The ConfigMap that records the packages as last applied.

    `skyhook`: the Skyhook whose packages they are. `data`: each package as JSON, under `name-version`.
    `owner`: the UID of the object that owns it.
    """

    skyhook: str = ""
    owner: str = ""
    data: Mapping[str, str] = {}


def _project(obj: ConfigMap, common: dict[str, Any]) -> AppliedRow:
    return AppliedRow(
        **common, skyhook=obj.metadata.labels.get(LABEL, ""), data=obj.data, owner=owner_uid(obj.metadata)
    )


APPLIED_RESOURCE = Resource(APPLIED, "/api/v1", "configmaps", True, ConfigMap, _project, labels=LABEL, bounds=LARGE)


def applied_key(namespace: str, skyhook: str) -> Key:
    return Key("", within(APPLIED, namespace), namespace, names.applied_config_map(skyhook))


def departed_packages(record: AppliedRow | None, packages: Mapping[str, Package]) -> dict[str, Package]:
    """Return the recorded packages, by entry key, whose version is no longer in the Skyhook."""
    current = {_name(package) for package in packages.values()}
    texts = record.data if record is not None else {}
    found = (_read(text) for name, text in sorted(texts.items()) if name not in current)
    return {package.key: package for package in found if package is not None}


def for_uninstall(entry: PackageEntry, record: Package | None) -> Package:
    """Return the package to uninstall an entry with: its image, and the settings that were recorded for it."""
    package = Package(name=entry.name, version=entry.version, image=entry.image, container_sha=entry.container_sha)
    if record is None:
        return package
    return msgspec.structs.replace(
        package,
        image=entry.image or record.image,
        container_sha=record.container_sha,
        agent_image_override=record.agent_image_override,
        config_map=record.config_map,
        env=record.env,
        graceful_shutdown=record.graceful_shutdown,
    )


def recording(
    place: PodPlace, record: AppliedRow | None, packages: Mapping[str, Package], entries: Iterable[PackageEntry]
) -> Create | Patch | None:
    """Return the write that brings the record up to date; None if it is.

    A removed package stays in the record while any node has an entry for it.
    """
    wanted = {_name(package): _text(package) for package in packages.values()}
    if record is None:
        return Create(applied_key(place.options.namespace, place.skyhook), _body(place, wanted)) if wanted else None
    changes: dict[str, str | None] = {name: text for name, text in wanted.items() if record.data.get(name) != text}
    if former := record.data.keys() - wanted.keys():
        changes |= dict.fromkeys(former - {names.package_label(entry.name, entry.version) for entry in entries})
    return Patch(record.key, {"data": changes}) if changes else None


def _name(package: Package) -> str:
    return names.package_label(package.name, package.version)


def _text(package: Package) -> str:
    fields = msgspec.to_builtins(package)
    return go_json({name: value for name, value in fields.items() if value not in (None, "", {}, [], ())})


def _read(text: str) -> Package | None:
    try:
        return msgspec.json.decode(text, type=Package)
    except (msgspec.DecodeError, RecursionError):
        return None


def _body(place: PodPlace, data: Mapping[str, str]) -> dict[str, Any]:
    metadata = {
        "name": names.applied_config_map(place.skyhook),
        "namespace": place.options.namespace,
        "labels": {LABEL: place.skyhook},
        "ownerReferences": [owner_of(place)],
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
