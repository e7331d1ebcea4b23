"""The keys of units on a Node, under the prefixes of both groups.

Inside the surface all keys have the prefix of skyhook (`inner`). Where the Node is written, each key of a unit gets the
prefix of every group that has an object of that name, and loses those of the others (`outer`). Keys that are not an
operator's stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT, SKYHOOK, Group
from haulout.surfaces.packages.wire import CORDONED_AFTER, IGNORE

replace = msgspec.structs.replace
# The words that the annotations and labels of a unit begin with, before an underscore and the name of the unit.
_STATE = frozenset({"nodeState", "status", "version", "cordon"})
_WORDS = _STATE | {
    *("cordonPre", "copyDir", "resourceId", "lastError", "stageTime", "picked", "keptConf"),
    *("drainStart", "drainBlocked"),
}
# Names of no single unit.
_SHARED = frozenset({IGNORE, CORDONED_AFTER})
_AUTO_TAINT = f"{SKYHOOK.prefix}autoTaint_"
# A condition of which the groups of a unit differ. It has no status, so that it is written again.
DIFFERS = ""


class Home(msgspec.Struct, frozen=True):
    """Where the keys of a unit are.

    `source`: the group whose keys are the newest. `writes`: the groups that get them.
    `is_blind`: it is not known which NodeWrights there are, so that their keys are left alone.
    """

    source: Group
    writes: tuple[Group, ...]
    is_blind: bool = False


Homes = Mapping[str, Home]
ALONE = Home(SKYHOOK, (SKYHOOK,))


def unit_in(name: str, group: Group) -> str:
    """Return the unit that an annotation or label of a group belongs to; empty if it belongs to none."""
    if not name.startswith(group.prefix):
        return ""
    word, _, unit = name.removeprefix(group.prefix).partition("_")
    return unit if word in _WORDS else ""


def condition_unit(kind: str, group: Group) -> str:
    """Return the unit that a condition of a group belongs to; empty if it belongs to none."""
    return kind.removeprefix(group.prefix).partition("/")[0] if kind.startswith(group.prefix) else ""


def units_on(node: NodeRow) -> set[str]:
    """Return the names of units that annotations, labels and conditions of a Node belong to, in either group."""
    found = {unit_in(name, group) for group in GROUPS for name in (*node.annotations, *node.labels)}
    found |= {condition_unit(kind, group) for group in GROUPS for kind, _ in node.conditions}
    return found - {""}


def keys_of(node: NodeRow, unit: str, group: Group) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return the annotations, labels and conditions of a unit under one prefix, by their inner names."""
    annotations, labels = (
        {group.inner(name): value for name, value in values.items() if unit_in(name, group) == unit}
        for values in (node.annotations, node.labels)
    )
    conditions = {group.inner(kind): value for kind, value in node.conditions if condition_unit(kind, group) == unit}
    return annotations, labels, conditions


def has_keys(node: NodeRow, unit: str, group: Group) -> bool:
    return any(keys_of(node, unit, group))


def are_equal(node: NodeRow, unit: str) -> bool:
    """Whether a Node has the same keys of a unit under both prefixes."""
    return keys_of(node, unit, SKYHOOK) == keys_of(node, unit, NODEWRIGHT)


def source_on(node: NodeRow, unit: str, home: Home) -> Group:
    """Return the group whose keys of a unit count on a Node: the newest, or the other one if that has no state there."""
    if home.source in _groups_with_state(node, unit):
        return home.source
    return next(iter(_groups_with_state(node, unit)), home.source)


def _groups_with_state(node: NodeRow, unit: str) -> list[Group]:
    return [group for group in GROUPS if any(f"{group.prefix}{word}_{unit}" in node.annotations for word in _STATE)]


def _has_other_names(node: NodeRow) -> bool:
    prefix = NODEWRIGHT.prefix
    return any(name.startswith(prefix) for name in (*node.annotations, *node.labels)) or any(
        kind.startswith(prefix) for kind, _ in node.conditions
    )


def is_plain(node: NodeRow, homes: Homes) -> bool:
    """Whether the inner form of a Node is the Node itself, as in every cluster without NodeWrights."""
    if any(home.is_blind for home in homes.values()):
        return True
    return all(home == ALONE for home in homes.values()) and not _has_other_names(node)


