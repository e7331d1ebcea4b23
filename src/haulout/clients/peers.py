"""Asks servers of others over HTTP: one request each, within a deadline, with bounded answers (decision 0170)."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from haulout.base.url import HIDDEN
from haulout.kube.allowed_addresses import Reach, socket_factory
from haulout.kube.bounds import Text
from haulout.kube.errors import UNFIT, ConfigInvalid, TooLarge, one_line
from haulout.kube.excerpt import ROOM, Excerpt, count_values, shape_of
from haulout.kube.handshakes import metered_client
from haulout.kube.tls import client_context

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

# The longest answer that is decoded whole. Of a longer one, an excerpt is made in slices, with other work in between.
WHOLE = 64 * 2**10
# The most objects, arrays and strings that are decoded at once. They block the event loop for about 4 ms.
MOST_VALUES = 20_000
# How much is received before it is read.
AHEAD = 64 * 2**10
# Answers are not compressed: a short compressed one can take the event loop's time and memory for gigabytes.
IDENTITY = "identity"
T = TypeVar("T")


class PeerError(Exception):
    """A server could not be asked, or its answer cannot be used. The message is one line, and quotes no answer."""


class PeerTimeout(PeerError):
    """A server did not answer within the deadline."""


class Answer:
    """The answer of a server, whose body is not read yet."""

    def __init__(self, act: str, response: aiohttp.ClientResponse) -> None:
        self._act = act
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self, longest: int) -> bytes:
        """Return the body. Raises PeerError if it has more than `longest` bytes."""
        return await self._text(longest, None)

    async def json(self, kind: type[T], longest: int, *, keep: Any = None) -> T:
        """Return the body, which is JSON, as a value of a type. Raises PeerError.

        `keep`: the type that says which fields are kept of a long answer; without it, those of `kind`.
        """
        text = await self._text(longest, keep or kind)
        if isinstance(text, Excerpt) and len(text) >= ROOM:
            # Items are left out of such an excerpt, and would be taken for absent.
            raise PeerError(f"{self._act}: the answer has too many items")
        return decode_answer(self._act, text, kind)

    async def _text(self, longest: int, keep: Any) -> bytes:
        shape = None if keep is None else shape_of(keep)
        text = Text(self._act, longest if shape is None else min(WHOLE, longest), longest, shape)
        await text.read(self._response.content)
        return text.take()


@asynccontextmanager
async def ask(
    act: str,
    method: str,
    url: str | URL,
    *,
    within: float,
    headers: Mapping[str, str] | None = None,
    data: Any = None,
    reach: Reach | None = None,
    by_proxy: bool = True,
    ca_file: str = "",
) -> AsyncIterator[Answer]:
    """Send a request, and yield the answer. What goes wrong with it, within the `with` block, too, raises PeerError.

    `act`: what failed, for messages. `within`: the seconds for all of it.
    `reach`: the addresses that may be connected to. `by_proxy`: without `reach`, the proxy that the environment names
    is used.
    `ca_file`: the certificate authorities that are trusted instead of those of the system.
    """
    # aiohttp takes 10 MiB, which a process without such requests does not need.
    import aiohttp

    from haulout.clients.failures import BROKEN, failure

    try:
        async with (
            asyncio.timeout(within),
            await _session(ca_file, reach, by_proxy=by_proxy) as session,
            # A redirect is not followed: it could send the credentials to another server.
            session.request(method, url, headers=headers, data=data, allow_redirects=False) as response,
        ):
            if response.headers.get("Content-Encoding", IDENTITY).lower() != IDENTITY:
                raise PeerError(f"{act}: the answer is compressed, which was not asked for")
            yield Answer(act, response)
    except TimeoutError:
        raise PeerTimeout(f"{act}: no answer within {within:g} s") from None
    except aiohttp.InvalidURL:
        raise PeerError(f"{act}: the address is not a URL") from None
    except (TooLarge, ConfigInvalid) as error:
        raise PeerError(one_line(str(error))) from None
    except (*BROKEN, UnicodeError) as error:
        raise PeerError(one_line(str(failure(act, error)))) from None
    except ValueError:
        # The message may quote a header, and so a credential.
        raise PeerError(f"{act}: the request cannot be sent") from None


async def _session(ca_file: str, reach: Reach | None, *, by_proxy: bool) -> aiohttp.ClientSession:
    """Return a session for one request. Requests to servers of others are minutes apart."""
    import aiohttp

    from haulout.clients.connector import Connector
    from haulout.clients.failures import CONNECT_SECONDS

    connector = Connector(ssl=await trust(ca_file), socket_factory=socket_factory(reach), force_close=True)
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        headers={"Accept-Encoding": IDENTITY},
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=AHEAD,
        # Behind a proxy, the address that is connected to could not be checked.
        trust_env=by_proxy and reach is None,
    )


async def trust(ca_file: str = "") -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities of a file; without one, those of the system.

    Reading those of the system takes tens of milliseconds, so it is done once, in a thread.
    """
    return await asyncio.to_thread(_trust_of, ca_file) if ca_file else await asyncio.to_thread(system_trust)


@functools.cache
def system_trust() -> ssl.SSLContext:
    """Return the TLS context that trusts the authorities of the system."""
    return _metered(client_context(ca=None, insecure=False, pair=None, where="the system"))


def _trust_of(ca_file: str) -> ssl.SSLContext:
    try:
        ca = Path(ca_file).read_bytes()
    except OSError as error:
        raise ConfigInvalid(f"{ca_file} cannot be read: {error.strerror}") from None
    return _metered(client_context(ca=ca, insecure=False, pair=None, where=ca_file))


def _metered(context: ssl.SSLContext) -> ssl.SSLContext:
    context.sslobject_class = metered_client(lambda seconds: None)
    return context


def decode_answer(act: str, text: bytes, kind: type[T]) -> T:
    """Return a JSON text as a value of a type. Raises PeerError."""
    # A value has at least two bytes, such as two quotes. So counting can be skipped for a short text.
    if len(text) > 2 * MOST_VALUES and count_values(text) > MOST_VALUES:
        raise PeerError(f"{act}: the answer has more than {MOST_VALUES} values")
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        raise PeerError(f"{act}: the answer cannot be read: it is nested too deeply") from None
    except UnicodeDecodeError:
        raise PeerError(f"{act}: the answer cannot be read: it is not UTF-8") from None
    except UNFIT as error:
        raise PeerError(f"{act}: the answer cannot be read: {one_line(str(error))}") from None


def without(text: str, secrets: Iterable[str]) -> str:
    """Return a text of another server without the credentials that were sent to it, which it may repeat."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
