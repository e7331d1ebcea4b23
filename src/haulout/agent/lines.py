"""The format in which the agent prints a step's output: a label and a time at the beginning of every line."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from datetime import datetime


class Prefixer:
    """A formatter that adds prefixes to the lines of one stream.

    A character may be split over two chunks. Invalid bytes become U+FFFD.
    """

    def __init__(self, label: str, local_now: Callable[[], datetime]) -> None:
        self._label = label
        self._local_now = local_now
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._has_begun = False

    def feed(self, chunk: bytes) -> bytes:
        """Return the output for the next chunk of the stream."""
        return self._prefixed(self._decoder.decode(chunk))

    def end(self) -> bytes:
        """Return the output for the end of the stream: U+FFFD if a character was cut off, else nothing."""
        return self._prefixed(self._decoder.decode(b"", final=True))

    def fail(self, reason: str) -> bytes:
        """Return the error line for a stream that cannot be read any further."""
        return f"{self._prefix()}ERROR reading stream: {reason}\n".encode()

    def _prefixed(self, text: str) -> bytes:
        if not text:
            return b""
        prefix = self._prefix()
        first = "" if self._has_begun else prefix
        self._has_begun = True
        return (first + text.replace("\n", f"\n{prefix}")).encode()

    def _prefix(self) -> str:
        return f"{self._label}{self._local_now().isoformat(timespec='microseconds')} "
