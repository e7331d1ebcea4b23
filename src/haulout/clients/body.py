"""Reads the answers of other servers: up to a bounded length, and as JSON."""

from __future__ import annotations

from typing import TypeVar

import aiohttp
import msgspec

T = TypeVar("T")
# What decoding raises for an answer that is not JSON or of another type, no text, or nested too deeply.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class TooLong(ValueError):
    """The answer is longer than the limit."""


async def read_whole(response: aiohttp.ClientResponse, longest: int) -> bytes:
    """Return the whole decompressed body of an answer. Raises TooLong."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > longest:
            raise TooLong(f"the answer is longer than {longest} bytes")
    return bytes(body)


def decoded(body: bytes, kind: type[T]) -> T:
    """Return an answer in JSON as a value of a type. Raises one of `UNREADABLE`."""
    return msgspec.json.decode(body, type=kind)
