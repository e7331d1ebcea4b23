"""`skyhook node reset`, `ignore` and `unignore`: run everything anew on some nodes, or leave them alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from haulout.base.duration import quote
from haulout.cli.skyhook.cluster import Cluster, connect, matching, with_state
from haulout.cli.skyhook.output import confirm, show_errors
from haulout.cli.skyhook.reset import Extent, reset_nodes, show_nodes
from haulout.kube.errors import KubeError
from haulout.model.node import Node
from haulout.surfaces.packages.wire import IGNORE

TRUE = "true"


async def reset(words: Sequence[str], flags: dict[str, Any]) -> None:
    skyhook = flags["skyhook"]
    async with connect(flags) as cluster:
        matched = await _matched(cluster, words)
        if not matched:
            return
        is_renamed = flags["is-renamed"]
        nodes = with_state(matched, skyhook, verbose=flags["verbose"], has_malformed=is_renamed)
        if not nodes:
            click.echo(f"No nodes have state for {cluster.group.kind} {quote(skyhook)}")
            return
        show_nodes(cluster, skyhook, nodes)
        if flags["dry-run"]:
            click.echo("\n[dry-run] No changes applied")
            return
        if not flags["confirm"]:
            click.echo(
                f"\nThis will remove ALL package state for {cluster.group.kind} {quote(skyhook)} on these nodes."
            )
            click.echo("All packages will re-run from the beginning.")
            if not confirm():
                return
        await reset_nodes(cluster, skyhook, nodes, Extent.STATUS if is_renamed else Extent.STATE)


async def ignore(words: Sequence[str], flags: dict[str, Any]) -> None:
    await _label(words, flags, wanted=True)


async def unignore(words: Sequence[str], flags: dict[str, Any]) -> None:
    await _label(words, flags, wanted=False)


async def _label(words: Sequence[str], flags: dict[str, Any], *, wanted: bool) -> None:
    async with connect(flags) as cluster:
        nodes = await _matched(cluster, words)
        if not nodes:
            return
        click.echo(f"{'Ignoring' if wanted else 'Unignoring'} {len(nodes)} node(s):")
        for node in nodes:
            click.echo(f"  - {node.metadata.name}")
        if flags["dry-run"]:
            click.echo("\n[dry-run] No changes applied")
            return
        await _set_labels(cluster, nodes, wanted=wanted)


async def _set_labels(cluster: Cluster, nodes: Sequence[Node], *, wanted: bool) -> None:
    errors, done = list[str](), 0
    for node in nodes:
        name = node.metadata.name
        if (node.metadata.labels.get(IGNORE) == TRUE) is wanted:
            click.echo(f"  {name}: {'already' if wanted else 'not'} ignored")
            continue
        try:
            await cluster.patch_node(name, {"metadata": {"labels": {IGNORE: TRUE if wanted else None}}})
        except KubeError as error:
            errors.append(f"{name}: {error}")
        else:
            done += 1
    show_errors("Errors updating some nodes:", errors)
    if done:
        click.echo(f"\nSuccessfully {'ignored' if wanted else 'unignored'} {done} node(s)")


async def _matched(cluster: Cluster, words: Sequence[str]) -> list[Node]:
    nodes = await cluster.nodes()
    wanted = matching(words, (node.metadata.name for node in nodes))
    if not wanted:
        click.echo("No nodes matched the specified patterns")
    return [node for node in nodes if node.metadata.name in wanted]
