"""Entries that stay on nodes although no package has them any more.

A NodeWright, and an original since v0.16, uninstalls nothing when a package is removed from the spec or downgraded, and its
entry stays. A Skyhook here uninstalls it. So what was left over before a Skyhook came to us, or before it took the lead
from a NodeWright, is noted in the annotation `haulout.dev/left-alone`, and never uninstalled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from haulout.core.action import Annotate, Edit
from haulout.model.meta import wire_time
from haulout.surfaces.packages.entries.changes import Removal
from haulout.surfaces.packages.entries.entry import SKIPPED, UNINSTALL, NodeState, PackageEntry
from haulout.surfaces.packages.entries.stages import LEAVING
from haulout.surfaces.packages.groups import NODEWRIGHT, SKYHOOK
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.specs.versions import is_lower, is_version
from haulout.surfaces.packages.units.unit import Unit
from haulout.surfaces.packages.wire import COMPLETE, LEFT_ALONE, Package, SkyhookRow

# From this version on the original uninstalls only what it is asked to, and sets a condition without a prefix.
_KEEPS_REMOVED = "v0.16.0"
_ITS_CONDITION = "Ready"
# What distinguishes an entry from the time in the annotation.
_ENTRY_SIGN = "|"


def removal_of(unit: Unit) -> Removal:
    """Return what happens to entries of packages that are not in the leader's spec."""
    if unit.stored.group is NODEWRIGHT or not unit.is_settled or is_note_due(unit):
        return Removal(runs_nothing=True)
    return Removal(left_alone=frozenset(_noted(unit.stored)[1]))


def is_note_due(unit: Unit) -> bool:
    """Whether a Skyhook comes from an original that leaves entries behind, and they are not noted yet.

    The version in the Skyhook's annotation is that of the first operator that saw it. So the conditions tell, too, which
    operator has written its status last.
    """
    row = unit.stored
    if row.group is not SKYHOOK:
        return False
    stamp, noted_at = row.stamp or "", _noted(row)[0]
    if LEFT_ALONE not in row.annotations and is_version(stamp) and not is_lower(stamp, _KEEPS_REMOVED):
        return True
    is_recent = any(each.type == _ITS_CONDITION for each in row.status.conditions)
    return is_recent and row.written_at is not None and wire_time(row.written_at) > noted_at


def note_of_remains(unit: Unit, nodes: Iterable[NodeStanding]) -> tuple[Edit, ...]:
    """Return the edit that notes the entries to leave alone, and which status of another operator they were found with."""
    row = unit.stored
    noted_at, entries = _noted(row)
    found = {entry.key for node in nodes for entry in node.state.values() if _is_left_over(entry, node.state, unit)}
    seen_at = max(noted_at, wire_time(row.written_at) if row.written_at is not None else "")
    return _noting(row, seen_at, entries | found)


def note_without_installed(row: SkyhookRow) -> tuple[Edit, ...]:
    """Return the edit that takes packages out of the note that the Skyhook has installed since: it may uninstall them again."""
    noted_at, entries = _noted(row)
    is_complete = row.status.status == COMPLETE and row.status.observed_generation == row.generation
    if not entries or not is_complete:
        return ()
    return _noting(row, noted_at, entries - {package.key for package in row.spec.packages.values()})


def _noting(row: SkyhookRow, noted_at: str, entries: set[str]) -> tuple[Edit, ...]:
    text = ",".join((*filter(None, [noted_at]), *sorted(entries)))
    return (Annotate(row.key, LEFT_ALONE, text),) if row.annotations.get(LEFT_ALONE) != text else ()


def _noted(row: SkyhookRow) -> tuple[str, set[str]]:
    """Return the time in the annotation, empty if there is none, and the entries in it."""
    parts = set(filter(None, row.annotations.get(LEFT_ALONE, "").split(",")))
    entries = {part for part in parts if _ENTRY_SIGN in part}
    return max(parts - entries, default=""), entries


def _is_left_over(entry: PackageEntry, state: NodeState, unit: Unit) -> bool:
    """Whether no package of either object has the entry, or a lower version has replaced it without an uninstallation."""
    own = unit.stored.spec.packages
    others: Mapping[str, Package] = unit.other.spec.packages if unit.other is not None else {}
    if entry.stage in LEAVING:
        return False
    if entry.name not in own and entry.name not in others:
        return True
    return any(_has_replaced(packages.get(entry.name), entry, state) for packages in (own, others))


def _has_replaced(package: Package | None, entry: PackageEntry, state: NodeState) -> bool:
    present = state.get(package.key) if package is not None else None
    if package is None or present is None or (present.stage, present.state) == (UNINSTALL, SKIPPED):
        return False
    return is_lower(package.version, entry.version)
