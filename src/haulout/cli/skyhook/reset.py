"""`skyhook reset` and `skyhook deployment-policy reset`: start a whole rollout again, or only the count of its waves."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum, auto
from typing import Any

import click
import msgspec

from haulout.base.duration import quote
from haulout.base.selector import SelectorError
from haulout.cli.skyhook.cluster import NODE_STATE, Cluster, NodeOf, connect, with_state
from haulout.cli.skyhook.output import Failed, confirm, show_errors
from haulout.cli.skyhook.package_reset import reset_package
from haulout.core.cordon import ANNOTATION
from haulout.kube.errors import KubeError
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.wire import PREFIX, Skyhook, selector_of
from haulout.surfaces.packages.wire_status import BatchState

# The rest of such an annotation's name is the taint, not the Skyhook.
AUTO_TAINT = f"{PREFIX}autoTaint_"
# A merge patch removes the fields that are null, and would leave those that are missing.
FRESH_BATCH: dict[str, Any] = {
    **dict.fromkeys(field.encode_name for field in msgspec.structs.fields(BatchState)),
    "currentBatch": 1,
}


class Extent(Enum):
    """How much of a Skyhook's marks is removed from a node.

    `STATE`: the entries of its packages. `STATUS`: also its status, and what is noted about a drain. `ALL`: everything, and its
    cordon.
    """

    STATE = auto()
    STATUS = auto()
    ALL = auto()


async def reset(words: Sequence[str], flags: dict[str, Any]) -> None:
    name, is_renamed = words[0], flags["is-renamed"]
    async with connect(flags) as cluster:
        found = await cluster.nodes()
        nodes = with_state(found, name, verbose=flags["verbose"], has_malformed=is_renamed and not flags["package"])
        if flags["package"]:
            await reset_package(cluster, name, flags["package"], nodes, flags)
            return
        if not nodes:
            click.echo(f"No nodes have state for {cluster.group.kind} {quote(name)}")
            return
        show_nodes(cluster, name, nodes)
        if not flags["skip-batch-reset"]:
            click.echo("\nBatch state will also be reset (use --skip-batch-reset to preserve)")
        if flags["dry-run"]:
            click.echo("\n[dry-run] No changes applied")
            return
        if not flags["confirm"] and not _confirmed(f"{cluster.group.kind} {quote(name)}", len(nodes), flags):
            return
        # The operator ends the cordon of a node that it still works on.
        cordoned = await _selected(cluster, name, nodes) if is_renamed else frozenset()
        await reset_nodes(cluster, name, nodes, Extent.ALL, cordoned)
        if not flags["skip-batch-reset"]:
            await _reset_batches_too(cluster, name)


async def reset_policy(words: Sequence[str], flags: dict[str, Any]) -> None:
    name = words[0]
    async with connect(flags) as cluster:
        skyhook = await cluster.skyhook(name)
        compartments = skyhook.status.compartment_statuses
        if not compartments:
            click.echo(f"{cluster.group.kind} {quote(name)} has no compartment statuses to reset")
            return
        _show_batches(f"{cluster.group.kind}: {name}", skyhook)
        if flags["dry-run"]:
            click.echo("\n[dry-run] Would reset batch state to:")
            for field in ("CurrentBatch: 1", "ConsecutiveFailures: 0", "CompletedNodes: 0", "FailedNodes: 0"):
                click.echo(f"  - {field}")
            click.echo("  - ShouldStop: false")
            click.echo("\n[dry-run] No changes applied")
            return
        if not flags["confirm"]:
            click.echo(f"\nThis will reset the batch state for {cluster.group.kind} {quote(name)}.")
            click.echo("The next reconciliation will start from batch 1.")
            if not confirm():
                return
        try:
            await _reset_batches(cluster, name, skyhook)
        except KubeError as error:
            raise Failed(f"patching {cluster.group.word} status: {error}") from None
        click.echo(f"\nSuccessfully reset batch state for {cluster.group.kind} {quote(name)}")


async def _selected(cluster: Cluster, name: str, nodes: Sequence[NodeOf]) -> frozenset[str]:
    """Return the names of the nodes that the Skyhook still selects; none if it does not exist or its selector is invalid."""
    try:
        selector = selector_of((await cluster.skyhook(name)).spec.node_selectors)
    except (Failed, SelectorError):
        return frozenset()
    return frozenset(each.name for each in nodes if selector.matches(each.node.metadata.labels))


def show_nodes(cluster: Cluster, skyhook: str, nodes: Sequence[NodeOf]) -> None:
    click.echo(f"{cluster.group.kind}: {skyhook}\nNodes to reset ({len(nodes)}):")
    for each in nodes:
        click.echo(f"  - {each.name} ({'malformed state' if each.is_malformed else f'{len(each.state)} packages'})")


async def reset_nodes(
    cluster: Cluster, skyhook: str, nodes: Sequence[NodeOf], extent: Extent, cordoned: Collection[str] = ()
) -> None:
    """Remove the marks of a Skyhook from nodes. `cordoned`: the nodes that stay cordoned."""
    errors, done = list[str](), 0
    for each in nodes:
        try:
            await cluster.patch_node(each.name, _removal(each, skyhook, extent, is_kept=each.name in cordoned))
        except KubeError as error:
            errors.append(f"{each.name}: {error}")
        else:
            done += 1
    show_errors("Errors resetting some nodes:", errors)
    if done:
        click.echo(f"\nSuccessfully reset {done} node(s) for {cluster.group.kind} {quote(skyhook)}")


def _removal(each: NodeOf, skyhook: str, extent: Extent, *, is_kept: bool) -> dict[str, Any]:
    """Return the patch of one node. `is_kept`: its cordon stays."""
    present = each.node.metadata.annotations
    if extent is Extent.STATE:
        return {"metadata": {"annotations": {f"{NODE_STATE}{skyhook}": None}}}
    words = (node_names.node_state, node_names.status, node_names.drain_start, node_names.drain_blocks)
    removed = {word(skyhook) for word in words}
    if extent is Extent.ALL:
        cordons = {node_names.cordon(skyhook), node_names.cordon_before(skyhook)} if is_kept else set()
        taints = {mark for mark in present if mark.startswith(AUTO_TAINT)}
        removed = {*node_names.all_of(skyhook), *taints} - cordons
    annotations = dict.fromkeys(sorted(removed & set(present)))
    label = node_names.status(skyhook)
    labels = {label: None} if label in each.node.metadata.labels else {}
    patch: dict[str, Any] = {"metadata": {"annotations": annotations, **({"labels": labels} if labels else {})}}
    if extent is Extent.ALL and not is_kept and _may_uncordon(each, skyhook):
        patch["spec"] = {"unschedulable": None}
    return patch


def _may_uncordon(each: NodeOf, skyhook: str) -> bool:
    """Whether the node is cordoned for this Skyhook alone. With Haulout's cordon ledger, Haulout uncordons it itself."""
    present = each.node.metadata.annotations
    own = node_names.cordon(skyhook)
    others = [mark for mark in present if mark.startswith(node_names.CORDON_PREFIX) and mark != own]
    is_ours = own in present and node_names.cordon_before(skyhook) not in present
    return each.node.spec.unschedulable and is_ours and not others and ANNOTATION not in present


