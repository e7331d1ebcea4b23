"""One connection to a server: a request at a time, and its answer as it arrives."""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Mapping
from typing import cast

from haulout.kube.http1.answer import AnswerParser
from haulout.kube.http1.failures import Encoded, Silent, Unanswered, WireError, cause

# The most bytes that are decompressed at once. A compressed answer can unpack to a thousand times its length.
UNPACKED_AT_ONCE = 2**18
_GZIP = 31


class Connection(asyncio.Protocol):
    """A connection that is open.

    `ahead`: if more bytes than this are unread, nothing more is read from the network until the reader has caught up.
    """

    def __init__(self, ahead: int) -> None:
        self.is_lost = False
        # The event loop's time at which the last answer was complete.
        self.idle_since = 0.0
        self._ahead = ahead
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: AnswerParser | None = None
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._is_paused = False
        self._error: WireError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._silence: float | None = None

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    @property
    def can_be_used_again(self) -> bool:
        """Whether the last answer was read to its end, and the server keeps the connection."""
        parser = self._parser
        return not (self.is_lost or self._pieces) and (parser is None or (parser.is_done and parser.keeps_connection))

    async def ask(self, method: str, request: bytes, silence: float | None = None) -> HttpAnswer:
        """Send a request, and return the answer once its head has arrived. Raises WireError.

        `silence`: the seconds without a byte of the answer after which the server counts as unreachable.
        """
        parser = self._parser = AnswerParser(method)
        self._silence = silence
        if not self.is_lost:
            self.transport.write(request)
        while not parser.status:
            if self._error is not None:
                raise self._error
            if self.is_lost:
                raise Unanswered("the server closed the connection without an answer")
            await self._wait()
        return HttpAnswer(self, parser.status, parser.headers)

    async def readany(self) -> bytes:
        """Return what has arrived of the body, at least one byte; nothing at its end. Raises WireError."""
        while not self._pieces:
            if self._error is not None:
                raise self._error
            assert self._parser is not None
            if self._parser.is_done:
                return b""
            await self._wait()
        found = self._pieces.popleft() if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        if self._is_paused and not self.is_lost:
            self._is_paused = False
            self.transport.resume_reading()
        return found

    def close(self) -> None:
        """Close the connection gracefully."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once. What has not arrived yet is lost."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def secured(self, transport: asyncio.Transport) -> None:
        """Continue with TLS over the connection, after a proxy has opened the way."""
        self._transport, self._parser = transport, None

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            # No request was sent on this connection.
            self.transport.abort()
            return
        try:
            pieces = parser.feed(data)
        except WireError as error:
            self._error = error
            self.transport.abort()
        else:
            self._pieces.extend(pieces)
            self._held += sum(map(len, pieces))
            if self._held > self._ahead and not self._is_paused:
                self._is_paused = True
                self.transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        parser = self._parser
        if parser is not None and self._error is None and not (exc is None and parser.end()) and not parser.is_done:
            self._error = _ending(parser, exc)
        self._wake()

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        timer = None if self._silence is None else self._loop.call_later(self._silence, self._fall_silent)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _fall_silent(self) -> None:
        self._error = Silent("the server stopped sending")
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _ending(parser: AnswerParser, error: Exception | None) -> WireError:
    if parser.status:
        return WireError("the connection broke in the middle of the answer")
    if error is not None:
        return Unanswered(f"the connection broke: {cause(error)}")
    return Unanswered("the server closed the connection without an answer")


class HttpAnswer:
    """An answer whose body is read as it arrives."""

    def __init__(self, connection: Connection, status: int, headers: Mapping[str, str]) -> None:
        self.connection = connection
        self.status = status
        self.headers = headers
        self._unzip = None if self.encoding == "identity" else zlib.decompressobj(_GZIP)
        self._packed = b""
        self._has_begun = False

    @property
    def encoding(self) -> str:
        return self.headers.get("content-encoding", "identity").strip().lower()

    async def readany(self) -> bytes:
        """Return what has arrived of the body, decompressed; nothing at its end. Raises WireError."""
        if self._unzip is None:
            return await self.connection.readany()
        if self.encoding != "gzip":
            raise Encoded("the answer has an encoding that was not asked for, and is not read")
        while True:
            packed = self._packed or await self.connection.readany()
            if not packed:
                if self._has_begun and not self._unzip.eof:
                    raise WireError("the connection broke in the middle of the answer")
                return b""
            self._has_begun = True
            if self._unzip.eof:
                # Another compressed text follows the first, as gzip allows.
                self._unzip = zlib.decompressobj(_GZIP)
            try:
                found = self._unzip.decompress(packed, UNPACKED_AT_ONCE)
            except zlib.error:
                raise WireError("the answer cannot be decompressed") from None
            self._packed = self._unzip.unconsumed_tail or self._unzip.unused_data
            if found:
                return found
