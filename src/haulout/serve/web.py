"""Small HTTP servers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from haulout.base.address import OFF, AddressError, split_address
from haulout.runtime.metrics import Metrics

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def listen(
    address: str,
    routes: Mapping[str, Handler],
    *,
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
    longest_body: int = 2**20,
) -> web.AppRunner | None:
    """Serves the routes until the runner is cleaned up; None where the address says not to."""
    if address in OFF:
        return None
    host, port = split_address(address)
    app = web.Application(client_max_size=longest_body)
    for path, handler in routes.items():
        if method == "GET":
            app.router.add_get(path, handler)
        else:
            app.router.add_route(method, path, handler)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=5)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
    except OSError as error:
        await runner.cleanup()
        raise AddressError(f"cannot listen on {address}: {error.strerror or error}") from error
    return runner


def metrics_route(metrics: Metrics, on_scrape: Callable[[], None] = lambda: None) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        # Rendering many series takes long; the loop has other things to do.
        text = await asyncio.to_thread(metrics.snapshot().render)
        on_scrape()
        return web.Response(body=text, content_type="text/plain", charset="utf-8")

    return answer


def probe_route(is_well: Callable[[], str]) -> Handler:
    """200 `ok` while there is nothing to say against it, else 503 with what there is."""

    async def answer(request: web.Request) -> web.Response:
        problem = is_well()
        return web.Response(text=problem or "ok", status=503 if problem else 200)

    return answer
