"""The Prometheus probe, against a small server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from haulout.clients.prometheus import LONGEST_ANSWER, Prometheus
from haulout.kube.allowed_addresses import Reach
from haulout.plugins.checks.prometheus_instant import Sample
from haulout.runtime.probes import ProbeFailed
from tests.build.clock import ManualClock
from tests.build.rows import START


class Served:
    """A server that answers as the test says, and remembers its requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.answers: list[tuple[int, Any]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        form = dict(await request.post()) if request.method == "POST" else dict(request.query)
        self.asked.append((request.method, request.path, {name: str(value) for name, value in form.items()}))
        status, body = self.answers.pop(0)
        if isinstance(body, str):
            return web.Response(status=status, text=body, headers={"Location": "/elsewhere"})
        return web.json_response(body, status=status)


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    served = Served()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", served.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield served
    await runner.cleanup()


def vector(*values: str, **more: Any) -> dict[str, Any]:
    samples = [{"metric": {}, "value": [1.5, value]} for value in values]
    return {"status": "success", "data": {"resultType": "vector", "result": samples}, **more}


async def ask(url: str, query: str = "up") -> Sample:
    return await Prometheus(ManualClock(START))((url, query))


async def test_asks_by_form(server: Served) -> None:
    server.answers = [(200, vector("2.5", warnings=["slow"]))]
    assert await ask(f"{server.url}/prom/", 'up{a="b&c"}') == Sample("2.5", ("slow",))
    assert server.asked == [("POST", "/prom/api/v1/query", {"query": 'up{a="b&c"}', "time": "1772359200.000"})]


async def test_goes_through_the_proxy_of_the_environment(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    server.answers = [(200, vector("1"))]
    assert await ask("http://prometheus.invalid") == Sample("1")


@pytest.mark.parametrize("status", [405, 501])
async def test_falls_back_to_get(server: Served, status: int) -> None:
    server.answers = [(status, "no"), (200, vector("1"))]
    assert await ask(server.url) == Sample("1")
    assert [method for method, _, _ in server.asked] == ["POST", "GET"]
    assert server.asked[0][1:] == server.asked[1][1:]


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        pytest.param(
            200,
            {"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}},
            "result from prometheus is not a vector",
            id="a scalar",
        ),
        pytest.param(200, vector(), "result does not contain exactly one element", id="no sample"),
        pytest.param(200, vector("1", "2"), "result does not contain exactly one element", id="two samples"),
        pytest.param(
            400,
            {"status": "error", "errorType": "bad_data", "error": "parse error"},
            "failed to query prometheus {url}: bad_data: parse error",
            id="a bad query",
        ),
        pytest.param(503, "down", "failed to query prometheus {url}: server_error: server error: 503", id="down"),
        pytest.param(404, "none", "failed to query prometheus {url}: client_error: client error: 404", id="not there"),
        pytest.param(
            400,
            vector("1"),
            "failed to query prometheus {url}: bad_response: inconsistent body for response code",
            id="a success that is none",
        ),
    ],
)
async def test_says_what_is_wrong(server: Served, status: int, body: Any, words: str) -> None:
    server.answers = [(status, body)]
    with pytest.raises(ProbeFailed) as caught:
        await ask(server.url)
    assert str(caught.value) == words.format(url=server.url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        pytest.param("nowhere", 'failed to query prometheus nowhere: unsupported protocol scheme ""', id="no url"),
        pytest.param("http://127.0.0.1:1", "failed to query prometheus http://127.0.0.1:1: ", id="nobody there"),
        pytest.param("http://[", "failed to query prometheus http://[: ", id="not even a url"),
        pytest.param("http:///x", "failed to query prometheus http:///x: ", id="no host"),
    ],
)
async def test_says_that_nobody_answers(url: str, words: str) -> None:
    with pytest.raises(ProbeFailed) as caught:
        await ask(url)
    assert str(caught.value).startswith(words)


async def test_a_redirect_is_not_followed(server: Served) -> None:
    server.answers = [(307, "elsewhere")]
    with pytest.raises(ProbeFailed, match="client error: 307"):
        await ask(server.url.replace("//", "//user:hunter2@"))
    assert len(server.asked) == 1


