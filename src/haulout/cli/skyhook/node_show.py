"""`skyhook node list` and `skyhook node status`: print the progress of Skyhooks on nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from haulout.base.duration import quote
from haulout.cli.skyhook.cluster import NODE_STATE, connect, matching, with_state
from haulout.cli.skyhook.output import JSON, WIDE, YAML, show, show_table
from haulout.model.node import Node
from haulout.surfaces.packages.entries.entry import COMPLETE, ERRORING, IN_PROGRESS, UNKNOWN, NodeState, PackageEntry
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.wire import CORDONED_AFTER

TRUE = "true"


class Progress(NamedTuple):
    """The progress of one Skyhook on one node. `packages` are sorted by name and version.

    `is_cordoned`: the Skyhook keeps the node cordoned. `is_cordoned_after_taint`: it was cordoned when it lost its taint.
    """

    node: str
    skyhook: str
    packages: tuple[PackageEntry, ...]
    is_cordoned: bool = False
    is_cordoned_after_taint: bool = False

    @property
    def complete(self) -> int:
        return sum(entry.state == COMPLETE for entry in self.packages)

    @property
    def restarts(self) -> int:
        return sum(entry.restarts for entry in self.packages)

    @property
    def status(self) -> str:
        states = {entry.state for entry in self.packages}
        if ERRORING in states:
            return ERRORING
        if states == {COMPLETE}:
            return COMPLETE
        return IN_PROGRESS if states & {COMPLETE, IN_PROGRESS} else UNKNOWN

    @property
    def counts(self) -> str:
        return f"{self.complete}/{len(self.packages)}"


def progress(node: str, skyhook: str, state: NodeState) -> Progress:
    return Progress(node, skyhook, tuple(sorted(state.values(), key=lambda entry: (entry.name, entry.version))))


async def list_nodes(words: Sequence[str], flags: dict[str, Any]) -> None:
    skyhook = flags["skyhook"]
    async with connect(flags) as cluster:
        found = with_state(await cluster.nodes(), skyhook, verbose=flags["verbose"])
    nodes = [progress(each.name, skyhook, each.state) for each in found]
    if not nodes:
        click.echo(f"No nodes found for {flags['group'].kind} {quote(skyhook)}")
        return
    if flags["output"] in (JSON, YAML):
        show({"skyhookName": skyhook, "nodes": [_listed(each) for each in nodes]}, flags["output"])
        return
    click.echo(f"{flags['group'].kind}: {skyhook}\n\n{_summary(nodes)}\n")
    is_wide = flags["output"] == WIDE
    columns = ["NODE", "STATUS", "PACKAGES", *(["RESTARTS"] if is_wide else [])]
    show_table(columns, [_row(each, is_wide=is_wide) for each in nodes])


def _listed(each: Progress) -> dict[str, Any]:
    return {
        "nodeName": each.node,
        "status": each.status,
        "packagesComplete": each.complete,
        "packagesTotal": len(each.packages),
        "restarts": each.restarts,
    }


def _summary(nodes: Sequence[Progress]) -> str:
    statuses = [each.status for each in nodes]
    complete, erroring = statuses.count(COMPLETE), statuses.count(ERRORING)
    rest = len(nodes) - complete - erroring
    return f"Summary: {len(nodes)} nodes ({complete} complete, {erroring} erroring, {rest} in progress)"


def _row(each: Progress, *, is_wide: bool) -> list[str]:
    # Capitals make the state stand out that needs a person.
    status = each.status.upper() if each.status == ERRORING else each.status
    return [each.node, status, each.counts, *([str(each.restarts)] if is_wide else [])]


async def node_status(words: Sequence[str], flags: dict[str, Any]) -> None:
    async with connect(flags) as cluster:
        nodes = await cluster.nodes()
    if words:
        wanted = matching(words, (node.metadata.name for node in nodes))
        nodes = [node for node in nodes if node.metadata.name in wanted]
        if not nodes:
            click.echo("No nodes matched the specified patterns")
            return
    found = [each for node in nodes for each in _activity(node, flags["skyhook"], verbose=flags["verbose"])]
    if not found:
        click.echo(f"No {flags['group'].kind} activity found on specified nodes")
    elif flags["output"] in (JSON, YAML):
        show(
            [{**_detailed(each), **(_cordons(each) if flags["is-renamed"] else {})} for each in found], flags["output"]
        )
    elif flags["output"] == WIDE:
        columns = ["NODE", "SKYHOOK", "PACKAGE", "VERSION", "STAGE", "STATE", "RESTARTS", "IMAGE"]
        show_table(columns, [_package_row(each, entry) for each in found for entry in each.packages])
    else:
        more = ("CORDONED", "RUNTIME-REQUIRED-CORDON") if flags["is-renamed"] else ()
        rows = [[each.node, each.skyhook, each.status, each.counts, *_cordon_cells(each, more)] for each in found]
        show_table(["NODE", "SKYHOOK", "STATUS", "PACKAGES", *more], rows)


def _cordons(each: Progress) -> dict[str, bool]:
    return {"cordoned": each.is_cordoned, "runtimeRequiredCordon": each.is_cordoned_after_taint}


def _cordon_cells(each: Progress, columns: Sequence[str]) -> list[str]:
    return [str(value).lower() for value in _cordons(each).values()] if columns else []


def _activity(node: Node, only: str, *, verbose: bool) -> list[Progress]:
    """Return the progress of each Skyhook that has a state on the node, sorted by name. `only`: of this one alone."""
    marks = [mark for mark in node.metadata.annotations if mark.startswith(NODE_STATE)]
    names = sorted(mark.removeprefix(NODE_STATE) for mark in marks)
    wanted = [name for name in names if name == only or not only]
    found = [(name, each) for name in wanted for each in with_state([node], name, verbose=verbose)]
    notes = node.metadata.annotations
    return [
        progress(each.name, name, each.state)._replace(
            is_cordoned=notes.get(node_names.cordon(name)) == TRUE, is_cordoned_after_taint=CORDONED_AFTER in notes
        )
        for name, each in found
    ]


def _detailed(each: Progress) -> dict[str, Any]:
    packages = [
        {
            "name": entry.name,
            "version": entry.version,
            "stage": entry.stage,
            "state": entry.state,
            "restarts": entry.restarts,
            **({"image": entry.image} if entry.image else {}),
        }
        for entry in each.packages
    ]
    return {
        "nodeName": each.node,
        "skyhookName": each.skyhook,
        "status": each.status,
        "packagesComplete": each.complete,
        "packagesTotal": len(each.packages),
        **({"packages": packages} if packages else {}),
    }


def _package_row(each: Progress, entry: PackageEntry) -> list[str]:
    row = [each.node, each.skyhook, entry.name, entry.version, entry.stage, entry.state]
    return [*row, str(entry.restarts), entry.image]
