"""Asks a Prometheus for the current value of a query."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from yarl import URL

from haulout.base.clock import Clock
from haulout.base.url import is_secret, without_secrets
from haulout.clients.peers import PeerError, ask, decode_answer, without
from haulout.kube.allowed_addresses import Reach
from haulout.kube.errors import one_line, shorten
from haulout.plugins.checks.prometheus_instant import Sample
from haulout.runtime.probes import ProbeContext, ProbeFailed

# Statuses for a wrong query. The body says what is wrong.
_QUERY_ERRORS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
# Statuses of proxies that do not allow POST. The query is then sent by GET.
_NO_POST = frozenset({HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})

# Much more than one sample takes. An alert gate may get thousands of rows.
LONGEST_ANSWER = 2**20
# Seconds for one query.
ANSWER_WITHIN = 30.0
# Longer than any number that Prometheus writes, and more warnings than people read. They are shown with every node.
LONGEST_VALUE = 64
MOST_WARNINGS, LONGEST_WARNING = 10, 200


class _Row(msgspec.Struct):
    """A row of a result, whose fields do not matter."""


class _Series(msgspec.Struct):
    """A row of a vector: the time and the value of its sample."""

    value: tuple[float, str]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")


class _Answer(msgspec.Struct, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: tuple[str, ...] = ()


class _KeptData(_Data, rename="camel"):
    result: tuple[_Series, ...] = ()  # type: ignore[assignment]


class _KeptAnswer(_Answer, rename="camel"):
    """The fields of a long answer that are kept: of a row, only its sample."""

    data: _KeptData | None = None


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
        url = question[0]
        answer = await self._answer(*question)
        try:
            return _sample(answer, quotes=self._reach is None)
        except _Quoting as failure:
            raise self._failure(url, failure) from None

    async def has_rows(self, url: str, query: str) -> bool:
        """Whether the result of the query has a row. An empty result is a valid answer."""
        data = (await self._answer(url, query)).data
        if data is None or data.result_type not in ("vector", "matrix"):
            raise ProbeFailed("result from prometheus is neither a vector nor a matrix")
        try:
            return bool(decode_answer("the result", data.result, tuple[_Row, ...]))
        except PeerError as error:
            raise self._failure(url, error) from None

    async def _answer(self, url: str, query: str) -> _Answer:
        try:
            return await self._ask(url, query)
        except (ProbeFailed, PeerError, ValueError) as error:
            raise self._failure(url, error) from None

    def _failure(self, url: str, error: Exception) -> ProbeFailed:
        if self._reach is not None:
            return ProbeFailed(error.plain if isinstance(error, _Quoting) else one_line(str(error)))
        why = without_secrets(str(error) or type(error).__name__)
        text = f"failed to query prometheus {without_secrets(url)}: {why}"
        return ProbeFailed(one_line(without(text, _credentials(url))))

    async def _ask(self, url: str, query: str) -> _Answer:
        target = URL(url)
        if target.scheme not in ("http", "https"):
            raise ProbeFailed(f'unsupported protocol scheme "{target.scheme}"')
        if self._reach is not None:
            _check_reach(self._reach, target)
        target = target.with_path(target.path.rstrip("/") + "/api/v1/query", keep_query=True)
        form = {"query": query, "time": f"{self._clock.now().timestamp():.3f}"}
        try:
            return await self._fetch("POST", target, data=form)
        except _NoPost:
            return await self._fetch("GET", target.update_query(form))

    async def _fetch(self, method: str, target: URL, data: Mapping[str, str] | None = None) -> _Answer:
        act = target.host or "its address"
        async with ask(act, method, target, within=ANSWER_WITHIN, data=data, reach=self._reach) as answer:
            if method == "POST" and answer.status in _NO_POST:
                raise _NoPost
            if answer.status // 100 != 2 and answer.status not in _QUERY_ERRORS:
                side = "server" if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "client"
                raise ProbeFailed(f"{side}_error: {side} error: {answer.status}")
            return _checked(answer.status, await answer.json(_Answer, LONGEST_ANSWER, keep=_KeptAnswer))


class _NoPost(Exception):
    """A proxy does not allow POST."""


def _check_reach(reach: Reach, target: URL) -> None:
    """Raise ProbeFailed for an address that a tenant must not name."""
    if target.scheme != "https" and not reach.plain_http:
        raise ProbeFailed("its URL has no TLS, and the setting allowHttpPrometheus does not allow that")
    if not reach.allows_host(target.host or ""):
        raise ProbeFailed(reach.refusal)


def _credentials(url: str) -> tuple[str, ...]:
    """Return the credentials that are in a URL, in every form in which they are sent. The server may repeat them."""
    try:
        target = URL(url)
    except ValueError:
        return ()
    login = f"{target.user or ''}:{target.password or ''}".encode()
    secrets = (target.password or "", base64.b64encode(login).decode() if target.user else "")
    return (*secrets, *(value for name, value in target.query.items() if is_secret(name)))


async def query(question: tuple[str, str], context: ProbeContext) -> Sample:
    """Return the current value of a query. `question`: the server's URL and the query."""
    return await Prometheus(context.clock)(question)


def _checked(status: int, answer: _Answer) -> _Answer:
    if answer.status == "error":
        raise _Quoting("the query was refused", f"{answer.error_type}: {answer.error}")
    if answer.status != "success" or answer.data is None or status in _QUERY_ERRORS:
        raise ProbeFailed("bad_response: inconsistent body for response code")
    return answer


def _sample(answer: _Answer, *, quotes: bool) -> Sample:
    """Return the only sample of an answer. `quotes`: the server's own texts may be repeated."""
    if answer.data is None or answer.data.result_type != "vector":
        raise ProbeFailed("result from prometheus is not a vector")
    unreadable = "the sample cannot be read"
    try:
        result = decode_answer("", answer.data.result, tuple[_Series, ...])
    except PeerError:
        raise _Quoting(unreadable, unreadable) from None
    if len(result) != 1:
        raise ProbeFailed("result does not contain exactly one element")
    _, value = result[0].value
    try:
        number = float(value) if len(value) <= LONGEST_VALUE else None
    except ValueError:
        number = None
    if number is None:
        raise _Quoting(unreadable, f"{unreadable}: {shorten(value)}")
    if not quotes:
        return Sample(repr(number))
    return Sample(value, tuple(shorten(one_line(each), LONGEST_WARNING) for each in answer.warnings[:MOST_WARNINGS]))
