"""`skyhook version`, and the switches of a Skyhook: `pause`, `resume`, `disable`, `enable`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import click

from haulout import __version__
from haulout.base.duration import quote, to_text
from haulout.cli.skyhook.cluster import connect
from haulout.cli.skyhook.operator_version import check, discover, namespace_of
from haulout.cli.skyhook.output import Failed
from haulout.kube.errors import KubeError
from haulout.surfaces.packages.wire import DISABLE, PAUSE


async def version(words: Sequence[str], flags: dict[str, Any]) -> None:
    click.echo(f"Skyhook plugin:\tv{__version__}")
    if flags["client-only"]:
        return
    span = flags["timeout"]
    try:
        async with connect(flags) as cluster, asyncio.timeout(span.total_seconds()):
            found = await discover(cluster, await namespace_of(cluster, flags))
    except Failed as error:
        if str(error).startswith("initializing"):
            raise
        found = f"unknown ({error})"
    except TimeoutError:
        found = f"unknown (no answer within {to_text(span)})"
    click.echo(f"Skyhook operator:\t{found}")


async def pause(words: Sequence[str], flags: dict[str, Any]) -> None:
    await _switch(words[0], flags, "pause", "paused", {PAUSE: "true"})


async def resume(words: Sequence[str], flags: dict[str, Any]) -> None:
    await _switch(words[0], flags, "resume", "resumed", {PAUSE: None})


async def disable(words: Sequence[str], flags: dict[str, Any]) -> None:
    await _switch(words[0], flags, "disable", "disabled", {DISABLE: "true"})


async def enable(words: Sequence[str], flags: dict[str, Any]) -> None:
    await _switch(words[0], flags, "enable", "enabled", {DISABLE: None})


async def _switch(name: str, flags: dict[str, Any], verb: str, done: str, annotations: dict[str, str | None]) -> None:
    kind = flags["group"].kind
    if flags["dry-run"]:
        click.echo(f"[dry-run] Would {verb} {kind} {quote(name)}")
        return
    if not flags["confirm"] and not _confirmed(f"{kind} {quote(name)}", verb):
        return
    async with connect(flags) as cluster:
        skyhook = await cluster.skyhook(name)
        if verb in ("pause", "disable"):
            await check(cluster, skyhook, flags)
        try:
            await cluster.patch_skyhook(name, {"metadata": {"annotations": annotations}})
        except KubeError as error:
            raise Failed(f"patching {flags['group'].word} {quote(name)}: {error}") from None
    click.echo(f"{kind} {quote(name)} {done}")


def _confirmed(what: str, verb: str) -> bool:
    click.echo(f"This will {verb} {what}. Continue? [y/N]: ", nl=False)
    if sys.stdin.readline().strip() in ("y", "Y"):
        return True
    click.echo("Aborted.")
    return False
