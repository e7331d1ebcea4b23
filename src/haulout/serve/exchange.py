"""A request to one of our servers, and its answer, as handlers see them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Protocol

TEXT, BINARY = "text/plain", "application/octet-stream"


class Malformed(Exception):
    """A request is not HTTP, or has what we do not accept. The message is one line. `status`: that of the answer."""

    def __init__(self, message: str, status: int = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = status


class Refused(Exception):
    """A handler ends with this answer."""

    def __init__(self, answer: Response) -> None:
        super().__init__(str(answer.status))
        self.answer = answer


class BodyTooLong(Refused):
    """The body of a request is longer than the server takes."""

    def __init__(self) -> None:
        super().__init__(plain(HTTPStatus.REQUEST_ENTITY_TOO_LARGE))


class Sink(Protocol):
    """The writing side of a connection."""

    def begin(self, head: bytes) -> None: ...

    async def write(self, data: bytes | memoryview) -> None:
        """Write, and wait until the caller has received enough of it. Raises ConnectionError."""
        ...

    def resume(self) -> None:
        """Receive more of the request's body."""
        ...

    @property
    def transport(self) -> asyncio.Transport | None: ...


class Body:
    """The body of a request, as it arrives. `longest`: the most bytes that are taken."""

    def __init__(self, sink: Sink, longest: int) -> None:
        self.pieces: deque[bytes] = deque()
        self.held = 0
        self._sink = sink
        self._longest = longest
        self._is_complete = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def is_eof(self) -> bool:
        """Whether all of the body has arrived."""
        return self._is_complete

    def add(self, pieces: list[bytes], *, is_complete: bool) -> None:
        self.pieces.extend(pieces)
        self.held += sum(map(len, pieces))
        self._is_complete = is_complete
        self._wake()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._wake()

    async def read(self) -> bytes:
        """Return the whole body. Raises BodyTooLong, Malformed and ConnectionError."""
        whole: list[bytes] = []
        length = 0
        while True:
            while self.pieces:
                whole.append(self.pieces.popleft())
                length += len(whole[-1])
                if length > self._longest:
                    raise BodyTooLong
            self.held = 0
            if self._error is not None:
                raise self._error
            if self._is_complete:
                return b"".join(whole)
            self._sink.resume()
            await self._wait()

    async def discard(self) -> None:
        """Receive what remains of the body, and forget it."""
        while not self._is_complete and self._error is None:
            self.pieces.clear()
            self.held = 0
            self._sink.resume()
            await self._wait()

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Headers:
    """The headers of a message, whose names are the same in any case."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    def get(self, name: str, default: str = "") -> str:
        return self._fields.get(name.lower(), default)


class Request:
    """A request. `path` is decoded; `match_info` has the rest of a path whose route ends in a pattern."""

    def __init__(
        self, method: str, path: str, headers: Mapping[str, str], body: Body, sink: Sink, remote: str = ""
    ) -> None:
        self.method = method
        self.path = path
        self.headers = Headers(headers)
        self.match_info: Mapping[str, str] = {}
        self.content = body
        self.remote = remote
        self._sink = sink

    @property
    def transport(self) -> asyncio.Transport | None:
        return self._sink.transport

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", BINARY).partition(";")[0].strip().lower()

    @property
    def content_length(self) -> int | None:
        """The length that the caller has announced; None if it sends chunks."""
        found = self.headers.get("content-length")
        # The parser has checked that it has at most 18 digits.
        return int(found) if found else None

    async def read(self) -> bytes:
        """Return the body. Raises BodyTooLong."""
        return await self.content.read()


class StreamResponse:
    """An answer that is written in pieces, after `content_length` was set."""

    def __init__(self, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.headers = dict(headers or {})
        self.content_type = BINARY
        self.charset: str | None = None
        self.content_length: int | None = 0
        self.closes = False
        self.is_begun = False
        self._sink: Sink | None = None

    def force_close(self) -> None:
        """Close the connection after this answer."""
        self.closes = True

    async def prepare(self, request: Any) -> None:
        """Write the head."""
        self._sink, self.is_begun = request._sink, True  # noqa: SLF001 - two halves of one exchange
        assert self._sink is not None
        self._sink.begin(self.head())

    async def write(self, data: bytes | memoryview) -> None:
        assert self._sink is not None
        await self._sink.write(data)

    async def write_eof(self) -> None:
        """End the answer."""

    def head(self) -> bytes:
        """Return the status line and the headers, without those that the connection adds."""
        kind = f"{self.content_type}; charset={self.charset}" if self.charset else self.content_type
        lines = [
            f"HTTP/1.1 {self.status} {phrase(self.status)}",
            f"Content-Type: {kind}",
            f"Content-Length: {self.content_length}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        return "".join(f"{_one_line(line)}\r\n" for line in lines).encode()


class Response(StreamResponse):
    """A short answer. It has a `body`, or a `text`."""

    def __init__(
        self,
        *,
        body: bytes = b"",
        text: str | None = None,
        status: int = 200,
        content_type: str | None = None,
        charset: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status=status, headers=headers)
        self.body = body if text is None else text.encode()
        self.content_type = content_type or (BINARY if text is None else TEXT)
        self.charset = charset or (None if text is None else "utf-8")
        self.content_length = len(self.body)


def phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""


def plain(status: int, **headers: str) -> Response:
    """Return an answer that says its status in words."""
    return Response(status=status, text=f"{status}: {phrase(status)}", headers=headers)


def not_found() -> Refused:
    return Refused(plain(HTTPStatus.NOT_FOUND))


def redirect(status: int, to: str) -> Refused:
    return Refused(plain(status, Location=to))


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")
