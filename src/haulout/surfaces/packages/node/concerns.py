"""Which Skyhooks concern a node: those that select it, and those that have left something on it.

A node reads the intents of these alone. If it read those of all Skyhooks, each change of one would ask every node.
"""

from __future__ import annotations

from collections.abc import Iterable

from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.config_maps import MetadataRow, metadata_of_node
from haulout.surfaces.packages.pods.rows import PackagePodRow
from haulout.surfaces.packages.skyhook.intent import Intent, intent_key
from haulout.surfaces.packages.skyhook.reach import Reach
from haulout.surfaces.packages.wire import PREFIX


def concerning(
    node: NodeRow, reaches: Iterable[Reach], pods: Iterable[PackagePodRow], view: View, options: Options
) -> list[Intent]:
    """Return the intents of the Skyhooks that concern a node, in their order. `pods`: the package pods on the node."""
    kept = view.rows(metadata_of_node(options.namespace), node.key.name, MetadataRow)
    left = {*marked_by(node), *(each.skyhook for each in kept), *(pod.skyhook for pod in pods)}
    names = (reach.skyhook for reach in reaches if reach.skyhook in left or reach.selects(node))
    found = [intent for name in names if (intent := view.get(intent_key(name), Intent)) is not None]
    return sorted(found, key=lambda intent: intent.rank)


def marked_by(node: NodeRow) -> set[str]:
    """Return the names that the annotations, labels and conditions of Skyhooks on a node end with.

    Not every name is that of a Skyhook: the note that the operator tainted the node ends with the key of the taint.
    """
    noted = (
        name.removeprefix(PREFIX).partition("_")[2] for name in (*node.annotations, *node.labels) if _is_ours(name)
    )
    shown = (kind.removeprefix(PREFIX).partition("/")[0] for kind, _ in node.conditions if _is_ours(kind))
    return {name for name in (*noted, *shown) if name}


def _is_ours(name: str) -> bool:
    return name.startswith(PREFIX)
