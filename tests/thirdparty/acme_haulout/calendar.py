"""Asks Acme's shift calendar. Only the probe does I/O: the check reads its answer."""

from __future__ import annotations

import aiohttp

from haulout.runtime.probes import ProbeContext, ProbeFailed


async def open_shift(url: str, context: ProbeContext) -> str:
    """Return "open" or "closed"."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        if response.status != 200:
            raise ProbeFailed(f"the shift calendar answered with HTTP {response.status}")
        return (await response.text()).strip()
