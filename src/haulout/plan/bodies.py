"""Reads the objects that a plan begins with, from a file or from a cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from haulout.base import yaml
from haulout.base.clock import SystemClock
from haulout.embedded import Json, Resource
from haulout.explain.setup import Setup
from haulout.explain.snapshot import is_quorum_kept
from haulout.explain.unread_text import unread_text
from haulout.kube.codec import Broken, Kind, Shortened
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import Forbidden, KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.kube.listing import Pages, read_list
from haulout.plan.output import Gaps
from haulout.plan.pods import FoundPod

LIST_WITHIN = 30.0
# Pods that have ended are not read. Those of Jobs may be many.
RUNNING = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}


def in_file(path: str) -> list[Json]:
    """Return the objects in a YAML or JSON file; `-` is the standard input."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        documents = [document for document in _documents(data) if isinstance(document, dict)]
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
    except yaml.YamlError as error:
        raise click.ClickException(f"{path} is not YAML: {error}") from None
    bodies = [body for document in documents for body in document.get("items", [document])]
    return [body for body in bodies if isinstance(body, dict)]


def _documents(data: bytes) -> list[Any]:
    """Return the documents in YAML or JSON. JSON is YAML, too, but the JSON decoder is far faster."""
    try:
        return [msgspec.json.decode(data)]
    except (msgspec.DecodeError, RecursionError):
        return yaml.load_all(data, bounds=yaml.SNAPSHOT)


async def in_cluster(
    endpoint: Endpoint, kinds: Mapping[str, Resource], optional: frozenset[str], gaps: Gaps
) -> list[Json]:
    """Return the objects of these kinds in a cluster. Kinds that are not served or may not be read are added to `gaps`.

    `optional`: kinds that need not be served. For any other such kind the command fails.
    """
    bodies: list[Json] = []
    async with _transport(endpoint) as transport, asyncio.timeout(LIST_WITHIN):
        for kind, resource in kinds.items():
            bodies += await _listed(transport, kind, resource, gaps, optional=kind in optional)
    return bodies


async def is_quorum_kept_in_cluster(endpoint: Endpoint, setup: Setup) -> bool:
    """Whether the operator of a cluster lets etcd keep its quorum."""
    async with _transport(endpoint) as transport:
        return await is_quorum_kept(setup, transport)


async def pods_in_cluster(endpoint: Endpoint, takes: Callable[[FoundPod], bool], gaps: Gaps) -> list[FoundPod]:
    """Return the pods of a cluster that a plan takes along. No more than a page of the others is in memory at a time."""
    found: list[FoundPod] = []
    async with _transport(endpoint) as transport:
        pages = Pages(transport, "/api/v1/pods", Kind(FoundPod), RUNNING, within=LIST_WITHIN)
        try:
            while not pages.complete:
                for item in await pages.next():
                    if isinstance(item, Broken):
                        gaps.lacks.append(f"pod {item.name} is left out: {item.why}")
                        continue
                    pod = item.object if isinstance(item, Shortened) else item
                    if takes(pod):
                        found.append(pod)
        except Forbidden as error:
            gaps.lacks.append(unread_text("pods", error))
    return found


@asynccontextmanager
async def _transport(endpoint: Endpoint) -> AsyncIterator[HttpTransport]:
    """Open connections to a cluster, and turn what goes wrong with them into one line for the user."""
    transport = HttpTransport(endpoint, SystemClock())
    try:
        yield transport
    except TimeoutError:
        raise click.ClickException(f"{endpoint.server} did not list its objects within {LIST_WITHIN:g} s") from None
    except KubeError as error:
        raise click.ClickException(f"{endpoint.server} cannot be read: {error}") from None
    finally:
        await transport.close()


async def _listed(transport: HttpTransport, kind: str, resource: Resource, gaps: Gaps, *, optional: bool) -> list[Json]:
    group = f"/apis/{resource.group}" if resource.group else "/api"
    try:
        kept: Any = dict[str, Any]
        bodies: list[Any] = await read_list(transport, f"{group}/{resource.version}/{resource.plural}", kept)
    except Forbidden as error:
        if kind == "Node":
            raise
        gaps.lacks.append(unread_text(resource.plural, error))
        return []
    except NotFound:
        # The definition of an optional kind need not be installed. Then there are no objects.
        if not optional:
            raise
        gaps.not_served.append(f"{resource.plural}.{resource.group}")
        return []
    return [{**body, "kind": kind} for body in bodies]
