"""TLS contexts like those of Go's clients: the trusted authorities, and the client certificate."""

from __future__ import annotations

import base64
import binascii
import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from haulout.kube.errors import ConfigInvalid


class CertPair(msgspec.Struct, frozen=True):
    """A client certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "CertPair(…)"


# The bytes that one record of TLS holds at most (RFC 8446, section 5.1).
LONGEST_RECORD = 2**14


class Client(ssl.SSLObject):
    """A TLS connection to a server, from which one record at a time is read.

    The event loop asks for 256 KiB at once. OpenSSL never returns more than one record, but Python allocates as much as
    is asked for, and a block of that size is mapped and unmapped each time: 22 us.
    """

    def read(self, length: int = 1024, into: Any = None) -> Any:
        return super().read(min(length, LONGEST_RECORD), into)


def client_context(*, ca: bytes | None, insecure: bool, pair: CertPair | None, where: str) -> ssl.SSLContext:
    """Return the TLS context of a client.

    `ca` None: the authorities that the system trusts. `where`: what messages call the endpoint.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslobject_class = Client
    # Go takes any certificate of the bundle as an anchor, root or not. The strict checks that Python 3.13 turns on
    # elsewhere refuse cluster authorities without key identifiers; this constructor leaves them off.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Python's own list without finite-field Diffie-Hellman, which Go does not have either. With it the server would
    # choose the size of the group, and one of 10,000 bits blocks the event loop for half a second.
    context.set_ciphers("ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM")
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


_PEM = re.compile(
    rb"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>[^-]*(?:-(?!----)[^-]*)*)-----END (?P=label)-----", re.ASCII
)
# The heads of PKCS#8, PKCS#1 and SEC 1 keys. All of them begin with a small version number, which an encrypted key does
# not.
_KEY_LABELS = frozenset({b"PRIVATE KEY", b"RSA PRIVATE KEY", b"EC PRIVATE KEY"})
_PLAIN_KEY = re.compile(rb"\x30(?:[\x00-\x7f]|\x81.|\x82..)\x02\x01[\x00\x01]", re.DOTALL)
# An RSA key of 4,096 bits has 2,375 bytes. A signature with twice as many bits blocks the event loop for 40 ms.
_LONGEST_KEY = 2600
_MOST_CERTIFICATES, _LONGEST_CERTIFICATE = 16, 2**14


def _show(context: ssl.SSLContext, pair: CertPair, where: str) -> None:
    try:
        content = _certificates(pair.certificate) + _key(pair.key)
        with _as_file(content) as path:
            # Without this, OpenSSL would ask for the password on the terminal.
            context.load_cert_chain(path, password="")
    except _Unusable as error:
        raise ConfigInvalid(f"{where}: the client certificate and its key cannot be used: {error}") from None
    except (ssl.SSLError, ValueError):
        raise ConfigInvalid(
            f"{where}: the client certificate and its key cannot be used "
            "(a PEM certificate and the unencrypted PEM key that belongs to it would be right)"
        ) from None


class _Unusable(Exception):
    """A certificate or key cannot be used. The message says why, and what would be right."""


def _certificates(pem: bytes) -> bytes:
    """Return only the certificates of a PEM file. If it had a key, too, OpenSSL might take the wrong one."""
    blocks = [body for label, body in _blocks(pem) if label == b"CERTIFICATE"]
    if len(blocks) > _MOST_CERTIFICATES or any(len(block) > _LONGEST_CERTIFICATE for block in blocks):
        most = f"at most {_MOST_CERTIFICATES} certificates of {_LONGEST_CERTIFICATE} bytes"
        raise _Unusable(f"the certificate is too large ({most} would be right)")
    return b"".join(_block(b"CERTIFICATE", block) for block in blocks)


def _key(pem: bytes) -> bytes:
    """Return only the private key of a PEM file. Raises `_Unusable` if it is encrypted or too large.

    An encrypted key names the number of hash rounds that OpenSSL has to run. 2^31 rounds take a quarter of an hour.
    """
    if b"ENCRYPTED" in pem:
        raise _Unusable("the key is encrypted (an unencrypted one would be right)")
    keys = [(label, body) for label, body in _blocks(pem) if label in _KEY_LABELS]
    if not keys:
        raise _Unusable("there is no key (a PEM key would be right)")
    label, body = keys[0]
    if not _PLAIN_KEY.match(body):
        raise _Unusable("the key is encrypted or no key (an unencrypted PEM key would be right)")
    if len(body) > _LONGEST_KEY:
        raise _Unusable("the key is too large (RSA with at most 4096 bits would be right)")
    return _block(label, body)


def _blocks(pem: bytes) -> Iterator[tuple[bytes, bytes]]:
    for found in _PEM.finditer(pem):
        try:
            yield found["label"], base64.b64decode(b"".join(found["body"].split()), validate=True)
        except binascii.Error:
            raise _Unusable("it is not PEM") from None


def _block(label: bytes, body: bytes) -> bytes:
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label, base64.encodebytes(body), label)


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path under which OpenSSL can read the content. On Linux it is in memory, so that no key is on a disk."""
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
