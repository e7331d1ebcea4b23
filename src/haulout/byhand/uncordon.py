"""Uncordons nodes one after the other, and warns of surfaces whose labels, taints or annotations are on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from haulout.base.clock import SystemClock
from haulout.base.visible import visible
from haulout.byhand.drain import NotPossible, find_nodes
from haulout.byhand.records import close_records
from haulout.cluster.key import node_key
from haulout.cluster.rows import NodeRow
from haulout.core.archive import Archived
from haulout.core.cordon import ANNOTATION, CORDON_REASON, ledger
from haulout.core.node_signs import shows_sign, visible_signs
from haulout.core.surface import NodeSign, Surface
from haulout.explain.home import endpoint_of
from haulout.kube.errors import KubeError
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.model.meta import COMMAND_MANAGER
from haulout.model.node import Node
from haulout.runtime.interruption import run_command
from haulout.surfaces.registry import all_declarations, load


def uncordon_nodes(names: tuple[str, ...], selector: str, cluster: Mapping[str, Any], *, dry_run: bool) -> int:
    endpoint = endpoint_of(cluster)
    try:
        return run_command(_uncordon(names, selector, HttpTransport(endpoint, SystemClock()), dry_run=dry_run))
    except (KubeError, NotPossible) as error:
        raise click.ClickException(str(error)) from None


async def _uncordon(names: tuple[str, ...], selector: str, transport: HttpTransport, *, dry_run: bool) -> int:
    try:
        nodes = await find_nodes(names, selector, transport)
        if not nodes:
            click.echo("no node has these labels", err=True)
            return 1
        holders = await _holders(nodes, transport)
        writer = Writer(transport, manager=COMMAND_MANAGER)
        code = max([await _one(node, holders, writer, dry_run=dry_run) for node in nodes])
        if not dry_run and any(node.spec.unschedulable for node in nodes):
            await close_records({node.metadata.uid for node in nodes}, transport, writer, SystemClock().now())
        return code
    finally:
        await transport.close()


async def _one(
    node: Node, holders: Mapping[str, Mapping[str, list[str]] | None], writer: Writer, *, dry_run: bool
) -> int:
    name = node.metadata.name
    here = {surface: None if found is None else found.get(name, []) for surface, found in holders.items()}
    for claim in claims(node, here):
        click.echo(f"Warning: node/{name}: {claim}", err=True)
    reason = " ".join(visible(node.metadata.annotations.get(CORDON_REASON, "")).split())
    if reason and node.spec.unschedulable:
        click.echo(f"Warning: node/{name}: it was cordoned by hand: {reason}", err=True)
    if not node.spec.unschedulable:
        click.echo(f"node/{name} already uncordoned")
        return 0
    if dry_run:
        click.echo(f"node/{name} would be uncordoned")
        return 0
    try:
        body = {"spec": {"unschedulable": None}, "metadata": {"annotations": {CORDON_REASON: None}}}
        await writer.merge_patch(f"/api/v1/nodes/{name}", body if reason else {"spec": body["spec"]}, key=name)
    except KubeError as error:
        click.echo(f"Error: node/{name} cannot be uncordoned: {error}", err=True)
        return 1
    click.echo(f"node/{name} uncordoned")
    return 0


def claims(node: Node, holders: Mapping[str, list[str] | None]) -> list[str]:
    """Return a warning for each surface that holds the node, by its labels, taints and annotations.

    `holders`: for each surface, the names of its objects about the node; None if they cannot be read.
    """
    meta = node.metadata
    taints = [taint.key for taint in node.spec.taints]
    found: list[str] = []
    for surface in all_declarations():
        for sign in surface.signs:
            for place, text in visible_signs(sign, meta.labels, taints, meta.annotations):
                found.append(_claim(surface, sign, node, f"{text} ({place})", holders.get(surface.name)))
    entry = ledger(NodeRow(key=node_key(meta.name), annotations=meta.annotations))
    if entry is not None and entry.by:
        found.append(f"{', '.join(entry.by)} cordoned it (annotation {ANNOTATION})")
    return found


def _claim(surface: Surface, sign: NodeSign, node: Node, text: str, names: list[str] | None) -> str:
    """Return the warning about a surface's sign on a node. Its object may not exist any more.

    `text`: the warning for any sign. `names`: the surface's objects about the node; None if they cannot be read.
    """
    if not sign.orphan:
        return text
    if names is None or (names and not sign.taint):
        return f"{text} and may cordon it again"
    if names:
        kind, word = surface.explains[0].kind, min(surface.explains[0].words, key=len)
        return f"{kind} {', '.join(names)} holds it and will cordon it again; to end it: kubectl delete {word} {' '.join(names)}"
    # The maintenance may have left more than the taint. The act of the surface's reason removes all of it.
    act = load(sign.orphan)(node_key(node.metadata.name)).act
    kind = surface.explains[0].kind
    if sign.taint:
        return f"the taint of a {kind} that does not exist any more keeps pods away; {act}"
    return f"it has the mark of a {kind} that does not exist any more; {act}"


async def _holders(nodes: list[Node], transport: Transport) -> dict[str, dict[str, list[str]] | None]:
    """Return the objects of surfaces whose signs are on a node, by surface and node; None if they cannot be read."""
    found: dict[str, dict[str, list[str]] | None] = {}
    for surface in all_declarations():
        signs = tuple(sign for sign in surface.signs if sign.orphan)
        if any(_shows(signs, node) for node in nodes):
            found[surface.name] = await _objects(surface.archive[0], transport)
    return found


def _shows(signs: tuple[NodeSign, ...], node: Node) -> bool:
    meta = node.metadata
    return shows_sign(signs, meta.labels, (taint.key for taint in node.spec.taints), meta.annotations)


async def _objects(kind: Archived, transport: Transport) -> dict[str, list[str]] | None:
    """Return the names of the objects of a kind, by the node that they are about; None if they cannot be read."""
    try:
        model: Any = dict[str, Any]
        objects = await read_list(transport, f"/apis/{kind.group}/{kind.versions[0]}/{kind.plural}", model)
    except KubeError:
        return None
    by_node: dict[str, list[str]] = {}
    for obj in objects:
        node: Any = obj
        for name in kind.node.split("."):
            node = node.get(name) if isinstance(node, dict) else None
        if isinstance(node, str):
            by_node.setdefault(node, []).append(obj["metadata"]["name"])
    return by_node
