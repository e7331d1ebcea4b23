"""`nodewright update-state`: set where a package is on nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from haulout.base.duration import quote
from haulout.base.selector import SelectorError, parse
from haulout.cli.skyhook.cluster import Cluster, NodeOf, connect, matching, with_state
from haulout.cli.skyhook.entry_edit import change_entries, is_to_be_done
from haulout.cli.skyhook.output import Failed
from haulout.surfaces.packages.entries.entry import STAGES, STATES, NodeState, PackageEntry, entry_key, with_entry
from haulout.surfaces.packages.wire import Skyhook, normalize_spec, selector_of


async def update_state(words: Sequence[str], flags: dict[str, Any]) -> None:
    """Set stage and state of one package version on nodes. `--add`: also where the node has no entry of it."""
    name, package, version, stage, state = words
    if stage not in STAGES:
        raise Failed(f"invalid stage {quote(stage)}: must be one of {', '.join(STAGES)}")
    if state not in STATES:
        raise Failed(f"invalid state {quote(state)}: must be one of {', '.join(STATES)}")
    key = entry_key(package, version)
    async with connect(flags) as cluster:
        skyhook = await cluster.skyhook(name)
        nodes = await _nodes(cluster, skyhook, name, flags)
        found = [each for each in nodes if flags["add"] or key in each.state]
        if not found:
            click.echo(f"Package {quote(package)} (version {version}) has no state on matched nodes")
            return

        def updated(state_of_node: NodeState) -> NodeState:
            known = state_of_node.get(key) or _new_entry(skyhook, package, version)
            return with_entry(state_of_node, msgspec.structs.replace(known, stage=stage, state=state))

        click.echo(f"Package: {package} (version {version})\n{cluster.group.kind}: {name}\nNew state: {stage} {state}")
        text = "This will change where the operator believes the package to be. Nothing on the nodes is undone."
        if is_to_be_done(found, text, flags):
            await change_entries(cluster, name, found, updated, f"updated package {quote(package)}")


async def _nodes(cluster: Cluster, skyhook: Skyhook, name: str, flags: dict[str, Any]) -> list[NodeOf]:
    """Return the nodes that the flags name, with their entries: otherwise those with a state, or those that are selected."""
    listed = await cluster.nodes()
    stated = {each.name: each for each in with_state(listed, name, verbose=flags["verbose"])}
    nodes = [stated.get(node.metadata.name) or NodeOf(node, {}) for node in listed]
    if flags["node"]:
        wanted = matching(flags["node"], (each.name for each in nodes))
        return [each for each in nodes if each.name in wanted]
    try:
        selector = parse(flags["selector"]) if flags["selector"] else selector_of(skyhook.spec.node_selectors)
    except SelectorError as error:
        raise Failed(f"invalid label selector: {error}") from None
    return [each for each in nodes if selector.matches(each.node.metadata.labels)]


def _new_entry(skyhook: Skyhook, package: str, version: str) -> PackageEntry:
    known = normalize_spec(skyhook.spec).packages.get(package)
    is_known = known is not None and known.version == version
    return PackageEntry(package, version, known.image if known is not None and is_known else "")
