"""Migration of the entries that operators before v0.8 stored on nodes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from haulout.surfaces.packages.entries.entry import NodeState, PackageEntry
from haulout.surfaces.packages.wire import Package

OLD = ("v0.5", "v0.6", "v0.7")


def is_due(stamp: str | None) -> bool:
    """Whether a Skyhook or a node has the stamp of an operator before v0.8, or none.

    Those stored entries without images.
    """
    return stamp is None or ".".join(stamp.split(".")[:2]) in OLD


def migrate_entries(state: NodeState, packages: Mapping[str, Package]) -> dict[str, PackageEntry]:
    """Return the entries with their images.

    An entry without an image is dropped if the Skyhook does not have that version of the package.
    """
    found: dict[str, PackageEntry] = {}
    for key, entry in state.items():
        package = packages.get(entry.name or key)
        if entry.image:
            found[key] = entry
        elif package is not None and entry.version == package.version:
            filled = msgspec.structs.replace(entry, name=package.name, version=package.version, image=package.image)
            found[filled.key] = filled
    return found
