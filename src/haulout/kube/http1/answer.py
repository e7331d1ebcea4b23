"""Parses the answer to one request."""

from __future__ import annotations

import re
from collections.abc import Mapping

from haulout.kube.http1.message import MessageParser, Part

# More interim answers (HTTP 100 to 199) than any server sends.
MOST_INTERIM = 16

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [^\r\n]*)?", re.ASCII)
# Statuses of answers without a body.
_BODILESS = frozenset({204, 304})


class AnswerParser(MessageParser):
    """The parser of the answer to one request. `status` is 0 until the head has arrived."""

    def __init__(self, method: str) -> None:
        super().__init__("the answer")
        self.status = 0
        self._is_head = method == "HEAD"
        self._interim = 0

    def feed(self, data: bytes) -> list[bytes]:
        pieces = super().feed(data)
        if self.rest:
            # One request has one answer.
            self.keeps_connection, self.rest = False, b""
        return pieces

    def end(self) -> bool:
        """Note that the connection has ended. Return whether the answer is complete."""
        if self.part is Part.REST:
            self.part = Part.NOTHING
        return self.is_done

    def check_beginning(self, data: bytes) -> None:
        if not data.startswith(b"HTTP/"[: len(data)]):
            self.not_http()

    def take_head(self, first: bytes, headers: Mapping[str, str]) -> None:
        found = _STATUS.fullmatch(first)
        if found is None:
            self.not_http()
        status = int(found[2])
        if status < 200:
            self._interim += 1
            if status == 101 or self._interim > MOST_INTERIM:
                self.not_http()
            return
        self.status, self.headers = status, headers
        is_bodiless = self._is_head or status in _BODILESS
        if not self.frame(is_old=found[1] == b"0") and not is_bodiless:
            self.part, self.keeps_connection = Part.REST, False
        if is_bodiless:
            self.part = Part.NOTHING
