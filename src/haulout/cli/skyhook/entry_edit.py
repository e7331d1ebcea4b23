"""Changes of the entries of packages on nodes, beside the operator that writes the same annotations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from haulout.cli.skyhook.cluster import NODE_STATE, Cluster, NodeOf
from haulout.cli.skyhook.output import confirm, show_errors
from haulout.kube.errors import Conflict, KubeError
from haulout.surfaces.packages.entries.entry import MalformedNodeState, NodeState, parse, to_text

ATTEMPTS = 5
Change = Callable[[NodeState], NodeState]


def is_to_be_done(nodes: Sequence[NodeOf], text: str, flags: dict[str, Any]) -> bool:
    """Show the nodes to change. Return whether they are to be changed: no dry run, and the user agrees to `text`."""
    click.echo(f"Nodes to change ({len(nodes)}):")
    for each in nodes:
        click.echo(f"  - {each.name}")
    if flags["dry-run"]:
        click.echo("\n[dry-run] No changes applied")
        return False
    if flags["confirm"]:
        return True
    click.echo(f"\n{text}")
    return confirm()


async def change_entries(cluster: Cluster, skyhook: str, nodes: Sequence[NodeOf], change: Change, act: str) -> None:
    """Change the entries of each node. `act`: what is done, as it is printed."""
    errors, done = list[str](), 0
    for each in nodes:
        try:
            await _change_on(cluster, each.name, f"{NODE_STATE}{skyhook}", change)
        except (KubeError, MalformedNodeState) as error:
            errors.append(f"{each.name}: {error}")
        else:
            done += 1
    show_errors("Errors updating some nodes:", errors)
    if done:
        click.echo(f"\nSuccessfully {act} on {done} node(s)")


async def _change_on(cluster: Cluster, name: str, mark: str, change: Change) -> None:
    """Change a node's entries.

    The operator writes the same annotation, so each patch names the resource version and is repeated after a conflict.
    """
    for attempt in range(ATTEMPTS):
        node = await cluster.node(name)
        state = change(parse(node.metadata.annotations.get(mark, "{}")))
        patch = {"metadata": {"annotations": {mark: to_text(state) if state else None}}}
        try:
            await cluster.patch_node(name, patch, node.metadata.resource_version)
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return
