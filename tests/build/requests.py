"""Requests to handlers of our servers, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from haulout.serve.exchange import Body, Request


class NoSink:
    """A connection to which nothing is written."""

    transport: asyncio.Transport | None = None

    def begin(self, head: bytes) -> None:
        raise AssertionError("nothing is written")

    async def write(self, data: bytes | memoryview) -> None:
        raise AssertionError("nothing is written")

    def resume(self) -> None:
        pass


def request_of(method: str, path: str, headers: Mapping[str, str]) -> Request:
    sink = NoSink()
    return Request(method, path, headers, Body(sink, 0), sink)
