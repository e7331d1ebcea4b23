"""A TCP forwarder to a server that can refuse, freeze, or lose the connections that lead through it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import urllib.parse
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.rig.faults import cut
from tests.rig.process import free_port

T = TypeVar("T")


class _Pair:
    """Both ends of one connection. `lost`: bytes that are sent into it do not arrive, and neither side is informed."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.ends = (near, far)
        self.lost = False

    def cut(self) -> None:
        for end in self.ends:
            cut(end.transport, politely=False)


class Forwarder:
    """Forwards bytes without looking at them, in a thread of its own. Certificates for 127.0.0.1 stay valid."""

    def __init__(self, server: str) -> None:
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self._target = urllib.parse.urlsplit(server).port
        self._pairs: set[_Pair] = set()
        # The client ends of all connections, also of those whose server end is not connected yet.
        self._near: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._flows.set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="forwarder", daemon=True)

    @property
    def connections(self) -> int:
        """Return how many connections are accepted and have not ended, whether or not bytes pass."""
        return len(self._near)

    def start(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def stop(self) -> None:
        self.thaw()
        self.refuse()
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def refuse(self) -> None:
        """Stop listening, and break open connections."""
        self._run(self._refuse())

    def accept(self) -> None:
        self._run(self._listen())

    def freeze(self) -> None:
        """Accept and keep connections, but pass nothing: a server that hangs, or a firewall that drops packets."""
        self._run(self._let_flow(False))

    def thaw(self) -> None:
        self._run(self._let_flow(True))

    def forget(self) -> None:
        """Make open connections half-open: they receive nothing any more. New connections work."""
        self._run(self._forget())

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1000)

    async def _refuse(self) -> None:
        self._server.close()
        for near in self._near:
            cut(near.transport, politely=False)
        for pair in tuple(self._pairs):
            pair.cut()

    async def _let_flow(self, flows: bool) -> None:
        """Switch the flow on or off in the loop, and wait for it, so that the next step of the test finds it so."""
        (self._flows.set if flows else self._flows.clear)()

    async def _forget(self) -> None:
        for pair in self._pairs:
            pair.lost = True

    async def _end(self) -> None:
        # Connections that were frozen go on now, and are cut afterwards.
        while len(asyncio.all_tasks()) > 1:
            for pair in tuple(self._pairs):
                pair.cut()
            await asyncio.sleep(0.01)
        # The loop needs a moment to close transports.
        for _ in range(3):
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        self._near.add(near)
        try:
            with contextlib.closing(near), contextlib.suppress(OSError):
                await self._flows.wait()
                back, far = await asyncio.open_connection("127.0.0.1", self._target)
                with contextlib.closing(far):
                    await self._join(_Pair(near, far), reader, back)
        finally:
            self._near.discard(near)

    async def _join(self, pair: _Pair, reader: asyncio.StreamReader, back: asyncio.StreamReader) -> None:
        near, far = pair.ends
        self._pairs.add(pair)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(pair, reader, far))
                both.create_task(self._pass(pair, back, near))
        finally:
            self._pairs.discard(pair)

    async def _pass(self, pair: _Pair, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(2**16):
                await self._flows.wait()
                if not pair.lost:
                    sink.write(data)
                    await sink.drain()
        # The end of one direction ends both, unless the client must not notice it.
        if not pair.lost or sink is pair.ends[1]:
            for end in pair.ends:
                end.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
