"""The stages of a package on a node: which comes next, which is the last, and when a node is complete."""

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
from haulout.surfaces.packages.entries.interrupts import interrupts_of
from haulout.surfaces.packages.wire import Package

# For each package, the keys of its ConfigMap that its last change touched.
ConfigUpdates = Mapping[str, tuple[str, ...]]
NOTHING_CHANGED: ConfigUpdates = {}

LEAVING = (UNINSTALL, UNINSTALL_INTERRUPT)
_AFTER = {UNINSTALL: APPLY, UPGRADE: CONFIG, APPLY: CONFIG}


def has_interrupt(package: Package, updates: ConfigUpdates) -> bool:
    return bool(interrupts_of(package, updates.get(package.name, ())))


def next_stage(entry: PackageEntry | None, package: Package, updates: ConfigUpdates) -> str | None:
    """Return the stage that a package needs next on a node; None if it needs none."""
    if entry is None:
        return None if is_unwanted(package) else APPLY
    if entry.state != COMPLETE:
        return entry.stage
    if entry.stage in _AFTER:
        return _AFTER[entry.stage]
    if entry.stage == CONFIG:
        return INTERRUPT if has_interrupt(package, updates) else None
    return POST_INTERRUPT if entry.stage == INTERRUPT else None


def is_unwanted(package: Package) -> bool:
    """Whether the package is to be uninstalled although the Skyhook still names it."""
    return package.uninstall is not None and package.uninstall.enabled and package.uninstall.apply


def is_package_complete(package: Package, state: NodeState, updates: ConfigUpdates) -> bool:
    """Whether a package has passed its last stage.

    A package that has passed `post-interrupt` is complete, even if it would not need an interrupt now.
    """
    entry = state.get(package.key)
    if entry is None:
        return is_unwanted(package)
    if entry.state != COMPLETE:
        return False
    terminal = POST_INTERRUPT if has_interrupt(package, updates) else CONFIG
    return entry.stage in (terminal, POST_INTERRUPT)


def as_complete(entry: PackageEntry, package: Package, updates: ConfigUpdates) -> PackageEntry:
    """Return the entry as it is when the package is complete."""
    stage = POST_INTERRUPT if has_interrupt(package, updates) else CONFIG
    return msgspec.structs.replace(entry, stage=stage, state=COMPLETE, restarts=0)


def complete_keys(packages: Iterable[Package], state: NodeState, updates: ConfigUpdates) -> frozenset[str]:
    return frozenset(package.key for package in packages if is_package_complete(package, state, updates))


def is_node_complete(packages: Iterable[Package], state: NodeState, updates: ConfigUpdates) -> bool:
    """Whether every package is complete and nothing is left to uninstall."""
    if any(entry.stage in LEAVING for entry in state.values()):
        return False
    return all(is_package_complete(package, state, updates) for package in packages)


def has_begun(packages: Iterable[Package], state: NodeState, updates: ConfigUpdates) -> bool:
    """Whether a pod was created on the node for a package that is not complete yet.

    An edit of the Skyhook alone leads to an entry in `_ANNOUNCED`; any other open entry needed a pod.
    """
    wanted = {package.key: package for package in packages}
    done = complete_keys(wanted.values(), state, updates)
    open_entries = [
        entry for key, entry in state.items() if key not in done and (key in wanted or entry.stage in LEAVING)
    ]
    return any((entry.stage, entry.state) not in _ANNOUNCED for entry in open_entries)


# The stage and state of an entry after an edit of the Skyhook, before any pod has run.
_ANNOUNCED = {(UPGRADE, IN_PROGRESS), (UNINSTALL, IN_PROGRESS), (UNINSTALL, SKIPPED), (CONFIG, IN_PROGRESS)}