def inner(node: NodeRow, homes: Homes) -> NodeRow:
    """Return a Node with the keys of units under the prefix of skyhook alone."""
    if is_plain(node, homes):
        return node
    annotations, labels = ({**_without_units(values)} for values in (node.annotations, node.labels))
    conditions = {kind: value for kind, value in node.conditions if not _is_condition(kind)}
    for unit in sorted(units_on(node)):
        home = homes.get(unit)
        group = source_on(node, unit, home or Home(SKYHOOK, ()))
        own = keys_of(node, unit, group)
        annotations |= own[0]
        labels |= own[1]
        conditions |= own[2] if home is None else _common(node, unit, home, own[2])
    return replace(node, annotations=annotations, labels=labels, conditions=tuple(conditions.items()))


def _common(node: NodeRow, unit: str, home: Home, own: Mapping[str, str]) -> dict[str, str]:
    """Return the conditions of a unit; those that its groups do not all have alike count as different."""
    found = [keys_of(node, unit, group)[2] for group in home.writes]
    kinds = {kind for group in GROUPS for kind in keys_of(node, unit, group)[2]}
    stale = [group for group in GROUPS if group not in home.writes and keys_of(node, unit, group)[2]]
    return {
        kind: own[kind] if kind in own and not stale and all(each.get(kind) == own[kind] for each in found) else DIFFERS
        for kind in sorted(kinds)
    }


def _is_condition(kind: str) -> bool:
    return any(condition_unit(kind, group) for group in GROUPS)


def _without_units(values: Mapping[str, str]) -> dict[str, str]:
    """Return annotations or labels without those of units, and those of no single unit under the prefix of skyhook."""
    found = {}
    for name, value in values.items():
        if any(unit_in(name, group) for group in GROUPS):
            continue
        plain = NODEWRIGHT.inner(name)
        shared = plain in _SHARED or plain.startswith(_AUTO_TAINT)
        # Where both prefixes say something, a node that one of them excludes is excluded.
        if not shared:
            found[name] = value
        elif plain not in found or value == "true":
            found[plain] = value
    return found


def outer(draft: NodeRow, stored: NodeRow, homes: Homes) -> NodeRow:
    """Return a Node in its inner form as it is to be stored.

    `stored`: the Node as it is. A unit without an object keeps the prefixes that its keys have.
    """
    if is_plain(stored, homes):
        return draft
    leads = next(iter(homes.values())).writes[0] if homes else SKYHOOK
    return replace(
        draft,
        annotations=_outer_keys(draft.annotations, stored.annotations, stored, homes, leads),
        labels=_outer_keys(draft.labels, stored.labels, stored, homes, leads),
        conditions=stored.conditions,
    )


def _outer_keys(
    values: Mapping[str, str], before: Mapping[str, str], stored: NodeRow, homes: Homes, leads: Group
) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in values.items():
        unit = unit_in(name, SKYHOOK)
        if unit:
            found |= {group.named(name): value for group in groups_of(stored, unit, homes)}
        elif name in _SHARED or name.startswith(_AUTO_TAINT):
            known = {group.named(name) for group in GROUPS} & before.keys()
            found |= {each: before[each] for each in known} or {leads.named(name): value}
        else:
            found[name] = value
    return found


def groups_of(stored: NodeRow, unit: str, homes: Homes) -> tuple[Group, ...]:
    home = homes.get(unit)
    if home is not None:
        return home.writes
    return tuple(group for group in GROUPS if has_keys(stored, unit, group)) or (SKYHOOK,)


def outer_conditions(
    conditions: Iterable[Mapping[str, object]], stored: NodeRow, homes: Homes
) -> list[dict[str, object]]:
    """Return changes of node conditions under the prefixes of each unit, and deletions of those under other prefixes."""
    found: list[dict[str, object]] = []
    for each in conditions:
        kind = str(each["type"])
        unit = condition_unit(kind, SKYHOOK)
        kinds = [group.named(kind) for group in GROUPS]
        if not unit:
            found.append(dict(each))
        elif "$patch" in each:
            found += [{**each, "type": name} for name in kinds if stored.condition(name) is not None]
        else:
            wanted = [group.named(kind) for group in groups_of(stored, unit, homes)]
            found += [{**each, "type": name} for name in wanted]
            stale = [name for name in kinds if name not in wanted and stored.condition(name) is not None]
            found += [{"$patch": "delete", "type": name} for name in stale]
    return found