def _confirmed(what: str, count: int, flags: dict[str, Any]) -> bool:
    click.echo(f"\nThis will remove ALL package state for {what} on {count} node(s).")
    click.echo("All packages will re-run from the beginning.")
    if not flags["skip-batch-reset"]:
        click.echo("Batch state will be reset to start from batch 1.")
    return confirm()


async def _reset_batches_too(cluster: Cluster, name: str) -> None:
    try:
        skyhook = await cluster.skyhook(name)
    except Failed as error:
        click.echo(f"Warning: failed to get {cluster.group.word} for batch reset: {error}", err=True)
        return
    if not skyhook.status.compartment_statuses and not skyhook.status.node_order_offset:
        return
    try:
        await _reset_batches(cluster, name, skyhook, order=True)
    except KubeError as error:
        click.echo(f"Warning: failed to reset batch state: {error}", err=True)
        return
    click.echo(f"Batch state reset for {cluster.group.kind} {quote(name)}")


async def _reset_batches(cluster: Cluster, name: str, skyhook: Skyhook, *, order: bool = False) -> None:
    changes: dict[str, Any] = {
        "compartmentStatuses": {
            compartment: {"batchState": FRESH_BATCH, "gate": None}
            for compartment in skyhook.status.compartment_statuses
        },
        # A rollout that a gate has halted starts again, too.
        "halt": None,
    }
    if order:
        changes["nodeOrderOffset"] = None
    await cluster.patch_skyhook(name, {"status": changes}, "status")


def _show_batches(title: str, skyhook: Skyhook) -> None:
    compartments = sorted(skyhook.status.compartment_statuses.items())
    states = [(compartment, status.batch_state) for compartment, status in compartments if status.batch_state]
    click.echo(f"{title}\nCompartments: {len(compartments)} total, {len(states)} with batch state")
    if states:
        click.echo("\nCurrent batch state:")
    for compartment, state in states:
        numbers = f"{state.completed_nodes} completed, {state.failed_nodes} failed"
        click.echo(f"  - {compartment}: batch {state.current_batch}, {numbers}")
