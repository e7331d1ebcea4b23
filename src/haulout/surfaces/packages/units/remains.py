"""Entries that stay on nodes although no package has them any more.

A NodeWright, and an original since v0.16, uninstalls nothing when a package is removed from the spec, and its entry stays.
A Skyhook here uninstalls it. So what was left over before a Skyhook came to us, or before it took the lead from a
NodeWright, is noted once in the annotation `haulout.dev/left-alone`, and never uninstalled.
"""

from __future__ import annotations

from collections.abc import Iterable

from haulout.core.action import Annotate, Edit
from haulout.surfaces.packages.entries.changes import Removal
from haulout.surfaces.packages.entries.stages import LEAVING
from haulout.surfaces.packages.groups import NODEWRIGHT, SKYHOOK
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.specs.versions import is_lower, is_version
from haulout.surfaces.packages.units.unit import Unit
from haulout.surfaces.packages.wire import LEFT_ALONE

# From this version on the original uninstalls only what it is asked to.
_KEEPS_REMOVED = "v0.16.0"


def removal_of(unit: Unit) -> Removal:
    """Return what happens to entries of packages that are not in the leader's spec."""
    if unit.stored.group is NODEWRIGHT or not unit.is_settled or is_note_due(unit):
        return Removal(runs_nothing=True)
    noted = unit.stored.annotations.get(LEFT_ALONE, "")
    return Removal(left_alone=frozenset(filter(None, noted.split(","))))


def is_note_due(unit: Unit) -> bool:
    """Whether a Skyhook comes from an original that leaves entries behind, and they are not noted yet."""
    stamp = unit.stored.stamp or ""
    if unit.stored.group is not SKYHOOK or LEFT_ALONE in unit.stored.annotations:
        return False
    return is_version(stamp) and not is_lower(stamp, _KEEPS_REMOVED)


def note_of_remains(unit: Unit, nodes: Iterable[NodeStanding]) -> tuple[Edit, ...]:
    """Return the edit that notes the entries to leave alone: those of no package of either object of the unit."""
    known = set(unit.stored.spec.packages) | set(unit.other.spec.packages if unit.other is not None else ())
    before = set(filter(None, unit.stored.annotations.get(LEFT_ALONE, "").split(",")))
    entries = (entry for node in nodes for entry in node.state.values())
    found = {entry.key for entry in entries if entry.name not in known and entry.stage not in LEAVING}
    text = ",".join(sorted(before | found))
    if unit.stored.annotations.get(LEFT_ALONE) == text:
        return ()
    return (Annotate(unit.stored.key, LEFT_ALONE, text),)
