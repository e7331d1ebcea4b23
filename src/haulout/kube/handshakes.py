"""What TLS handshakes with other clusters cost: the server chooses its certificates, and the event loop verifies them."""

from __future__ import annotations

import errno
import ssl
import time
from collections.abc import Callable

# An ordinary handshake takes 1 ms of processor time. A chain of 22 certificates with RSA keys of 16,384 bits takes 110 ms.
MOST = 0.030
# For so many seconds, no connection is opened to a server whose handshake took longer.
REFUSED_FOR = 600.0


def metered(took: Callable[[float], None], spent: Callable[[], float] = time.thread_time) -> type[ssl.SSLObject]:
    """Return a class of TLS connections that report the processor time of each step of a handshake.

    A handshake that took more than `MOST` seconds fails, though its certificates are good.
    """

    class Metered(ssl.SSLObject):
        """A TLS connection that knows what its handshake has cost."""

        cost = 0.0

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

    return Metered
