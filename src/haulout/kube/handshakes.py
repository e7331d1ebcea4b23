"""Limits on the processor time of TLS with other clusters, whose servers choose their certificates and record sizes."""

from __future__ import annotations

import contextlib
import errno
import ssl
import time
from collections.abc import Callable
from typing import Any

from haulout.kube.tls import Client

# The most processor time of a handshake in seconds. An ordinary one takes 1 ms. A chain of 22 certificates with RSA
# keys of 16,384 bits takes 110 ms.
MOST = 0.030
# After a handshake that took longer, no connection to that server is opened for so many seconds.
REFUSED_FOR = 600.0
# After so many records, a connection whose average record has fewer bytes than this is closed. An API server sends each
# event in one or two records, and the shortest event has more than a hundred bytes. Each record takes 5 µs, so a server
# that sends byte by byte could keep the event loop busy.
FEW_RECORDS, SMALLEST_RECORD = 500, 32


def metered_client(
    took: Callable[[float], None],
    on_record: Callable[[], None] = lambda: None,
    spent: Callable[[], float] = time.thread_time,
) -> type[Client]:
    """Return a class of TLS connections that report the processor time of each step of a handshake, and each record.

    A handshake that took more than `MOST` seconds fails, even if its certificates are valid. A connection that we close
    does not wait for the server's closing message: for up to 30 s, the event loop would read and decrypt whatever the
    server goes on sending.
    """

    class Metered(Client):
        """A TLS connection that measures the processor time of its handshake and counts its records."""

        cost = 0.0
        records = received = 0

        def do_handshake(self) -> None:
            began = spent()
            try:
                super().do_handshake()
            finally:
                step = spent() - began
                self.cost += step
                took(step)
            if self.cost > MOST:
                raise ssl.SSLError(
                    errno.EPROTO, f"the server's certificates take more than {MOST * 1000:g} ms to verify"
                )

        def read(self, length: int = 1024, into: Any = None) -> Any:
            found: Any = super().read(length, into)
            self.records += 1
            self.received += len(found) if into is None else found
            if self.records > FEW_RECORDS and self.received < SMALLEST_RECORD * self.records:
                raise ssl.SSLError(
                    errno.EPROTO, f"the server sends records of less than {SMALLEST_RECORD} bytes, one after the other"
                )
            on_record()
            return found

        def unwrap(self) -> None:
            with contextlib.suppress(ssl.SSLWantReadError):
                super().unwrap()

    return Metered
