"""Cordons nodes for a person, and notes on the Node why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from haulout.base.clock import SystemClock
from haulout.byhand.drain import NotPossible, find_nodes
from haulout.core.cordon import CORDON_REASON
from haulout.core.logbook.wire import LONGEST_REASON
from haulout.explain.home import endpoint_of
from haulout.kube.errors import KubeError
from haulout.kube.http import HttpTransport
from haulout.kube.writer import Writer
from haulout.model.meta import COMMAND_MANAGER
from haulout.model.node import Node
from haulout.runtime.interruption import run_command


def cordon_nodes(
    names: tuple[str, ...], selector: str, reason: str, cluster: Mapping[str, Any], *, dry_run: bool
) -> int:
    endpoint = endpoint_of(cluster)
    try:
        return run_command(_cordon(names, selector, reason, HttpTransport(endpoint, SystemClock()), dry_run=dry_run))
    except (KubeError, NotPossible) as error:
        raise click.ClickException(str(error)) from None


async def _cordon(
    names: tuple[str, ...], selector: str, reason: str, transport: HttpTransport, *, dry_run: bool
) -> int:
    try:
        nodes = await find_nodes(names, selector, transport)
        if not nodes:
            click.echo("no node has these labels", err=True)
            return 1
        writer = Writer(transport, manager=COMMAND_MANAGER)
        return max([await _one(node, reason, writer, dry_run=dry_run) for node in nodes])
    finally:
        await transport.close()


async def _one(node: Node, reason: str, writer: Writer, *, dry_run: bool) -> int:
    name, known = node.metadata.name, node.metadata.annotations.get(CORDON_REASON, "")
    if node.spec.unschedulable and (not reason or reason == known):
        click.echo(f"node/{name} already cordoned")
        return 0
    if dry_run:
        click.echo(f"node/{name} would be cordoned")
        return 0
    body: dict[str, Any] = {"spec": {"unschedulable": True}}
    if reason:
        body["metadata"] = {"annotations": {CORDON_REASON: reason[:LONGEST_REASON]}}
    try:
        await writer.merge_patch(f"/api/v1/nodes/{name}", body, key=name)
    except KubeError as error:
        click.echo(f"Error: node/{name} cannot be cordoned: {error}", err=True)
        return 1
    click.echo(f"node/{name} cordoned")
    return 0
