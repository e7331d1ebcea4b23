"""`skyhook package status` and `skyhook package rerun`: show one package on many nodes, or run it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from haulout.base.duration import quote
from haulout.cli.skyhook.cluster import NodeOf, connect, matching, with_state
from haulout.cli.skyhook.entry_edit import change_entries
from haulout.cli.skyhook.output import JSON, WIDE, YAML, Failed, confirm, show, show_table
from haulout.surfaces.packages.entries.entry import (
    IN_PROGRESS,
    NodeState,
    PackageEntry,
    entry_members,
    with_entry,
    without,
)
from haulout.surfaces.packages.wire import Skyhook, normalize_spec

ATTEMPTS = 5


async def status(words: Sequence[str], flags: dict[str, Any]) -> None:
    name = flags["skyhook"]
    async with connect(flags) as cluster:
        skyhook = await cluster.skyhook(name)
        nodes = with_state(await cluster.nodes(), name, verbose=flags["verbose"])
    if flags["node"]:
        wanted = matching(flags["node"], (each.name for each in nodes))
        nodes = [each for each in nodes if each.name in wanted]
    found = [(each.name, entry) for each in nodes for entry in _of_package(each.state, words[0])]
    if not found:
        click.echo(f"No package status found for {flags['group'].word} {quote(name)}")
    elif flags["output"] in (JSON, YAML):
        show([{**entry_members(entry), "nodeName": node} for node, entry in found], flags["output"])
    else:
        _show_found(skyhook, f"{flags['group'].kind}: {name}", found, is_wide=flags["output"] == WIDE)


def _of_package(state: NodeState, package: str) -> list[PackageEntry]:
    found = [entry for entry in state.values() if entry.name == package]
    return sorted(found, key=lambda entry: entry.version)


def _show_found(skyhook: Skyhook, title: str, found: Sequence[tuple[str, PackageEntry]], *, is_wide: bool) -> None:
    packages = sorted(f"{key}:{package.version}" for key, package in skyhook.spec.packages.items())
    click.echo(f"{title}\nPackages: {', '.join(packages)}\n")
    columns = ["NODE", "PACKAGE", "VERSION", "STAGE", "STATE", *(["RESTARTS", "IMAGE"] if is_wide else [])]
    rows = []
    for node, entry in found:
        more = [str(entry.restarts), entry.image] if is_wide else []
        rows.append([node, entry.name, entry.version, entry.stage, entry.state, *more])
    show_table(columns, rows)


async def rerun(words: Sequence[str], flags: dict[str, Any]) -> None:
    package, name, stage = words[0], flags["skyhook"], flags["stage"]
    async with connect(flags) as cluster:
        skyhook = await cluster.skyhook(name)
        wanted = normalize_spec(skyhook.spec).packages.get(package)
        if wanted is None:
            raise Failed(f"package {quote(package)} not found in {cluster.group.word} {quote(name)}")
        nodes = with_state(await cluster.nodes(), name, verbose=flags["verbose"])
        matched = matching(flags["node"], (each.name for each in nodes))
        if not matched:
            click.echo("No nodes matched the specified patterns")
            return
        nodes = [each for each in nodes if each.name in matched and wanted.key in each.state]
        if not nodes:
            click.echo(f"Package {quote(package)} (version {wanted.version}) has no state on matched nodes")
            return
        click.echo(f"Package: {package} (version {wanted.version})\n{cluster.group.kind}: {name}")
        _show_rerun(nodes, wanted.key, stage)
        if flags["dry-run"]:
            click.echo("\n[dry-run] No changes applied")
            return
        if not flags["confirm"] and not _confirmed(stage):
            return
        act = f"reset package {quote(package)}"
        await change_entries(cluster, name, nodes, lambda state: _changed(state, wanted.key, stage), act)


def _show_rerun(nodes: Sequence[NodeOf], key: str, stage: str) -> None:
    if stage:
        click.echo(f"Re-run from stage: {stage}")
    click.echo(f"Nodes to reset ({len(nodes)}):")
    for each in nodes:
        entry = each.state[key]
        click.echo(f"  - {each.name} (current state: {entry.state}, stage: {entry.stage})")


def _confirmed(stage: str) -> bool:
    if stage:
        click.echo(f"\nThis will reset package state to re-run from the '{stage}' stage.")
    else:
        click.echo(
            "\nThis will remove package state from node annotations and cause the package to re-run from the beginning."
        )
    return confirm()


def _changed(state: NodeState, key: str, stage: str) -> NodeState:
    if not stage or key not in state:
        return without(state, key)
    return with_entry(state, msgspec.structs.replace(state[key], stage=stage, state=IN_PROGRESS))
