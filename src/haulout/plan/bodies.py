"""The objects that a plan begins with, as they stand in a file or in a cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from haulout.base import yaml
from haulout.base.clock import SystemClock
from haulout.embedded import Json, Resource
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import Forbidden, KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.plan.output import Gaps

LIST_WITHIN = 30.0
# Of pods, only those that end by themselves: all others follow from their owners.
FINITE = {"fieldSelector": "spec.restartPolicy!=Always,status.phase=Running"}


def in_file(path: str) -> list[Json]:
    """Return the objects of a file of YAML or JSON; `-` is the standard input."""
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
    """Return what YAML or JSON holds. JSON is YAML, too, but is read far faster as what it is."""
    try:
        return [msgspec.json.decode(data)]
    except (msgspec.DecodeError, RecursionError):
        return yaml.load_all(data, bounds=yaml.SNAPSHOT)


async def in_cluster(
    endpoint: Endpoint, kinds: Mapping[str, Resource], optional: frozenset[str], gaps: Gaps
) -> list[Json]:
    """Return the objects of these kinds. `optional`: kinds that need not be served. What is not there is named in `gaps`."""
    transport = HttpTransport(endpoint, SystemClock())
    bodies: list[Json] = []
    try:
        async with asyncio.timeout(LIST_WITHIN):
            for kind, resource in kinds.items():
                bodies += await _listed(transport, kind, resource, gaps, optional=kind in optional)
    except TimeoutError:
        raise click.ClickException(f"{endpoint.server} did not list its objects within {LIST_WITHIN:g} s") from None
    except KubeError as error:
        raise click.ClickException(f"{endpoint.server} cannot be read: {error}") from None
    finally:
        await transport.close()
    return bodies


async def _listed(transport: HttpTransport, kind: str, resource: Resource, gaps: Gaps, *, optional: bool) -> list[Json]:
    group = f"/apis/{resource.group}" if resource.group else "/api"
    try:
        kept: Any = dict[str, Any]
        query = FINITE if kind == "Pod" else None
        bodies: list[Any] = await read_list(transport, f"{group}/{resource.version}/{resource.plural}", kept, query)
    except Forbidden as error:
        if kind == "Node":
            raise
        gaps.lacks.append(f"{resource.plural} cannot be read: {error}")
        return []
    except NotFound:
        # Custom resources need not be installed: then there are none.
        if not optional:
            raise
        gaps.not_served.append(f"{resource.plural}.{resource.group}")
        return []
    return [{**body, "kind": kind} for body in bodies]
