"""Ends an event loop without open connections, which would be reported as a fault of the next test."""

from __future__ import annotations

import asyncio


async def abort_connections() -> None:
    """Abort all connections of the running loop, and let it close their sockets.

    A regular end of a TLS connection would wait for the other side, which may be busy for longer than the loop runs.
    """
    loop = asyncio.get_running_loop()
    for transport in list(loop._transports.values()):  # type: ignore[attr-defined]
        transport.abort()
    # Sockets are closed in the next turn of the loop, and the tasks that wait for them end in the turns after.
    for _ in range(3):
        await asyncio.sleep(0)
