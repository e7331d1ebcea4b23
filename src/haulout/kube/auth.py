"""Credentials of requests: tokens, passwords and client certificates, read or fetched again before they expire."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from haulout.base.clock import Clock
from haulout.kube.endpoint import Basic, ClientCertificate, Impersonation, Pem, Secret, TokenFile
from haulout.kube.errors import ConfigInvalid, ConnectionFailed
from haulout.kube.tls import CertPair

Header = tuple[str, str]

# Credentials are renewed this long before they expire, so that they do not expire on their way to the server.
EARLY_FOR = timedelta(seconds=10)
# Half of the time that a service account token is still good for when the kubelet has written the next one
# (client-go transport/token_source.go).
REREAD_SECONDS = 60.0
# Characters that a header name may have beside letters, digits and "-._~". All others are percent-encoded, and the
# server decodes them.
_HEADER_NAME_MARKS = "!#$&'*+^`|"


class AuthProof(msgspec.Struct, frozen=True):
    """The credentials of one request: its headers, and the client certificate of its connection."""

    headers: tuple[Header, ...] = ()
    certificate: CertPair | None = None

    def __repr__(self) -> str:
        return f"AuthProof({', '.join(name for name, _ in self.headers)})"

    def contains(self, part: AuthProof) -> bool:
        """Whether all headers of another proof, and its certificate if it has one, are in this proof."""
        certificate = part.certificate is None or part.certificate == self.certificate
        return certificate and set(part.headers) <= set(self.headers)


class AuthSource(Protocol):
    """One credential, as a source of proofs.

    `proof` raises `ConfigInvalid` if the credential cannot be used as it is, and `ConnectionFailed` if it cannot be
    had now.
    """

    # Whether a person may have to log in. The time that this takes does not count against the request's timeout.
    interactive: bool

    async def proof(self) -> AuthProof: ...

    def forget(self, proof: AuthProof) -> bool:
        """Forget a proof that was answered with 401. Return whether another try would present something else."""
        ...

    async def close(self) -> None: ...


class Fixed:
    """A credential that never changes, such as a static token or a password."""

    interactive = False

    def __init__(self, proof: AuthProof) -> None:
        self._proof = proof

    async def proof(self) -> AuthProof:
        return self._proof

    def forget(self, proof: AuthProof) -> bool:
        return False

    async def close(self) -> None:
        return


class FileBytes:
    """The content of a file, read again when the file's stat changes.

    It is also read again every minute, because on some mounts the stat does not change.
    """

    def __init__(self, path: Path, clock: Clock, where: str) -> None:
        self._path = path
        self._clock = clock
        self._where = where
        self._content = b""
        self._seen: tuple[int, int, int] | None = None
        self._read_at = 0.0

    def get(self, *, again: bool = False) -> bytes:
        """Return the file's content. While the file is being replaced, return the content that was read before.

        `again`: read the file even if its stat has not changed. Raises `ConfigInvalid` if it could never be read.
        """
        try:
            stat = self._path.stat()
            seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if again or seen != self._seen or self._clock.monotonic() - self._read_at >= REREAD_SECONDS:
                self._content = self._path.read_bytes().strip() or self._content
                self._seen, self._read_at = seen, self._clock.monotonic()
        except OSError as error:
            if not self._content:
                raise ConfigInvalid(f"{self._where}: {self._path} cannot be read: {error.strerror}") from error
        if not self._content:
            raise ConfigInvalid(f"{self._where}: {self._path} is empty")
        return self._content


def pem_reader(pem: Pem, clock: Clock, where: str) -> Callable[[], bytes]:
    return FileBytes(pem, clock, where).get if isinstance(pem, Path) else lambda: pem


def pem_bytes(pem: Pem, where: str) -> bytes:
    try:
        return pem.read_bytes() if isinstance(pem, Path) else pem
    except OSError as error:
        raise ConfigInvalid(f"{where}: {pem!s} cannot be read: {error.strerror}") from error


class FileToken:
    """A bearer token in a file. It is read again when the file changes, which the kubelet does, and after a 401."""

    interactive = False

    def __init__(self, credential: TokenFile, clock: Clock, where: str) -> None:
        self._file = FileBytes(credential.path, clock, where)
        self._fallback = credential.token
        self._where = where

    async def proof(self) -> AuthProof:
        return self._read(again=False)

    def forget(self, proof: AuthProof) -> bool:
        try:
            return not proof.contains(self._read(again=True))
        except ConfigInvalid:
            return False

    async def close(self) -> None:
        return

    def _read(self, *, again: bool) -> AuthProof:
        try:
            token = self._file.get(again=again).decode("utf-8", "replace")
        except ConfigInvalid:
            if self._fallback is None:
                raise
            token = self._fallback.text
        return AuthProof((bearer(token, self._where),))


class Certificate:
    """A client certificate with its key. Files are read again when they have been replaced."""

    interactive = False

    def __init__(self, credential: ClientCertificate, clock: Clock, where: str) -> None:
        key = credential.key
        self._certificate = pem_reader(credential.certificate, clock, where)
        self._key = pem_reader(key.text.encode("latin-1") if isinstance(key, Secret) else key, clock, where)

    async def proof(self) -> AuthProof:
        return AuthProof(certificate=CertPair(self._certificate(), self._key()))

    def forget(self, proof: AuthProof) -> bool:
        # Another try now would present the same certificate. A replaced file is read at the next request anyway.
        return False

    async def close(self) -> None:
        return


class Fetched(msgspec.Struct, frozen=True):
    """A credential from an exec plugin or an OIDC issuer, and when it expires."""

    proof: AuthProof
    # None: the credentials are good until the server refuses them.
    expires_at: datetime | None = None


class Renewed:
    """A credential that expires, and is then fetched again.

    All requests that wait for it share one fetch. A request that is cancelled does not end the fetch.
    """

    def __init__(
        self,
        fetch: Callable[[], Coroutine[Any, Any, Fetched]],
        clock: Clock,
        *,
        first: Fetched | None = None,
        interactive: bool = False,
        again: bool = True,
    ) -> None:
        self.interactive = interactive
        # Whether a fetch after a refusal can return another credential.
        self._again = again
        self._fetch = fetch
        self._clock = clock
        self._held = first
        self._under_way: asyncio.Task[Fetched] | None = None

    async def proof(self) -> AuthProof:
        held = self._held
        if held is None or (held.expires_at and held.expires_at - EARLY_FOR <= self._clock.now()):
            held = await self._renew()
        return held.proof

    def forget(self, proof: AuthProof) -> bool:
        # A refusal of an older credential says nothing about the one that has been fetched since.
        if self._again and self._held is not None and proof.contains(self._held.proof):
            self._held = None
        return self._again

    async def close(self) -> None:
        if self._under_way is not None:
            self._under_way.cancel()
            await asyncio.wait([self._under_way])

    async def _renew(self) -> Fetched:
        if self._under_way is None:
            self._under_way = asyncio.create_task(self._fetch())
            self._under_way.add_done_callback(self._landed)
        under_way = self._under_way
        try:
            return await asyncio.shield(under_way)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if under_way.cancelled() and task is not None and not task.cancelling():
                raise ConnectionFailed("logging in: the connection was closed before the login was done") from None
            raise

    def _landed(self, task: asyncio.Task[Fetched]) -> None:
        self._under_way = None
        # Reading the exception keeps asyncio from reporting it, if no caller waits any more.
        if not task.cancelled() and task.exception() is None:
            self._held = task.result()


def bearer(token: str, where: str) -> Header:
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigInvalid(f"{where}: the token is empty or holds characters that no token has")
    return ("Authorization", f"Bearer {token}")


def basic(login: Basic, where: str) -> Header:
    if ":" in login.username:
        raise ConfigInvalid(f"{where}: the username has a colon in it, which basic authentication cannot carry")
    pair = f"{login.username}:{login.password.text}".encode()
    return ("Authorization", f"Basic {base64.b64encode(pair).decode()}")


def impersonation_headers(impersonate: Impersonation) -> tuple[Header, ...]:
    headers = [("Impersonate-User", impersonate.user)]
    if impersonate.uid:
        headers.append(("Impersonate-Uid", impersonate.uid))
    headers += [("Impersonate-Group", group) for group in impersonate.groups]
    for key, values in impersonate.extra:
        headers += [(f"Impersonate-Extra-{quote(key, safe=_HEADER_NAME_MARKS)}", value) for value in values]
    for name, value in headers:
        # A line break in a value would begin another header.
        if not value.isprintable():
            raise ConfigInvalid(f"impersonation: {name} holds characters that no header can carry")
    return tuple(headers)
