"""The taint that keeps workloads from a node until its required packages are complete."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.cluster.rows import NodeRow, Taint
from haulout.core.action import Annotate, Edit, NodeEdit, Release, SetTaint
from haulout.surfaces.packages.groups import NODEWRIGHT
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.skyhook.intent import Intent
from haulout.surfaces.packages.wire import CORDONED_AFTER, PAUSED, PREFIX, SURFACE


def has_taint(node: NodeRow, taint: Taint) -> bool:
    return any((each.key, each.effect) == (taint.key, taint.effect) for each in node.taints)


def added_to_new(node: NodeRow, intents: Iterable[Intent], options: Options) -> tuple[NodeEdit, ...]:
    """Return the edits that taint a new node: one without any annotation of a Skyhook.

    `node`: in its inner form. A node that has a usual taint of the original needs no other.
    """
    wanted = any(_wants_taint(intent) for intent in intents)
    is_new = not any(name.startswith(PREFIX) for name in node.annotations)
    return _added(node, options) if wanted and is_new else ()


def added_after_reboot(node: NodeRow, intent: Intent, options: Options) -> tuple[NodeEdit, ...]:
    """Return the edits that taint a node on which all packages run again after a reboot, as NodeWright does since v0.20."""
    return _added(node, options) if intent.group is NODEWRIGHT and _wants_taint(intent) else ()


def _added(node: NodeRow, options: Options) -> tuple[NodeEdit, ...]:
    taint = options.taint
    if any(has_taint(node, each) for each in options.taints):
        return ()
    return (SetTaint(node.key, taint, present=True), Annotate(node.key, node_names.auto_taint(taint.key), "true"))


def _wants_taint(intent: Intent) -> bool:
    """Whether new nodes of a Skyhook are tainted. A paused Skyhook keeps workloads from them, too."""
    may_act = intent.acts or (intent.shows == PAUSED and not intent.is_deleting and not intent.problem)
    return intent.spec.runtime_required and intent.spec.auto_taint_new_nodes and may_act


def cordoned_after(node: NodeRow, selecting: Iterable[Intent]) -> tuple[NodeEdit, ...]:
    """Return the edits that cordon a node that is losing the taint, if one of its Skyhooks asks for that."""
    if not any(each.spec.runtime_required and each.spec.runtime_required_cordon_after for each in selecting):
        return ()
    return (Annotate(node.key, CORDONED_AFTER, "true"), Release(node.key, SURFACE, leaves_cordoned=True))


def uncordoned_by_hand(node: NodeRow) -> tuple[Edit, ...]:
    """Return the edit that removes the note about such a cordon after a person has ended it."""
    if CORDONED_AFTER not in node.annotations or node.unschedulable:
        return ()
    return (Annotate(node.key, CORDONED_AFTER, None),)


def removed_when_complete(node: NodeRow, complete: Iterable[bool], taints: Iterable[Taint]) -> tuple[Edit, ...]:
    """Return the edits that remove these taints, if the node has any.

    `complete`: for each Skyhook that requires the taint, whether it is complete on the node.
    """
    required = tuple(complete)
    if not required or not all(required):
        return ()
    return tuple(SetTaint(node.key, each, present=False) for each in taints if has_taint(node, each))
