"""TLS servers whose certificate can be replaced while they run. New connections get the new certificate."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

# HTTP/2 is off: it can be flooded in several ways, and no client of ours needs it.
PROTOCOLS = ["http/1.1"]


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Pair(…)"


class TakesCertificates(Protocol):
    """A server whose certificate can be set. `ready`: whether it has one. `certificate`: it, as PEM; empty without one."""

    @property
    def ready(self) -> bool: ...

    @property
    def certificate(self) -> bytes: ...

    def use(self, pair: Pair) -> bool: ...


class ServerIdentity:
    """The certificate that a TLS server presents, replaceable while the server runs.

    `context`: the SSL context of the listening server. Until a certificate is set, every handshake fails.
    `oldest`: the oldest version of TLS that is accepted; None: the library's default.
    """

    def __init__(self, oldest: ssl.TLSVersion | None = None) -> None:
        self._oldest = oldest
        self.context = _context(oldest)
        self.context.sni_callback = self._choose
        self._current: ssl.SSLContext | None = None
        self._pair: Pair | None = None

    @property
    def ready(self) -> bool:
        return self._current is not None

    @property
    def certificate(self) -> bytes:
        return self._pair.certificate if self._pair is not None else b""

    def use(self, pair: Pair) -> bool:
        """Set the certificate. Return False if it is in use already.

        Raises ssl.SSLError or ValueError for a bad one. The last certificate then stays in use.
        """
        if pair == self._pair:
            return False
        self._current = loaded(pair, self._oldest)
        self._pair = pair
        return True

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> int | None:
        """Choose the certificate for a handshake, whether or not the client names a server."""
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


class KeyTaker:
    """A part of the process that needs the private key of the certificate, and presents it to no client."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take

    @property
    def ready(self) -> bool:
        return True

    @property
    def certificate(self) -> bytes:
        return b""

    def use(self, pair: Pair) -> bool:
        self._take(pair.key)
        return False


class Together:
    """Several servers that present the same certificate."""

    def __init__(self, *identities: TakesCertificates) -> None:
        self._identities = identities

    @property
    def ready(self) -> bool:
        return all(identity.ready for identity in self._identities)

    @property
    def certificate(self) -> bytes:
        return self._identities[0].certificate

    def use(self, pair: Pair) -> bool:
        news = [identity.use(pair) for identity in self._identities]
        return any(news)


def loaded(pair: Pair, oldest: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = _context(oldest)
    # The ssl module reads keys only from files. These are files in memory, because a pod may have no writable directory.
    with _named(pair.certificate) as certificate, _named(pair.key) as key:
        # Without this, OpenSSL would ask for the password on the terminal.
        context.load_cert_chain(certificate, key, password="")
    return context


@contextlib.contextmanager
def _named(content: bytes) -> Iterator[str]:
    with os.fdopen(os.memfd_create("haulout-tls"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _context(oldest: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    if oldest is not None:
        context.minimum_version = oldest
    context.set_alpn_protocols(PROTOCOLS)
    return context
