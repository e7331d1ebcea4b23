"""`haulout cluster`: serves an embedded cluster until it is interrupted."""

from __future__ import annotations

import asyncio
import signal

import click

from haulout.base.address import AddressError, split_address
from haulout.embedded import World, read_manifests
from haulout.kube.errors import ApiError
from haulout.runtime.interruption import run_command
from haulout.settings.settings import ClusterSettings


def cluster(settings: ClusterSettings) -> int:
    try:
        run_command(_cluster(settings))
    except (AddressError, ApiError, OSError, ValueError) as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    return 0


async def _cluster(settings: ClusterSettings) -> None:
    host, port = split_address(settings.listen)
    world = World(speed=settings.speed, host=host or "127.0.0.1", port=port)
    world.add_nodes(settings.nodes, settings.zones)
    manifests = read_manifests(settings.workloads) if settings.workloads else []
    async with world.served(settings.kubeconfig) as kubeconfig:
        count = world.apply(manifests)
        click.echo(
            f"{settings.nodes} nodes in {settings.zones} zones and {count} objects are served at {world.face.url}"
        )
        click.echo(f"export KUBECONFIG={kubeconfig}")
        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        await ended.wait()
