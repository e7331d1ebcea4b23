"""Starts the console's HTTP server, an application of aiohttp, within the limits for callers of our servers."""

from __future__ import annotations

import asyncio
import functools
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware

from haulout.base.address import AddressError, split_address
from haulout.kube.errors import one_line
from haulout.serve.connections import Connections, Limits, Pace, Phase, bind
from haulout.serve.http import BUFFERED, COMPLAIN_EVERY, LINGER_FOR, MOST_HEADERS
from haulout.serve.web import Server, connection_of

Malformed = Callable[[int], web.Response]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def serve_app(
    address: str,
    app: web.Application,
    malformed: Malformed,
    *,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
    longest_header: int = 8190,
) -> Server:
    """Start a server for an application, within the limits for callers. Raises AddressError.

    `malformed`: returns the answer to a request that never reaches the application, by its status.
    """
    limits = limits or Limits()
    host, port = split_address(address)
    app.middlewares.insert(0, _follow(Pace(limits.requests_per_second)))
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=5,
        handler_cancellation=True,
        keepalive_timeout=limits.idle_for,
        lingering_time=LINGER_FOR,
        read_bufsize=BUFFERED,
        max_headers=MOST_HEADERS,
        max_field_size=longest_header,
        logger=_logger(),
    )
    await runner.setup()
    assert runner.server is not None
    try:
        listeners = await bind(host, port)
    except OSError as error:
        await runner.cleanup()
        raise AddressError(f"cannot listen on {address}: {error.strerror or error}") from error
    server, loop = runner.server, asyncio.get_running_loop()
    options = vars(server)["_kwargs"]
    connections = Connections(lambda: _Conversation(server, malformed, loop=loop, **options), limits, tls)
    connections.start(listeners)
    return Server(runner.cleanup, connections, listeners)


class _Conversation(web.RequestHandler):
    """aiohttp's side of one connection, with our answer to what is not a request."""

    __slots__ = ("_malformed",)

    def __init__(self, manager: web.Server, malformed: Malformed, **options: Any) -> None:
        super().__init__(manager, **options)
        self._malformed = malformed

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        # This one logs the error, and raises if an answer has begun.
        super().handle_error(request, status, exc, message)
        answer = self._malformed(status)
        answer.force_close()
        return answer


class _Malformed(logging.Filter):
    """A log filter that shortens errors about malformed requests to a line without traceback, at most one a second.

    Any client can send such requests.
    """

    def __init__(self) -> None:
        super().__init__()
        self._quiet_until = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        # aiohttp raises UnicodeEncodeError when it quotes a header that is no text (`Expect`).
        if not isinstance(error, HttpProcessingError | web.RequestPayloadError | UnicodeEncodeError):
            return True
        if time.monotonic() < self._quiet_until:
            return False
        self._quiet_until = time.monotonic() + COMPLAIN_EVERY
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args, record.exc_info = "malformed request", (), None
        record.error = one_line(str(error))
        return True


@functools.cache
def _logger() -> logging.Logger:
    made = logging.getLogger("haulout.console.http")
    made.addFilter(_Malformed())
    return made


def _follow(pace: Pace) -> Middleware:
    """Return a middleware that notes the phase of each connection, and limits the rate of requests."""

    @web.middleware
    async def follow(request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = connection_of(request)
        if connection is None:
            return await handler(request)
        connection.enter(Phase.REQUEST, request)
        try:
            await pace.turn()
            return await handler(request)
        finally:
            connection.enter(Phase.IDLE)

    return follow
