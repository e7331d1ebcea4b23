"""`haulout history`: what happened to a node, from the events about it and about the objects that concern it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from haulout.base.clock import SystemClock
from haulout.base.visible import page
from haulout.cluster.project import Keep, Projector
from haulout.core.declaration import Declaration
from haulout.explain.home import home_endpoint
from haulout.explain.setup import declaration_of
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ApiError, Forbidden, KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport
from haulout.model.meta import wire_time
from haulout.runtime.interruption import run_command
from haulout.surfaces.registry import surfaces

Json = dict[str, Any]


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    """One event about a node, or about an object that concerns it.

    `by`: the controller that reported it. `surface`: the surface of that controller; empty for a foreign controller.
    `times`: how often it was reported. `at`: when it was reported last.
    """

    at: datetime
    by: str
    surface: str
    object: str
    reason: str
    text: str
    is_warning: bool = False
    times: int = 1


class History(msgspec.Struct, frozen=True, rename="camel"):
    """The events about a node, the oldest first.

    `exists`: whether the node exists; events outlive it. `incomplete`: what could not be read.
    """

    node: str
    entries: tuple[Entry, ...]
    exists: bool = True
    incomplete: tuple[str, ...] = ()


def show_history(node: str, output: str, cluster: Mapping[str, Any]) -> int:
    """Print what happened to a node."""
    endpoint = home_endpoint(cluster)
    try:
        found = run_command(_history(node, endpoint))
    except KubeError as error:
        raise click.ClickException(f"{endpoint.server} cannot be read: {error}") from None
    if not found.entries and not found.exists:
        why = "".join(f" ({text})" for text in found.incomplete)
        raise click.ClickException(f"there is no node named {node}, and no event about one is kept{why}")
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return 0
    click.echo(page(_lines(found)))
    return 0


async def _history(node: str, endpoint: Endpoint) -> History:
    transport = HttpTransport(endpoint, SystemClock())
    exists, incomplete = True, list[str]()
    try:
        try:
            await transport.request("GET", f"/api/v1/nodes/{node}")
        except NotFound:
            exists = False
        except Forbidden as error:
            incomplete.append(str(error))
        wanted = {("Node", "", node), *await _objects(node, transport, incomplete)}
        entries = [
            entry
            for kind in sorted({kind for kind, _, _ in wanted})
            for entry in await _entries(kind, wanted, transport, incomplete)
        ]
    finally:
        await transport.close()
    return History(node, tuple(sorted(entries, key=lambda entry: entry.at)), exists, tuple(incomplete))


async def _objects(node: str, transport: Transport, incomplete: list[str]) -> list[tuple[str, str, str]]:
    """Return kind, namespace and name of all objects of surfaces that are about the node."""
    found = []
    for declaration in map(declaration_of, surfaces()):
        try:
            found += [row async for row in _about(declaration, node, transport)]
        except NotFound:
            continue
        except ApiError as error:
            incomplete.append(str(error))
    return found


async def _about(declaration: Declaration, node: str, transport: Transport) -> AsyncIterator[tuple[str, str, str]]:
    objects = declaration.node_objects
    if objects is None:
        return
    resource = next(kind for kind in declaration.kinds if kind.kind == objects.kind)
    projector = Projector(resource, "", Keep())
    for item in await read_list(transport, resource.path, resource.model):
        row = projector.row(item)
        if objects.node(row) == node:
            yield row.key.kind, row.key.namespace, row.key.name


async def _entries(
    kind: str, wanted: set[tuple[str, str, str]], transport: Transport, incomplete: list[str]
) -> list[Entry]:
    """Return the events about the wanted objects of a kind."""
    try:
        kept: Any = Json
        path, query = "/api/v1/events", {"fieldSelector": f"involvedObject.kind={kind}"}
        events: list[Json] = await read_list(transport, path, kept, query=query)
    except ApiError as error:
        incomplete.append(f"events about {kind}s: {error}")
        return []
    return [entry for event in events for entry in _entry(event, wanted)]


def _entry(event: Json, wanted: set[tuple[str, str, str]]) -> Iterator[Entry]:
    about = event.get("involvedObject") or {}
    kind, namespace, name = (str(about.get(field) or "") for field in ("kind", "namespace", "name"))
    at = _at(event)
    if at is None or (kind, "" if kind == "Node" else namespace, name) not in wanted:
        return
    series = event.get("series") or {}
    by = str(event.get("reportingComponent") or (event.get("source") or {}).get("component") or "unknown")
    yield Entry(
        at=at,
        by=by,
        surface=next((each.name for each in surfaces() if each.reporter == by), ""),
        object=f"{kind} {namespace}/{name}" if namespace and kind != "Node" else f"{kind} {name}",
        reason=str(event.get("reason") or ""),
        text=" ".join(str(event.get("message") or "").split()),
        is_warning=event.get("type") == "Warning",
        times=int(series.get("count") or event.get("count") or 1),
    )


def _at(event: Json) -> datetime | None:
    """Return when an event was last reported, or None if it has no valid time."""
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
    )
    for text in filter(None, times):
        try:
            return datetime.fromisoformat(str(text)).astimezone(UTC)
        except ValueError:
            continue
    return None


def _lines(found: History) -> Iterator[str]:
    yield from (f"INCOMPLETE: {text}" for text in found.incomplete)
    if not found.exists:
        yield f"node {found.node} is gone"
    if not found.entries and found.incomplete:
        yield f"no event about node {found.node} could be read"
    elif not found.entries:
        yield f"no event about node {found.node} is kept (the API server keeps events for an hour if not told otherwise)"
    for entry in found.entries:
        often = f" (x{entry.times})" if entry.times > 1 else ""
        mark = "!" if entry.is_warning else " "
        yield f"{wire_time(entry.at)} {mark} {entry.surface or entry.by}: {entry.object}: {entry.reason}: {entry.text}{often}"
