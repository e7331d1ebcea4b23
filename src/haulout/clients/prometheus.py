"""Asks a Prometheus for the current value of a query."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from haulout.base.clock import Clock
from haulout.base.url import without_secrets
from haulout.clients.body import TooLong, read_whole
from haulout.kube.allowed_addresses import Reach, socket_factory
from haulout.plugins.checks.prometheus_instant import Sample
from haulout.runtime.probes import ProbeContext, ProbeFailed

# Statuses for a wrong query. The body says what is wrong.
_QUERY_ERRORS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
# Statuses of proxies that do not allow POST. The query is then sent by GET.
_NO_POST = frozenset({HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})

# Much more than one sample takes.
LONGEST_ANSWER = 2**20


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: Any = None


class _Answer(msgspec.Struct, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: tuple[str, ...] = ()


class _Quoting(ProbeFailed):
    """A failure whose message quotes the server's answer. `plain`: the message without the quotation."""

    def __init__(self, plain: str, quoted: str) -> None:
        super().__init__(quoted)
        self.plain = plain


class Prometheus:
    """A probe that asks a Prometheus server for the current value of a query.

    A query that cannot be answered raises `ProbeFailed` with the reason.
    `reach`: the allowed addresses, for servers that tenants choose. Errors then do not quote the server's answer, so that
    a tenant cannot use us to read from our network.
    """

    def __init__(self, clock: Clock, reach: Reach | None = None) -> None:
        self._clock = clock
        self._reach = reach

    async def __call__(self, question: tuple[str, str]) -> Sample:
        answer = await self._answer(*question)
        if self._reach is None:
            return _sample(answer)
        try:
            return Sample(repr(float(_sample(answer).value)))
        except _Quoting as failure:
            raise ProbeFailed(failure.plain) from None

    async def has_rows(self, url: str, query: str) -> bool:
        """Whether the result of the query has a row. An empty result is a valid answer."""
        data = (await self._answer(url, query)).data
        if data is None or data.result_type not in ("vector", "matrix"):
            raise ProbeFailed("result from prometheus is neither a vector nor a matrix")
        return bool(data.result)

    async def _answer(self, url: str, query: str) -> _Answer:
        try:
            return await self._ask(url, query)
        except (ProbeFailed, aiohttp.ClientError, OSError, ValueError) as error:
            if self._reach is not None:
                raise ProbeFailed(_plain(error)) from None
            raise self._failure(url, error) from None

    @staticmethod
    def _failure(url: str, error: Exception) -> ProbeFailed:
        text = str(error) or type(error).__name__
        return ProbeFailed(without_secrets(f"failed to query prometheus {url}: {text}"))

    async def _ask(self, url: str, query: str) -> _Answer:
        target = URL(url)
        if target.scheme not in ("http", "https"):
            raise ProbeFailed(f'unsupported protocol scheme "{target.scheme}"')
        target = target.with_path(target.path.rstrip("/") + "/api/v1/query", keep_query=True)
        form = {"query": query, "time": f"{self._clock.now().timestamp():.3f}"}
        # Queries are minutes apart, so each has its own session, which is closed at once.
        async with self._session(target) as session:
            status, body = await _fetch(session, "POST", target, form)
            if status in _NO_POST:
                status, body = await _fetch(session, "GET", target, form)
        return _read(status, body)

    def _session(self, target: URL) -> aiohttp.ClientSession:
        if self._reach is None:
            # The proxy that the environment names is used, as in the original.
            return aiohttp.ClientSession(trust_env=True)
        if target.scheme != "https" and not self._reach.plain_http:
            raise ProbeFailed("its URL has no TLS, and the setting allowHttpPrometheus does not allow that")
        if not self._reach.allows_host(target.host or ""):
            raise ProbeFailed(self._reach.refusal)
        # No proxy: behind one, the address that is connected to could not be checked.
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(socket_factory=socket_factory(self._reach)))


def _plain(error: Exception) -> str:
    """Return the message of an error without any part of the server's answer."""
    if isinstance(error, _Quoting):
        return error.plain
    if isinstance(error, ProbeFailed | TooLong):
        return str(error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.strerror or "no connection"
    return type(error).__name__


async def _fetch(
    session: aiohttp.ClientSession, method: str, target: URL, form: Mapping[str, str]
) -> tuple[int, bytes]:
    how: dict[str, Any] = {"data": form} if method == "POST" else {"params": form}
    # A redirect is not followed: it could send the login to another server.
    async with session.request(method, target, allow_redirects=False, **how) as response:
        return response.status, await read_whole(response, LONGEST_ANSWER)


async def query(question: tuple[str, str], context: ProbeContext) -> Sample:
    """Return the current value of a query. `question`: the server's URL and the query."""
    return await Prometheus(context.clock)(question)


def _read(status: int, body: bytes) -> _Answer:
    if status // 100 != 2 and status not in _QUERY_ERRORS:
        side = "server" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "client"
        raise ProbeFailed(f"{side}_error: {side} error: {status}")
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except msgspec.DecodeError as error:
        raise _Quoting("the answer is not Prometheus'", f"bad_response: {error}") from error
    if answer.status == "error":
        raise _Quoting("the query was refused", f"{answer.error_type}: {answer.error}")
    if answer.status != "success" or answer.data is None or status in _QUERY_ERRORS:
        raise ProbeFailed("bad_response: inconsistent body for response code")
    return answer


def _sample(answer: _Answer) -> Sample:
    if answer.data is None or answer.data.result_type != "vector":
        raise ProbeFailed("result from prometheus is not a vector")
    result = answer.data.result
    if not isinstance(result, list) or len(result) != 1:
        raise ProbeFailed("result does not contain exactly one element")
    try:
        _, value = result[0]["value"]
        float(value)
    except (LookupError, TypeError, ValueError):
        raise _Quoting("the sample cannot be read", f"the sample cannot be read: {result[0]}") from None
    return Sample(value, answer.warnings)
