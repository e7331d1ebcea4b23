"""How a node's entries change when the Skyhook's packages or their configuration change, or when a stage succeeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from haulout.surfaces.packages.entries.entry import (
    APPLY,
    COMPLETE,
    CONFIG,
    IN_PROGRESS,
    INTERRUPT,
    POST_INTERRUPT,
    SKIPPED,
    UNINSTALL,
    UNINSTALL_INTERRUPT,
    UPGRADE,
    NodeState,
    PackageEntry,
)
from haulout.surfaces.packages.entries.stages import LEAVING, is_unwanted
from haulout.surfaces.packages.specs.versions import is_lower
from haulout.surfaces.packages.wire import Package

replace = msgspec.structs.replace
# The stages from which a changed configuration sends a package back to `config`.
CONFIGURED = (CONFIG, INTERRUPT, POST_INTERRUPT)


class Removal(msgspec.Struct, frozen=True):
    """What happens to the entry of a package that was removed or downgraded.

    `runs_nothing`: nothing is uninstalled, and the entry stays. `left_alone`: the keys of entries that stay in any case.
    """

    runs_nothing: bool = False
    left_alone: frozenset[str] = frozenset()

    def is_outdated(self, entry: PackageEntry) -> bool:
        """Whether an entry is the remainder of an installation that a lower version has replaced since."""
        return entry.key in self.left_alone and entry.state == COMPLETE

    def spares(self, entry: PackageEntry) -> bool:
        return entry.stage not in LEAVING and (self.runs_nothing or entry.key in self.left_alone)


UNINSTALLS = Removal()


def with_versions(
    state: NodeState, packages: Mapping[str, Package], removal: Removal = UNINSTALLS
) -> dict[str, PackageEntry]:
    """Return the entries after removals, upgrades and downgrades of packages.

    The result equals `state` if the node already has the versions that the Skyhook wants.
    """
    changed = dict(state)
    for entry in sorted(state.values(), key=lambda each: each.key):
        package = packages.get(entry.name)
        if removal.spares(entry) and (package is None or is_lower(package.version, entry.version)):
            continue
        if package is None or (entry.version == package.version and is_unwanted(package)):
            if entry.stage not in LEAVING:
                changed[entry.key] = uninstalling(entry)
        elif entry.version != package.version:
            _change_version(changed, entry, package, removal)
    return changed


def _change_version(changed: dict[str, PackageEntry], old: PackageEntry, package: Package, removal: Removal) -> None:
    leaves = old.stage in LEAVING
    if leaves and old.state in (SKIPPED, COMPLETE):
        # This version waited for an older one to be uninstalled and was never installed, so there is nothing to
        # uninstall.
        del changed[old.key]
        return
    if not leaves and is_lower(package.version, old.version):
        changed[old.key], leaves = uninstalling(old), True
    present = changed.get(package.key)
    if present is None or removal.is_outdated(present):
        stage, state = (UNINSTALL, SKIPPED) if leaves else (UPGRADE, IN_PROGRESS)
        changed[package.key] = new_entry(package, stage, state)
    elif leaves and (present.stage, present.state) == (UPGRADE, IN_PROGRESS):
        changed[package.key] = replace(present, stage=UNINSTALL, state=SKIPPED)


def new_entry(package: Package, stage: str, state: str, restarts: int = 0) -> PackageEntry:
    return PackageEntry(package.name, package.version, package.image, package.container_sha, stage, state, restarts)


def uninstalling(entry: PackageEntry) -> PackageEntry:
    return replace(entry, stage=UNINSTALL, state=IN_PROGRESS, restarts=0, container_sha="")


def without_replaced(state: NodeState, packages: Mapping[str, Package]) -> dict[str, PackageEntry]:
    """Return the entries without those of versions that are being replaced.

    The entry of a replaced version stays on the node until the new version has succeeded.
    """
    return {key: entry for key, entry in state.items() if not _is_replaced(entry, state, packages)}


def _is_replaced(entry: PackageEntry, state: NodeState, packages: Mapping[str, Package]) -> bool:
    package = packages.get(entry.name)
    return package is not None and package.key != entry.key and package.key in state and entry.stage not in LEAVING


def with_new_config(state: NodeState, package: Package) -> dict[str, PackageEntry]:
    """Return the entries after a package's configuration has changed: a configured package goes back to `config`."""
    entry = state.get(package.key)
    if entry is None or is_settled(state, package):
        return dict(state)
    return {**state, package.key: replace(entry, stage=CONFIG, state=IN_PROGRESS, restarts=0)}


def is_settled(state: NodeState, package: Package) -> bool:
    """Whether the node's entry needs no further change before a new configuration of the package is published."""
    entry = state.get(package.key)
    return entry is None or entry.stage not in CONFIGURED or (entry.stage, entry.state) == (CONFIG, IN_PROGRESS)


def after_success(state: NodeState, entry: PackageEntry, packages: Mapping[str, Package]) -> dict[str, PackageEntry]:
    """Return the entries after a pod has succeeded. `entry`: the entry of the pod's package, at the pod's stage."""
    changed = dict(state)
    if entry.stage in (UPGRADE, APPLY):
        # The entries of other versions are removed. After `apply`, one that is still being uninstalled stays.
        others = [each for each in state.values() if each.name == entry.name and each.key != entry.key]
        for other in others:
            if entry.stage == UPGRADE or other.stage not in LEAVING:
                del changed[other.key]
    if entry.stage not in LEAVING:
        return {**changed, entry.key: replace(entry, state=COMPLETE)}
    package = packages.get(entry.name)
    explicit = package is not None and package.version == entry.version and is_unwanted(package)
    if explicit and package is not None and package.interrupt is not None and entry.stage == UNINSTALL:
        return {**changed, entry.key: replace(entry, stage=UNINSTALL_INTERRUPT, state=IN_PROGRESS, restarts=0)}
    changed.pop(entry.key, None)
    if package is not None and not explicit:
        changed[package.key] = new_entry(package, UNINSTALL, COMPLETE)
    return changed


def after_interrupt(state: NodeState, packages: Iterable[Package]) -> dict[str, PackageEntry]:
    """Return the entries after an interrupt has succeeded.

    It also served the packages whose own interrupt was skipped.
    """
    names = {package.key for package in packages}
    return {
        key: replace(entry, state=COMPLETE)
        if key in names and (entry.stage, entry.state) == (INTERRUPT, SKIPPED)
        else entry
        for key, entry in state.items()
    }
