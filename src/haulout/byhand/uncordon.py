"""Uncordons nodes one after the other, and reads from each who claims it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import click

from haulout.base.clock import SystemClock
from haulout.byhand.drain import NotPossible, find_nodes
from haulout.cluster.key import node_key
from haulout.cluster.rows import NodeRow
from haulout.core.cordon import ANNOTATION, ledger
from haulout.explain.snapshot import endpoint_of
from haulout.kube.errors import KubeError
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.model.node import Node
from haulout.surfaces.nodemaintenance.tainted_nodes import left_behind
from haulout.surfaces.nodemaintenance.wire import DRAIN_TAINT, RESOURCE, NodeMaintenance
from haulout.surfaces.profiles.wire import STATE_LABEL

IN_MAINTENANCE = "in-maintenance"
# The annotations by which other surfaces show a claim, and whose they are.
CLAIM_ANNOTATIONS = {"haulout.dev/cordoned-by": "a NotifyMaintenance"}
PREFIXES = {"skyhook.nvidia.com/cordon_": "Skyhook {}"}


def uncordon_nodes(names: tuple[str, ...], selector: str, cluster: Mapping[str, Any], *, dry_run: bool) -> int:
    endpoint = endpoint_of(cluster)
    try:
        return asyncio.run(_uncordon(names, selector, HttpTransport(endpoint, SystemClock()), dry_run=dry_run))
    except (KubeError, NotPossible) as error:
        raise click.ClickException(str(error)) from None


async def _uncordon(names: tuple[str, ...], selector: str, transport: HttpTransport, *, dry_run: bool) -> int:
    try:
        nodes = await find_nodes(names, selector, transport)
        if not nodes:
            click.echo("no node has these labels", err=True)
            return 1
        maintenances = await _maintenances(nodes, transport)
        writer = Writer(transport)
        return max([await _one(node, maintenances, writer, dry_run=dry_run) for node in nodes])
    finally:
        await transport.close()


async def _one(node: Node, maintenances: Mapping[str, list[str]] | None, writer: Writer, *, dry_run: bool) -> int:
    name = node.metadata.name
    for claim in claims(node, None if maintenances is None else maintenances.get(name, [])):
        click.echo(f"Warning: node/{name}: {claim}", err=True)
    if not node.spec.unschedulable:
        click.echo(f"node/{name} already uncordoned")
        return 0
    if dry_run:
        click.echo(f"node/{name} would be uncordoned")
        return 0
    try:
        await writer.merge_patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}}, key=name)
    except KubeError as error:
        click.echo(f"Error: node/{name} cannot be uncordoned: {error}", err=True)
        return 1
    click.echo(f"node/{name} uncordoned")
    return 0


def claims(node: Node, maintenances: list[str] | None) -> list[str]:
    """Who holds the node, as far as its own annotations and taints show it, and what comes of uncordoning it.

    `maintenances`: the NodeMaintenances of the node; None: they cannot be read.
    """
    meta = node.metadata
    found: list[str] = []
    tainted = any((taint.key, taint.effect) == (DRAIN_TAINT.key, DRAIN_TAINT.effect) for taint in node.spec.taints)
    if maintenances:
        names = ", ".join(maintenances)
        found.append(
            f"NodeMaintenance {names} holds it and will cordon it again; to end it: kubectl delete nm {' '.join(maintenances)}"
        )
    elif tainted and maintenances is None:
        found.append(f"a NodeMaintenance holds it (taint {DRAIN_TAINT.key}) and may cordon it again")
    elif tainted:
        # Not only the taint is left, which is all that would be thought of by hand.
        act = left_behind(node_key(meta.name)).act
        found.append(f"the taint of a NodeMaintenance that does not exist any more keeps pods away; {act}")
    if meta.labels.get(STATE_LABEL) == IN_MAINTENANCE:
        found.append(f"a maintenance profile is at work on it (label {STATE_LABEL}={IN_MAINTENANCE})")
    entry = ledger(NodeRow(key=node_key(meta.name), annotations=meta.annotations))
    if entry is not None and entry.by:
        found.append(f"{', '.join(entry.by)} cordoned it (annotation {ANNOTATION})")
    found += [
        f"{who} holds it (annotation {name})" for name, who in CLAIM_ANNOTATIONS.items() if name in meta.annotations
    ]
    for prefix, who in PREFIXES.items():
        prefixed = [name for name in meta.annotations if name.startswith(prefix)]
        found += [f"{who.format(name.removeprefix(prefix))} holds it (annotation {name})" for name in prefixed]
    return found


async def _maintenances(nodes: list[Node], transport: Transport) -> dict[str, list[str]] | None:
    """The NodeMaintenances by node, where any sign of one is seen; None: they may not be read."""
    if not any(taint.key == DRAIN_TAINT.key for node in nodes for taint in node.spec.taints):
        return {}
    try:
        maintenances = await read_list(transport, RESOURCE.path, NodeMaintenance)
    except KubeError:
        return None
    found: dict[str, list[str]] = {}
    for item in maintenances:
        if item.spec is not None:
            found.setdefault(item.spec.node_name, []).append(item.metadata.name)
    return found
