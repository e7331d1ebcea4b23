"""How an object takes the lead of its unit: nodes first, then the status, then the note that it leads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from haulout.cluster.view import View
from haulout.core.action import Annotate, Edit, Patch, Step
from haulout.surfaces.packages.node.prefixes import are_equal, has_keys
from haulout.surfaces.packages.pods.bodies import PodPlace
from haulout.surfaces.packages.pods.config_maps import PackageConfigRow
from haulout.surfaces.packages.pods.owners import taking_over
from haulout.surfaces.packages.skyhook.applied import LABEL, AppliedRow
from haulout.surfaces.packages.skyhook.hearing import all_nodes
from haulout.surfaces.packages.units.unit import Unit, lead_of
from haulout.surfaces.packages.wire import LEADS, NAME, PACKAGE_NAME, PACKAGE_VERSION
from haulout.surfaces.packages.wire_status import status_patch

replace = msgspec.structs.replace


def note_of(unit: Unit) -> tuple[Edit, ...]:
    """Return the edit that brings the leader's note up to date; nothing if it is."""
    wanted = unit.lead
    if wanted is None or lead_of(unit.stored) == wanted:
        return ()
    return (Annotate(unit.stored.key, LEADS, wanted.text),)


def taking_lead(unit: Unit, view: View) -> Iterator[Step]:
    """Yield the next step by which the leader takes over: its status, once the nodes have its keys; then its note."""
    if not has_keys_on_nodes(unit, view):
        return
    body = status_patch(unit.stored.status, unit.leader.status)
    if body:
        yield (Patch(unit.stored.key, body, "status", becomes=replace(unit.stored, status=unit.leader.status)),)
    if note := note_of(unit):
        yield note


def has_keys_on_nodes(unit: Unit, view: View) -> bool:
    """Whether every node has the keys of the unit under the prefixes of exactly the groups that it writes."""
    name, groups = unit.stored.name, unit.writes
    if len(groups) > 1:
        return all(are_equal(node, name) for node in all_nodes(view))
    other = unit.other
    return other is None or not any(has_keys(node, name, other.group) for node in all_nodes(view))


def owned_config_maps(
    unit: Unit, place: PodPlace, configs: Iterable[PackageConfigRow], record: AppliedRow | None
) -> Iterator[Patch]:
    """Yield the patches by which ConfigMaps of the other object become the leader's."""
    former = unit.other.uid if unit.other is not None else ""
    name = unit.stored.name
    for each in configs:
        if each.owner == former:
            annotations = {NAME: name, PACKAGE_NAME: each.package, PACKAGE_VERSION: each.package_version}
            yield taking_over(place, each.key, {NAME: name}, annotations)
    if record is not None and record.skyhook == name and record.owner == former:
        yield taking_over(place, record.key, {LABEL: name})
