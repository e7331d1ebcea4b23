"""Small servers on loopback, with or without TLS."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trustme
from aiohttp import web


def server_context(authority: trustme.CA, *names: str, clients: trustme.CA | None = None) -> ssl.SSLContext:
    """Return a context with a certificate for `names`, by default 127.0.0.1.

    `clients`: the authority of client certificates.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        clients.configure_trust(context)
    return context


@asynccontextmanager
async def serve(app: web.Application, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve `app`. Yield its address."""
    runner = web.AppRunner(app, shutdown_timeout=0, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port = runner.addresses[0][1]
        yield f"{'https' if context else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
