"""Haulout's removal from an embedded cluster, which can be killed before or after any of its writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from haulout.embedded import Api, InProcessTransport
from haulout.kube.excerpt import Shape
from haulout.kube.transport import JSON, Reply
from haulout.removal.command import Removal
from haulout.removal.survey import Wanted
from tests.build.kills import KilledAtWrite
from tests.build.workloads import World


class MortalTransport:
    """The way to an embedded cluster, which ends at the write that a test chooses.

    `writes`: those that were sent. `dies_at`: the number of the write at which it ends, before (False) or after it (True).
    """

    def __init__(self, server: Any, dies_at: tuple[int, bool] = (0, False)) -> None:
        self._inner = InProcessTransport(Api(server))
        self.writes: list[str] = []
        self._dies_at = dies_at

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float = 30.0,
        keep: Shape | None = None,
    ) -> Reply:
        is_write = method != "GET" and not path.endswith("reviews")
        if is_write:
            self.writes.append(f"{method} {path}")
            if self._dies_at == (len(self.writes), False):
                raise KilledAtWrite
        reply = await self._inner.request(
            method, path, query=query, body=body, content_type=content_type, accept=accept, timeout=timeout, keep=keep
        )
        if is_write and self._dies_at == (len(self.writes), True):
            raise KilledAtWrite
        return reply

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        silence: float = 330.0,
        keep: Shape | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    async def close(self) -> None:
        await self._inner.close()


async def remove(
    world: World, wanted: Wanted, *, dies_at: tuple[int, bool] = (0, False), dry_run: bool = False
) -> tuple[list[str], list[str]]:
    """Remove Haulout. Return the lines that were printed, and the writes that were sent."""
    lines: list[str] = []
    transport = MortalTransport(world.objects, dies_at)

    async def sleep(seconds: float) -> None:
        world.run(seconds)

    await Removal(transport, wanted, world.time, lambda: True, lines.append, sleep).run(dry_run=dry_run)
    return lines, transport.writes
