"""Parses messages of HTTP/1.1 as their bytes arrive: heads, and bodies by length or in chunks. It does no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NoReturn

from haulout.kube.http1.failures import WireError

# The longest line of a head, of the size of a chunk, and of a trailer. Go's servers send lines of a few hundred bytes.
LONGEST_LINE = 8190
# The longest head of a message with all its lines.
LONGEST_HEAD = 2**15

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)
_HEX = re.compile(rb"[0-9A-Fa-f]{1,15}")


class Part(Enum):
    """What the next bytes of a message are."""

    HEAD = "head"
    # A body of a known length.
    BODY = "body"
    # A body that ends with the connection.
    REST = "rest"
    SIZE = "size of a chunk"
    CHUNK = "chunk"
    CHUNK_END = "end of a chunk"
    TRAILER = "trailer"
    NOTHING = "nothing"


class MessageParser:
    """The parser of one message. `what`: what errors call it.

    `headers` have names in lower case; values of the same name are joined by a comma. `keeps_connection`: the
    connection may carry another message after this one.
    """

    def __init__(self, what: str, longest_line: int = LONGEST_LINE) -> None:
        self.headers: Mapping[str, str] = {}
        self.keeps_connection = True
        self.part = Part.HEAD
        # What has arrived of a head or a line that is not complete.
        self.begun = b""
        # What has arrived after the end of the message.
        self.rest = b""
        self._what = what
        self._longest_line = longest_line
        # The bytes that are still to come of a body or a chunk.
        self._left = 0

    @property
    def is_done(self) -> bool:
        """Whether the message is complete."""
        return self.part is Part.NOTHING

    def feed(self, data: bytes) -> list[bytes]:
        """Return the pieces of the body in the next bytes. Raises WireError for what is not HTTP."""
        pieces: list[bytes] = []
        while data:
            match self.part:
                case Part.HEAD:
                    data = self._head(data)
                case Part.BODY | Part.CHUNK:
                    piece, data = data[: self._left], data[self._left :]
                    self._left -= len(piece)
                    pieces.append(piece)
                    if not self._left:
                        self.part = Part.NOTHING if self.part is Part.BODY else Part.CHUNK_END
                case Part.REST:
                    pieces.append(data)
                    break
                case Part.NOTHING:
                    self.rest += data
                    break
                case Part.SIZE | Part.CHUNK_END | Part.TRAILER:
                    data = self._line(data)
        return pieces

    def take_head(self, first: bytes, headers: Mapping[str, str]) -> None:
        """Take the first line and the headers, and set `part` to what follows, with `frame`."""
        raise NotImplementedError

    def check_beginning(self, data: bytes) -> None:
        """Raise WireError if a message cannot begin so."""

    def frame(self, *, is_old: bool) -> bool:
        """Set `part` by the headers. Return False if they say nothing of a body. `is_old`: the message is of HTTP/1.0."""
        connection = self.headers.get("connection", "").lower()
        self.keeps_connection = "keep-alive" in connection if is_old else "close" not in connection
        length, coding = self.headers.get("content-length"), self.headers.get("transfer-encoding", "").strip().lower()
        if coding:
            # With a length, too, two parties could disagree about where the message ends.
            if coding != "chunked" or length is not None or is_old:
                self.not_http()
            self.part = Part.SIZE
        elif length is not None:
            if not _DIGITS.fullmatch(length):
                self.not_http()
            self._left = int(length)
            self.part = Part.BODY if self._left else Part.NOTHING
        return bool(coding) or length is not None

    def not_http(self) -> NoReturn:
        raise WireError(f"{self._what} is not HTTP")

    def _head(self, data: bytes) -> bytes:
        data = self.begun + data
        self.check_beginning(data)
        end = data.find(b"\r\n\r\n")
        if end < 0 or end > LONGEST_HEAD:
            self._check_lines(data)
            self.begun = data
            return b""
        self.begun = b""
        self._check_lines(data[:end])
        lines = data[:end].split(b"\r\n")
        self.take_head(lines[0], self._fields(lines[1:]))
        return data[end + 4 :]

    def _fields(self, lines: Sequence[bytes]) -> Mapping[str, str]:
        headers: dict[str, str] = {}
        for line in lines:
            raw, colon, value = line.partition(b":")
            if not colon or not _NAME.fullmatch(raw):
                self.not_http()
            name, text = raw.decode().lower(), value.strip(b" \t").decode("utf-8", "replace")
            known = headers.get(name)
            headers[name] = text if known is None or known == text else f"{known}, {text}"
        return headers

    def _line(self, data: bytes) -> bytes:
        """Take a line of the framing: the size of a chunk, the end of one, or a trailer."""
        data = self.begun + data
        end = data.find(b"\r\n")
        if end < 0 or end > self._longest_line:
            self._check_lines(data)
            self.begun = data
            return b""
        line, self.begun = data[:end], b""
        match self.part:
            case Part.SIZE:
                size = line.partition(b";")[0].strip()
                if not _HEX.fullmatch(size):
                    self.not_http()
                self._left = int(size, 16)
                self.part = Part.CHUNK if self._left else Part.TRAILER
            case Part.CHUNK_END:
                if line:
                    self.not_http()
                self.part = Part.SIZE
            case _:
                if not line:
                    self.part = Part.NOTHING
        return data[end + 2 :]

    def _check_lines(self, data: bytes) -> None:
        """Raise WireError if a head, or a line of it, is too long."""
        longest = self._longest_line
        if len(data) > LONGEST_HEAD or (
            len(data) > longest and any(len(line) > longest for line in data.split(b"\r\n"))
        ):
            raise WireError(f"a line of {self._what} is too long")
