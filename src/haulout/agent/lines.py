"""The format in which a step's output is passed on: a label and a time after every line break."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from datetime import datetime


class Prefixer:
    """Adds the prefix to one stream. Characters may be split over chunks; invalid bytes become U+FFFD."""

    def __init__(self, label: str, local_now: Callable[[], datetime]) -> None:
        self._label = label
        self._local_now = local_now
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._has_begun = False

    def feed(self, chunk: bytes) -> bytes:
        """Return what is to be written for a chunk."""
        return self._prefixed(self._decoder.decode(chunk))

    def end(self) -> bytes:
        """Return what is to be written at the end of the stream: a character that was cut off."""
        return self._prefixed(self._decoder.decode(b"", final=True))

    def fail(self, reason: str) -> bytes:
        """Return the line about a stream that cannot be read further."""
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
