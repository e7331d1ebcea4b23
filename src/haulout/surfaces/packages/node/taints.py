"""The taint that keeps workloads from a node until its required packages are complete."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.cluster.rows import NodeRow, Taint
from haulout.core.action import Annotate, Edit, SetTaint
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.skyhook.intent import Intent
from haulout.surfaces.packages.wire import PAUSED, PREFIX


def has_taint(node: NodeRow, taint: Taint) -> bool:
    return any((each.key, each.effect) == (taint.key, taint.effect) for each in node.taints)


def added_to_new(node: NodeRow, intents: Iterable[Intent], taint: Taint) -> tuple[Edit, ...]:
    """Return the edits that taint a new node: one without any annotation of a Skyhook."""
    wanted = any(_wants_taint(intent) for intent in intents)
    is_new = not any(name.startswith(PREFIX) for name in node.annotations)
    if not wanted or not is_new or has_taint(node, taint):
        return ()
    record = Annotate(node.key, node_names.auto_taint(taint.key), "true")
    return (SetTaint(node.key, taint, present=True), record)


def _wants_taint(intent: Intent) -> bool:
    """Whether new nodes of a Skyhook are tainted. A paused Skyhook keeps workloads from them, too."""
    may_act = intent.acts or (intent.shows == PAUSED and not intent.is_deleting and not intent.problem)
    return intent.spec.runtime_required and intent.spec.auto_taint_new_nodes and may_act


def removed_when_complete(node: NodeRow, complete: Iterable[bool], taint: Taint) -> tuple[Edit, ...]:
    """Return the edit that removes the taint, if any.

    `complete`: for each Skyhook that requires the taint, whether it is complete on the node.
    """
    required = tuple(complete)
    if not required or not all(required) or not has_taint(node, taint):
        return ()
    return (SetTaint(node.key, taint, present=False),)
