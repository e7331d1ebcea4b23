"""The edits that cordon a node for a Skyhook, and those that end that cordon."""

from __future__ import annotations

from haulout.cluster.rows import NodeRow
from haulout.core import cordon
from haulout.core.action import Annotate, KeepCordoned, NodeEdit, Release
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.node.names import CORDON_PREFIX
from haulout.surfaces.packages.wire import CORDONED_AFTER, SURFACE


def cordoning(node: NodeRow, skyhook: str, *, is_held: bool) -> tuple[NodeEdit, ...]:
    """Return the edits that cordon a node for a Skyhook.

    `is_held`: a claim of some surface keeps the node cordoned, so an existing cordon was not set by a person.
    """
    mark, begun = node_names.cordon(skyhook), _is_ours(node)
    edits: list[NodeEdit] = [KeepCordoned(node.key, SURFACE, is_visible=True, begun=begun)]
    if node.annotations.get(mark) != "true":
        edits.append(Annotate(node.key, mark, "true"))
        held = is_held or begun
        if node.unschedulable and not held and cordon.believed_ledger(node, is_held=held) is None:
            edits.append(Annotate(node.key, node_names.cordon_before(skyhook), "true"))
    return tuple(edits)


def releasing(node: NodeRow, skyhook: str, *, alone: bool) -> tuple[NodeEdit, ...]:
    """Return the edits that end a Skyhook's cordon.

    The node stays cordoned if another surface or another Skyhook needs it, if a person had cordoned it before, or if it was
    to be cordoned when it lost its taint.
    """
    mark, before = node_names.cordon(skyhook), node_names.cordon_before(skyhook)
    edits: list[NodeEdit] = [Annotate(node.key, name, None) for name in (mark, before) if name in node.annotations]
    if mark not in node.annotations:
        return tuple(edits)
    was_cordoned = node.annotations.get(before) == "true"
    remaining = [name for name in sorted(node.annotations) if name.startswith(CORDON_PREFIX) and name != mark]
    if remaining and was_cordoned:
        # The note that a person had cordoned the node passes to another Skyhook that keeps it cordoned.
        heir = remaining[0].removeprefix(CORDON_PREFIX)
        edits.append(Annotate(node.key, node_names.cordon_before(heir), "true"))
    if not remaining and not (alone and was_cordoned):
        edits.append(Release(node.key, SURFACE, leaves_cordoned=CORDONED_AFTER in node.annotations))
    return tuple(edits)


def _is_ours(node: NodeRow) -> bool:
    return any(name.startswith(CORDON_PREFIX) for name in node.annotations)
