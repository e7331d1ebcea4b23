"""Limits for the connections of a library that blocks: an end from another thread, and a longest answer."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from typing import Any

# More than the names of all virtual machines of a vCenter take.
LONGEST_ANSWER = 16 * 2**20


class BoundedAnswer(http.client.HTTPResponse):
    """An answer that is not compressed, and of which at most `LONGEST_ANSWER` bytes are read."""

    taken = 0

    def read(self, amt: int | None = None) -> bytes:
        if self.getheader("Content-Encoding", "identity").lower() != "identity":
            raise http.client.HTTPException("the answer is compressed, which was not asked for")
        data = super().read(LONGEST_ANSWER - self.taken + 1 if amt is None else amt)
        self.taken += len(data)
        if self.taken > LONGEST_ANSWER:
            raise http.client.HTTPException(f"the answer is longer than {LONGEST_ANSWER} bytes")
        return data


class Cutoff:
    """The connection of one session, which another thread can cut. A session has one at a time.

    A time limit of a socket is for one read, and a server that sends a byte now and then never exceeds it. `cut` ends
    the thread's wait in any phase: the TLS handshake, the headers or the body.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.is_cut = False

    def scheme(self, scheme: Any) -> Any:
        """Return a subclass of a connection class of `http.client` whose connections can be cut."""
        connect = self._connect

        class Connection(scheme):  # type: ignore[misc]
            response_class = BoundedAnswer

            def __init__(self, *positional: Any, **named: Any) -> None:
                super().__init__(*positional, **named)
                # http.client calls it for a plain socket, which TLS takes over. There is no public way to get at it.
                self._create_connection = connect
                self._answer: http.client.HTTPResponse | None = None

            def getresponse(self) -> http.client.HTTPResponse:
                answer: http.client.HTTPResponse = super().getresponse()
                self._answer = answer
                return answer

            def close(self) -> None:
                # http.client leaves an answer open that ends with its connection.
                super().close()
                if self._answer is not None:
                    self._answer.close()

        return Connection

    def _connect(self, *positional: Any, **named: Any) -> socket.socket:
        made = socket.create_connection(*positional, **named)
        with self._lock:
            if self.is_cut:
                made.close()
                raise ConnectionAbortedError("the connection was given up")
            self._release()
            # A duplicate, because TLS detaches the original from its descriptor.
            self._socket = made.dup()
        return made

    def cut(self) -> None:
        """End the connection, and each that follows. It may be called in any thread."""
        with self._lock, contextlib.suppress(OSError):
            self.is_cut = True
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Release what is kept of the connection."""
        with self._lock:
            self._release()

    def _release(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
