"""`skyhook package status` and `skyhook package rerun`: show one package on many nodes, or run it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from haulout.base.duration import quote
from haulout.cli.skyhook.cluster import NODE_STATE, Cluster, NodeOf, connect, matching, with_state
from haulout.cli.skyhook.output import JSON, WIDE, YAML, Failed, confirm, show, show_errors, show_table
from haulout.kube.errors import Conflict, KubeError
from haulout.surfaces.packages.entries.entry import (
    IN_PROGRESS,
    MalformedNodeState,
    NodeState,
    PackageEntry,
    entry_members,
    parse,
    to_text,
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
        click.echo(f"No package status found for skyhook {quote(name)}")
    elif flags["output"] in (JSON, YAML):
        show([{**entry_members(entry), "nodeName": node} for node, entry in found], flags["output"])
    else:
        _show_found(skyhook, name, found, is_wide=flags["output"] == WIDE)


def _of_package(state: NodeState, package: str) -> list[PackageEntry]:
    found = [entry for entry in state.values() if entry.name == package]
    return sorted(found, key=lambda entry: entry.version)


def _show_found(skyhook: Skyhook, name: str, found: Sequence[tuple[str, PackageEntry]], *, is_wide: bool) -> None:
    packages = sorted(f"{key}:{package.version}" for key, package in skyhook.spec.packages.items())
    click.echo(f"Skyhook: {name}\nPackages: {', '.join(packages)}\n")
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
            raise Failed(f"package {quote(package)} not found in skyhook {quote(name)}")
        nodes = with_state(await cluster.nodes(), name, verbose=flags["verbose"])
        matched = matching(flags["node"], (each.name for each in nodes))
        if not matched:
            click.echo("No nodes matched the specified patterns")
            return
        nodes = [each for each in nodes if each.name in matched and wanted.key in each.state]
        if not nodes:
            click.echo(f"Package {quote(package)} (version {wanted.version}) has no state on matched nodes")
            return
        click.echo(f"Package: {package} (version {wanted.version})\nSkyhook: {name}")
        _show_rerun(nodes, wanted.key, stage)
        if flags["dry-run"]:
            click.echo("\n[dry-run] No changes applied")
            return
        if not flags["confirm"] and not _confirmed(stage):
            return
        await _rerun(cluster, name, package, nodes, wanted.key, stage)


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


async def _rerun(cluster: Cluster, skyhook: str, package: str, nodes: Sequence[NodeOf], key: str, stage: str) -> None:
    errors, done = list[str](), 0
    for each in nodes:
        try:
            await _rerun_on(cluster, each.name, f"{NODE_STATE}{skyhook}", key, stage)
        except (KubeError, MalformedNodeState) as error:
            errors.append(f"{each.name}: {error}")
        else:
            done += 1
    show_errors("Errors updating some nodes:", errors)
    if done:
        click.echo(f"\nSuccessfully reset package {quote(package)} on {done} node(s)")


async def _rerun_on(cluster: Cluster, name: str, mark: str, key: str, stage: str) -> None:
    """Change the entry of one package in a node's state, so that the operator runs it again.

    The operator writes the same annotation, so each patch names the resource version and is repeated after a conflict.
    """
    for attempt in range(ATTEMPTS):
        node = await cluster.node(name)
        state = _changed(parse(node.metadata.annotations.get(mark, "{}")), key, stage)
        patch = {"metadata": {"annotations": {mark: to_text(state) if state else None}}}
        try:
            await cluster.patch_node(name, patch, node.metadata.resource_version)
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return


def _changed(state: NodeState, key: str, stage: str) -> NodeState:
    if not stage or key not in state:
        return without(state, key)
    return with_entry(state, msgspec.structs.replace(state[key], stage=stage, state=IN_PROGRESS))