@pytest.mark.parametrize("answer", [(500, ""), (200, "nonsense"), (200, "x" * (LONGEST_ANSWER + 1))])
async def test_what_fails_is_said_without_the_login(server: Served, answer: tuple[int, str]) -> None:
    server.answers = [answer]
    with pytest.raises(ProbeFailed) as failure:
        await ask(f"{server.url.replace('//', '//user:hunter2@')}?token=hunter2")
    assert "hunter2" not in str(failure.value)
    assert "...@127.0.0.1" in str(failure.value)


async def test_an_ordinary_parameter_of_the_address_stays_in_messages(server: Served) -> None:
    server.answers = [(503, "down")]
    with pytest.raises(ProbeFailed) as failure:
        await ask(f"{server.url}?tenant=0&token=hunter2")
    assert str(failure.value) == (
        f"failed to query prometheus {server.url}?tenant=0&token=...: server_error: server error: 503"
    )


@pytest.mark.parametrize(("values", "expected"), [((), False), (("1",), True), (("1", "2"), True)])
async def test_whether_a_query_returns_rows(server: Served, values: tuple[str, ...], expected: bool) -> None:
    server.answers = [(200, vector(*values))]
    assert await Prometheus(ManualClock(START)).has_rows(server.url, "ALERTS") is expected


async def test_an_answer_without_rows_to_count_is_no_answer(server: Served) -> None:
    server.answers = [(200, {"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}})]
    with pytest.raises(ProbeFailed, match="neither a vector nor a matrix"):
        await Prometheus(ManualClock(START)).has_rows(server.url, "1")


async def ask_foreign(url: str, reach: Reach) -> Sample:
    """Ask a server whose address a tenant has chosen."""
    return await Prometheus(ManualClock(START), reach)((url, "up"))


async def test_a_foreign_server_is_asked_without_the_proxy(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    server.answers = [(200, vector("2.5", warnings=["secret"]))]
    assert await ask_foreign(server.url, Reach(loopback=True, plain_http=True)) == Sample("2.5")


@pytest.mark.parametrize(
    ("url", "reach", "words"),
    [
        pytest.param("", Reach(loopback=True), "its URL has no TLS", id="no TLS"),
        pytest.param("", Reach(plain_http=True, refusal="no"), "no", id="this computer"),
        pytest.param(
            "http://localhost:{port}",
            Reach(plain_http=True, refusal="no"),
            "localhost: no connection: no",
            id="by name",
        ),
        pytest.param("http://169.254.169.254", Reach(plain_http=True, refusal="no"), "no", id="of the link"),
        pytest.param(
            "http://10.1.1.1", Reach(("192.0.2.0/24",), plain_http=True, refusal="no"), "no", id="out of range"
        ),
    ],
)
async def test_a_foreign_server_that_must_not_be_asked(server: Served, url: str, reach: Reach, words: str) -> None:
    with pytest.raises(ProbeFailed) as caught:
        await ask_foreign(url.format(port=server.url.rpartition(":")[2]) or server.url, reach)
    assert str(caught.value).startswith(words)
    assert server.asked == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((400, {"status": "error", "errorType": "bad_data", "error": "secret"}), "the query was refused"),
        (
            (200, "secret"),
            "127.0.0.1: the answer cannot be read: JSON is malformed: invalid character (byte 0)",
        ),
        ((200, vector("secret")), "the sample cannot be read"),
        ((403, "secret"), "client_error: client error: 403"),
        (
            (200, "x" * (LONGEST_ANSWER + 1)),
            f"127.0.0.1: the answer is longer than {LONGEST_ANSWER} bytes, and is not read any further",
        ),
    ],
)
async def test_nothing_that_a_foreign_server_says_is_repeated(
    server: Served, answer: tuple[int, Any], words: str
) -> None:
    server.answers = [answer]
    with pytest.raises(ProbeFailed) as caught:
        await ask_foreign(server.url, Reach(loopback=True, plain_http=True))
    assert str(caught.value) == words


async def test_a_foreign_server_that_is_not_there() -> None:
    with pytest.raises(ProbeFailed) as caught:
        await ask_foreign("http://127.0.0.1:1", Reach(loopback=True, plain_http=True))
    assert "Connect call failed" in str(caught.value) or "refused" in str(caught.value)
