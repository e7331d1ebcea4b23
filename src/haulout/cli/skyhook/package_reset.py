"""`nodewright reset --package`: let one package run from the beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from haulout.base.duration import quote
from haulout.cli.skyhook.cluster import Cluster, NodeOf
from haulout.cli.skyhook.entry_edit import change_entries, is_to_be_done
from haulout.surfaces.packages.entries.entry import NodeState, PackageEntry


async def reset_package(
    cluster: Cluster, skyhook: str, package: str, nodes: Sequence[NodeOf], flags: dict[str, Any]
) -> None:
    """Remove the entries of one package, or of one of its versions, from nodes."""
    name, _, version = package.partition(":")

    def is_meant(entry: PackageEntry) -> bool:
        return entry.name == name and version in ("", entry.version)

    found = [each for each in nodes if any(map(is_meant, each.state.values()))]
    if not found:
        click.echo(f"Package {quote(package)} has no state on any node for {cluster.group.kind} {quote(skyhook)}")
        return
    await cluster.skyhook(skyhook)

    def without_package(state: NodeState) -> NodeState:
        return {key: entry for key, entry in state.items() if not is_meant(entry)}

    click.echo(f"Package: {package}\n{cluster.group.kind}: {skyhook}")
    text = f"This will remove the state of package {quote(package)}, which then runs from the beginning."
    if is_to_be_done(found, text, flags):
        await change_entries(cluster, skyhook, found, without_package, f"reset package {quote(package)}")
