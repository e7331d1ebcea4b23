"""Explains a NotifyMaintenance: reads it, its node and the maintenances beside it, and says what moves it on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from haulout.base.clock import SystemClock
from haulout.cluster.project import RESOURCES, Keep, Projector
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.cluster.view import View
from haulout.explain.home import home_endpoint
from haulout.explain.setup import setup_of
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport
from haulout.surfaces.notify.explanation import Explanation, explanation
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.situation import situation_of
from haulout.surfaces.notify.surface import CONFIG_KEY
from haulout.surfaces.notify.wire import (
    ANNOTATIONS,
    KIND,
    NODE_ANNOTATIONS,
    RESOURCE,
    SURFACE,
    NotifyMaintenance,
    notice_key,
)

ANSWER_WITHIN = 30.0
MOST_SINGLE = 20
# The SLA where no settings are found.
SLA_FOR = timedelta(hours=1)


def explain_notice(name: str, config: str, output: str, cluster: Mapping[str, Any]) -> int:
    endpoint = home_endpoint(cluster, config)
    try:
        setup = setup_of(config, endpoint)
        options = setup.options(SURFACE) or Options(sla_for=SLA_FOR)
        found = asyncio.run(_explained(endpoint.namespace, name, options, endpoint))
    except KubeError as error:
        raise click.ClickException(f"NotifyMaintenance {endpoint.namespace}/{name} cannot be read: {error}") from None
    if found is None:
        raise click.ClickException(f"there is no NotifyMaintenance named {name} in namespace {endpoint.namespace}")
    text = msgspec.json.format(msgspec.json.encode(found), indent=2).decode() if output == "json" else as_text(found)
    click.echo(text)
    return 0


async def _explained(namespace: str, name: str, options: Options, endpoint: Endpoint) -> Explanation | None:
    home = HttpTransport(endpoint, SystemClock())
    store, key = Store(), notice_key(namespace, name)
    store.write(Value(key=CONFIG_KEY, value=options))
    try:
        await _read(store, home)
    finally:
        await home.close()
    situation = situation_of(key, View(store, explaining=True), datetime.now(UTC))
    return explanation(situation) if situation is not None else None


async def _read(store: Store, home: Transport) -> None:
    """Take all maintenances, which are few, and the nodes that they are about."""
    projector = Projector(RESOURCE, "", Keep(ANNOTATIONS))
    store.begin_list("", KIND)
    store.begin_list("", "Node")
    names = set()
    for obj in await read_list(home, RESOURCE.path, NotifyMaintenance):
        row = projector.row(obj)
        store.put(row)
        names.add(obj.spec.node_object if obj.spec else "")
    nodes = Projector(RESOURCES["Node"], "", Keep(NODE_ANNOTATIONS))
    for node in await _nodes(home, names - {""}):
        store.put(nodes.row(node))
    store.end_list("", KIND, 0)
    store.end_list("", "Node", 0)


async def _nodes(home: Transport, names: set[str]) -> list[Any]:
    """Read these nodes: one by one, or all that there are where that is fewer requests."""
    resource = RESOURCES["Node"]
    if len(names) > MOST_SINGLE:
        return [node for node in await read_list(home, resource.path, resource.model) if node.metadata.name in names]
    found = []
    for name in sorted(names):
        with contextlib.suppress(NotFound):
            reply = await home.request("GET", f"{resource.path}/{name}", timeout=ANSWER_WITHIN)
            found.append(msgspec.json.decode(reply.body, type=resource.model))
    return found


def as_text(found: Explanation) -> str:
    since = f" since {found.since:%Y-%m-%dT%H:%M:%SZ}" if found.since else ""
    lines = [
        f"NotifyMaintenance {found.object} ({found.maintenance} on node {found.node}): {found.state}{since}",
        f"  rule {found.rule}",
        f"  waits for: {found.waits_for}",
        f"  to act: {found.actor}",
    ]
    if found.not_before is not None:
        lines.append(f"  not before: {found.not_before:%Y-%m-%dT%H:%M:%SZ}")
    if found.until is not None:
        lines.append(f"  SLA expires: {found.until:%Y-%m-%dT%H:%M:%SZ}")
    return "\n".join([*lines, *(f"  {note}" for note in found.notes)])
