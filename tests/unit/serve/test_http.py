"""What our servers answer to requests in all forms that HTTP knows, and to what is none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import pytest

from haulout.serve.connections import Limits
from haulout.serve.exchange import Request, Response, StreamResponse, not_found
from haulout.serve.web import listen, send

PATIENCE = 20
LONG = b"x" * 300_000


async def echo(request: Request) -> Response:
    return Response(body=await request.read(), headers={"X-Path": request.path, "X-Kind": request.content_type})


async def rest(request: Request) -> Response:
    return Response(text=request.match_info["rest"])


async def long(request: Request) -> StreamResponse:
    return await send(request, LONG, "text/plain")


async def deaf(request: Request) -> Response:
    return Response(text="read nothing")


async def broken(request: Request) -> Response:
    raise ZeroDivisionError


async def half(request: Request) -> StreamResponse:
    response = StreamResponse()
    response.content_length = 100
    await response.prepare(request)
    await response.write(b"x")
    raise ZeroDivisionError


async def nowhere(request: Request) -> Response:
    raise not_found()


ROUTES = {
    "/echo": echo,
    "/long": long,
    "/deaf": deaf,
    "/broken": broken,
    "/half": half,
    "/nowhere": nowhere,
    "/under/{rest:.*}": rest,
}


@contextlib.asynccontextmanager
async def asking(method: str = "GET") -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    server = await listen(
        "127.0.0.1:0", ROUTES, method=method, longest_body=100, limits=Limits(headers_within=PATIENCE)
    )
    assert server is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        async with asyncio.timeout(PATIENCE):
            yield reader, writer
    finally:
        writer.close()
        await server.cleanup()


async def answer(reader: asyncio.StreamReader, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    fields = dict(line.split(": ", 1) for line in head[1:] if line)
    body = await reader.readexactly(int(fields["Content-Length"])) if has_body else b""
    return int(head[0].split()[1]), fields, body


async def asked(data: bytes, method: str = "GET") -> tuple[int, dict[str, str], bytes, bool]:
    """Return the answer to a request, and whether the connection was closed after it."""
    async with asking(method) as (reader, writer):
        writer.write(data)
        code, fields, body = await answer(reader)
        writer.write(b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            return code, fields, body, not await reader.read(1)
    return code, fields, body, True


async def test_bodies_by_length_and_in_chunks() -> None:
    async with asking("POST") as (reader, writer):
        writer.write(b"POST /echo HTTP/1.1\r\nContent-Type: A/B; c=d\r\nContent-Length: 3\r\n\r\nabc")
        assert (await answer(reader))[2] == b"abc"
        writer.write(b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
        await asyncio.sleep(0.01)
        writer.write(b"1\r\nc\r\n0\r\n\r\n")
        code, fields, body = await answer(reader)
    assert (code, fields["X-Path"], body) == (200, "/echo", b"abc")


async def test_requests_that_come_together_are_answered_in_order() -> None:
    one = b"GET /under/%d HTTP/1.1\r\nHost: x\r\n\r\n"
    last = one % 7
    async with asking() as (reader, writer):
        writer.write(b"".join(one % number for number in range(50)) + last[:20])
        assert [(await answer(reader))[2] for _ in range(50)] == [b"%d" % number for number in range(50)]
        writer.write(last[20:])
        assert (await answer(reader))[2] == b"7"


async def test_path_is_decoded_and_its_query_left_out() -> None:
    assert (await asked(b"GET /under/a%20b/../c?d=e#f HTTP/1.1\r\n\r\n"))[2] == b"a b/../c"
    assert (await asked(b"GET http://host:1/under/x?y HTTP/1.1\r\n\r\n"))[2] == b"x"


async def test_answer_to_head_has_the_length_and_no_body() -> None:
    async with asking() as (reader, writer):
        for path in (b"/under/abc", b"/long"):
            writer.write(b"HEAD " + path + b" HTTP/1.1\r\n\r\n")
            code, fields, _ = await answer(reader, has_body=False)
            assert (code, fields["Content-Length"]) == (200, str(3 if path == b"/under/abc" else len(LONG)))


async def test_long_answer_arrives_whole() -> None:
    code, _, body, closed = await asked(b"GET /long HTTP/1.1\r\n\r\n")
    assert (code, body, closed) == (200, LONG, False)


@pytest.mark.parametrize(
    "version, more, closed",
    [
        ("1.1", "", False),
        ("1.1", "Connection: close\r\n", True),
        ("1.0", "", True),
        ("1.0", "Connection: keep-alive\r\n", False),
    ],
)
async def test_connection_is_kept_as_asked(version: str, more: str, closed: bool) -> None:
    found = await asked(f"GET /under/a HTTP/{version}\r\n{more}\r\n".encode())
    assert (found[0], found[3]) == (200, closed)


@pytest.mark.parametrize(
    "line, code",
    [("GET /none", 404), ("POST /echo", 405), ("GET /nowhere", 404), ("DELETE /under/x", 405)],
)
async def test_what_is_not_served(line: str, code: int) -> None:
    found = await asked(f"{line} HTTP/1.1\r\n\r\n".encode())
    assert (found[0], found[3]) == (code, False)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"HELLO\r\n\r\n", id="no-request"),
        pytest.param(b"GET /under/\xff HTTP/1.1\r\n\r\n", id="no-text"),
        pytest.param(b"GET /under/%00 HTTP/1.1\r\n\r\n", id="zero"),
        pytest.param(b"GET * HTTP/1.1\r\n\r\n", id="no-path"),
        pytest.param(b"GET /under/x HTTP/2.0\r\n\r\n", id="version"),
        pytest.param(b"GET /under/x HTTP/1.1\r\nA\r\n\r\n", id="no-colon"),
        pytest.param(b"GET /under/x HTTP/1.1\r\nA: b\r\n c\r\n\r\n", id="folded"),
        pytest.param(b"GET /under/x HTTP/1.1\r\nA : b\r\n\r\n", id="space-before-colon"),
        pytest.param(b"GET /under/x HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", id="both"),
        pytest.param(b"GET /under/x HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", id="two-lengths"),
        pytest.param(b"GET /under/x HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", id="coding"),
        pytest.param(b"GET /under/" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", id="long-line"),
        pytest.param(b"GET /under/x HTTP/1.1\r\n" + b"A: b\r\n" * 9000 + b"\r\n", id="long-head"),
    ],
)
async def test_what_is_not_http_is_refused_and_the_connection_closed(data: bytes) -> None:
    found = await asked(data)
    assert (found[0], found[3]) == (400, True)


async def test_chunk_that_is_not_http_is_an_error_of_the_request() -> None:
    found = await asked(b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "POST")
    assert (found[0], found[3]) == (400, True)


async def test_body_that_is_too_long_is_refused() -> None:
    found = await asked(b"POST /echo HTTP/1.1\r\nContent-Length: 101\r\n\r\n" + b"x" * 101, "POST")
    assert found[0] == 413


async def test_connection_is_closed_if_the_body_does_not_come() -> None:
    found = await asked(b"POST /deaf HTTP/1.1\r\nContent-Length: 1000000\r\n\r\nx", "POST")
    assert (found[0], found[3]) == (200, True)


async def test_caller_that_waits_is_told_to_continue() -> None:
    async with asking("POST") as (reader, writer):
        writer.write(b"POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"ab")
        assert (await answer(reader))[2] == b"ab"


async def test_unknown_expectations_and_compressed_bodies_are_refused() -> None:
    assert (await asked(b"GET /under/x HTTP/1.1\r\nExpect: gold\r\n\r\n"))[0] == 417
    data = b"POST /echo HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"
    assert (await asked(data, "POST"))[0] == 415


async def test_handler_that_fails_is_an_error_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    assert (await asked(b"GET /broken HTTP/1.1\r\n\r\n"))[0] == 500
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_answer_that_fails_half_way_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    async with asking() as (reader, writer):
        writer.write(b"GET /half HTTP/1.1\r\n\r\n")
        assert (await reader.read()).endswith(b"\r\n\r\nx")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_no_header_of_ours_is_split() -> None:
    async def split(request: Request) -> Response:
        return Response(text="x", headers={"X": "a\r\nY: b"})

    server = await listen("127.0.0.1:0", {"/": split})
    assert server is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert (await answer(reader))[1]["X"] == "a  Y: b"
    writer.close()
    await server.cleanup()
