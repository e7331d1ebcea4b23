"""Which Skyhooks concern a node: those that select it, and those that have left something on it.

A node reads the intents of these alone. If it read those of all Skyhooks, each change of one would ask every node.
"""

from __future__ import annotations

from collections.abc import Iterable

from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.surfaces.packages.node.prefixes import units_on
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.config_maps import MetadataRow, metadata_of_node
from haulout.surfaces.packages.pods.rows import PackagePodRow
from haulout.surfaces.packages.skyhook.intent import Intent, intent_key
from haulout.surfaces.packages.skyhook.reach import Reach


def concerning(
    node: NodeRow, reaches: Iterable[Reach], pods: Iterable[PackagePodRow], view: View, options: Options
) -> list[Intent]:
    """Return the intents of the Skyhooks that concern a node, in their order. `pods`: the package pods on the node."""
    kept = view.rows(metadata_of_node(options.namespace), node.key.name, MetadataRow)
    left = {*units_on(node), *(each.skyhook for each in kept), *(pod.skyhook for pod in pods)}
    owners = (reach.owner for reach in reaches if reach.skyhook in left or reach.selects(node))
    found = [intent for owner in owners if (intent := view.get(intent_key(owner), Intent)) is not None]
    return sorted(found, key=lambda intent: intent.rank)
