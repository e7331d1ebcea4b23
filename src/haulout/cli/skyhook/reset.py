"""`skyhook reset` and `skyhook deployment-policy reset`: start a whole rollout again, or only the count of its waves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from haulout.base.duration import quote
from haulout.cli.skyhook.cluster import NODE_STATE, Cluster, NodeOf, connect, with_state
from haulout.cli.skyhook.output import Failed, confirm, show_errors
from haulout.core.cordon import ANNOTATION
from haulout.kube.errors import KubeError
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.wire import PREFIX, Skyhook
from haulout.surfaces.packages.wire_status import BatchState

# The rest of such an annotation's name is the taint, not the Skyhook.
AUTO_TAINT = f"{PREFIX}autoTaint_"
# A merge patch removes the fields that are null, and would leave those that are missing.
FRESH_BATCH: dict[str, Any] = {
    **dict.fromkeys(field.encode_name for field in msgspec.structs.fields(BatchState)),
    "currentBatch": 1,
}


async def reset(words: Sequence[str], flags: dict[str, Any]) -> None:
    name = words[0]
    async with connect(flags) as cluster:
        nodes = with_state(await cluster.nodes(), name, verbose=flags["verbose"])
        if not nodes:
            click.echo(f"No nodes have state for Skyhook {quote(name)}")
            return
        show_nodes(name, nodes)
        if not flags["skip-batch-reset"]:
            click.echo("\nBatch state will also be reset (use --skip-batch-reset to preserve)")
        if flags["dry-run"]:
            click.echo("\n[dry-run] No changes applied")
            return
        if not flags["confirm"] and not _confirmed(name, len(nodes), flags):
            return
        await reset_nodes(cluster, name, nodes, whole=True)
        if not flags["skip-batch-reset"]:
            await _reset_batches_too(cluster, name)


async def reset_policy(words: Sequence[str], flags: dict[str, Any]) -> None:
    name = words[0]
    async with connect(flags) as cluster:
        skyhook = await cluster.skyhook(name)
        compartments = skyhook.status.compartment_statuses
        if not compartments:
            click.echo(f"Skyhook {quote(name)} has no compartment statuses to reset")
            return
        _show_batches(name, skyhook)
        if flags["dry-run"]:
            click.echo("\n[dry-run] Would reset batch state to:")
            for field in ("CurrentBatch: 1", "ConsecutiveFailures: 0", "CompletedNodes: 0", "FailedNodes: 0"):
                click.echo(f"  - {field}")
            click.echo("  - ShouldStop: false")
            click.echo("\n[dry-run] No changes applied")
            return
        if not flags["confirm"]:
            click.echo(f"\nThis will reset the batch state for Skyhook {quote(name)}.")
            click.echo("The next reconciliation will start from batch 1.")
            if not confirm():
                return
        try:
            await _reset_batches(cluster, name, skyhook)
        except KubeError as error:
            raise Failed(f"patching skyhook status: {error}") from None
        click.echo(f"\nSuccessfully reset batch state for Skyhook {quote(name)}")


def show_nodes(skyhook: str, nodes: Sequence[NodeOf]) -> None:
    click.echo(f"Skyhook: {skyhook}\nNodes to reset ({len(nodes)}):")
    for each in nodes:
        click.echo(f"  - {each.name} ({len(each.state)} packages)")


async def reset_nodes(cluster: Cluster, skyhook: str, nodes: Sequence[NodeOf], *, whole: bool) -> None:
    """Remove the state of a Skyhook from nodes. `whole`: also its other annotations, its label and its cordon."""
    errors, done = list[str](), 0
    for each in nodes:
        patch = _removal(each, skyhook) if whole else {"metadata": {"annotations": {f"{NODE_STATE}{skyhook}": None}}}
        try:
            await cluster.patch_node(each.name, patch)
        except KubeError as error:
            errors.append(f"{each.name}: {error}")
        else:
            done += 1
    show_errors("Errors resetting some nodes:", errors)
    if done:
        click.echo(f"\nSuccessfully reset {done} node(s) for Skyhook {quote(skyhook)}")


def _removal(each: NodeOf, skyhook: str) -> dict[str, Any]:
    present = each.node.metadata.annotations
    removed = node_names.all_of(skyhook) | {mark for mark in present if mark.startswith(AUTO_TAINT)}
    annotations = dict.fromkeys(sorted(removed & set(present)))
    label = node_names.status(skyhook)
    labels = {label: None} if label in each.node.metadata.labels else {}
    patch: dict[str, Any] = {"metadata": {"annotations": annotations, **({"labels": labels} if labels else {})}}
    if _may_uncordon(each, skyhook):
        patch["spec"] = {"unschedulable": None}
    return patch


def _may_uncordon(each: NodeOf, skyhook: str) -> bool:
    """Whether the node is cordoned for this Skyhook alone. With Haulout's cordon ledger, Haulout uncordons it itself."""
    present = each.node.metadata.annotations
    own = node_names.cordon(skyhook)
    others = [mark for mark in present if mark.startswith(node_names.CORDON_PREFIX) and mark != own]
    is_ours = own in present and node_names.cordon_before(skyhook) not in present
    return each.node.spec.unschedulable and is_ours and not others and ANNOTATION not in present


def _confirmed(name: str, count: int, flags: dict[str, Any]) -> bool:
    click.echo(f"\nThis will remove ALL package state for Skyhook {quote(name)} on {count} node(s).")
    click.echo("All packages will re-run from the beginning.")
    if not flags["skip-batch-reset"]:
        click.echo("Batch state will be reset to start from batch 1.")
    return confirm()


async def _reset_batches_too(cluster: Cluster, name: str) -> None:
    try:
        skyhook = await cluster.skyhook(name)
    except Failed as error:
        click.echo(f"Warning: failed to get skyhook for batch reset: {error}", err=True)
        return
    if not skyhook.status.compartment_statuses and not skyhook.status.node_order_offset:
        return
    try:
        await _reset_batches(cluster, name, skyhook, order=True)
    except KubeError as error:
        click.echo(f"Warning: failed to reset batch state: {error}", err=True)
        return
    click.echo(f"Batch state reset for Skyhook {quote(name)}")


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


def _show_batches(name: str, skyhook: Skyhook) -> None:
    compartments = sorted(skyhook.status.compartment_statuses.items())
    states = [(compartment, status.batch_state) for compartment, status in compartments if status.batch_state]
    click.echo(f"Skyhook: {name}\nCompartments: {len(compartments)} total, {len(states)} with batch state")
    if states:
        click.echo("\nCurrent batch state:")
    for compartment, state in states:
        numbers = f"{state.completed_nodes} completed, {state.failed_nodes} failed"
        click.echo(f"  - {compartment}: batch {state.current_batch}, {numbers}")
