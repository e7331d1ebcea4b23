"""TLS as Go's clients do it: whom to trust, and the certificate to show."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from haulout.kube.errors import ConfigInvalid


class CertPair(msgspec.Struct, frozen=True):
    """A client certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "CertPair(…)"


def client_context(*, ca: bytes | None, insecure: bool, pair: CertPair | None, where: str) -> ssl.SSLContext:
    """`ca` None: whom the machine trusts. `where` names the endpoint in messages."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Go takes any certificate of the bundle as an anchor, root or not. The strict checks that Python 3.13 turns on
    # elsewhere refuse cluster authorities without key identifiers; this constructor leaves them off.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca is None:
        context.load_default_certs()
    else:
        _trust(context, ca, where)
    if pair is not None:
        _show(context, pair, where)
    return context


def _trust(context: ssl.SSLContext, ca: bytes, where: str) -> None:
    try:
        context.load_verify_locations(cadata=ca.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        raise ConfigInvalid(f"{where}: certificate-authority holds no certificate (PEM would be right)") from None


def _show(context: ssl.SSLContext, pair: CertPair, where: str) -> None:
    with _as_file(pair.certificate + b"\n" + pair.key) as path:
        try:
            # Without a password to give, OpenSSL would ask the terminal for it.
            context.load_cert_chain(path, password="")
        except (ssl.SSLError, ValueError):
            raise ConfigInvalid(
                f"{where}: the client certificate and its key cannot be used "
                "(a PEM certificate and the unencrypted PEM key that belongs to it would be right)"
            ) from None


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path under which OpenSSL can read it; where Linux allows, the key touches no disk."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").exists():
        with os.fdopen(os.memfd_create("pair"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
