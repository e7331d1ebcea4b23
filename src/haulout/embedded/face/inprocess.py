"""The transport from a client to an embedded API server in the same process, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from inspect import isawaitable

from haulout.embedded.face.api import Api
from haulout.embedded.face.responses import Response
from haulout.embedded.face.watches import Watch
from haulout.kube.errors import ConnectionFailed, RequestTimeout, error_from_reply
from haulout.kube.excerpt import Shape
from haulout.kube.transport import JSON, Reply

_FOREVER = 1e9


class InProcessTransport:
    """A transport to an embedded API server in the same process, without any socket.

    Implements `haulout.kube.transport.Transport`.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._watches: set[Watch] = set()
        self._closed = False

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
        headers = {"accept": accept, "content-type": content_type} if body is not None else {"accept": accept}
        answer = await self._answer(method, path, query or {}, headers, body or b"", timeout)
        return Reply(answer.status, answer.body)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        silence: float = 330.0,
        keep: Shape | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        answer = await self._answer("GET", path, query or {}, {"accept": JSON}, b"", silence)
        watch = answer.watch
        if watch is None:
            yield _once(answer.body)
            return
        self._watches.add(watch)
        try:
            yield lines(watch, silence, f"GET {path}")
        finally:
            self._watches.discard(watch)
            watch.close()

    async def close(self) -> None:
        self._closed = True
        for watch in tuple(self._watches):
            watch.close()

    async def _answer(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes, timeout: float
    ) -> Response:
        if self._closed:
            raise ConnectionFailed(f"{method} {path}: the transport is closed")
        found = self._api.handle(method, path, query, headers, body)
        if isawaitable(found):
            try:
                async with asyncio.timeout(timeout):
                    answer = await found
            except TimeoutError:
                raise RequestTimeout(f"{method} {path}: no answer within {timeout:g} s") from None
        else:
            # Other tasks get a turn, as with any other server.
            await asyncio.sleep(0)
            answer = found
        if answer.status >= 400:
            retry_after = dict(answer.headers).get("Retry-After")
            raise error_from_reply(answer.status, answer.body, retry_after)
        return answer


async def lines(watch: Watch, silence: float, act: str = "watch") -> AsyncIterator[bytes]:
    """Yield the lines of a watch until it ends. Raises `RequestTimeout` after `silence` seconds without a line."""
    ready = asyncio.Event()
    watch.on_line = ready.set
    while True:
        while watch.lines:
            yield watch.lines.popleft()
        if watch.ended:
            return
        ready.clear()
        try:
            async with asyncio.timeout(silence if silence < _FOREVER else None):
                await ready.wait()
        except TimeoutError:
            raise RequestTimeout(f"{act}: silent for {silence:g} s") from None


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
