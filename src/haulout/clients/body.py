"""Reads the answers of other servers up to a bounded length."""

from __future__ import annotations

import aiohttp


class TooLong(ValueError):
    """The answer is longer than any that makes sense."""


async def read_whole(response: aiohttp.ClientResponse, longest: int) -> bytes:
    """Return the body, decompressed, however many pieces it comes in. Raises TooLong."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > longest:
            raise TooLong(f"the answer is longer than {longest} bytes")
    return bytes(body)
