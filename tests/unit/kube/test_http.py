"""The HTTP transport against real servers on loopback: TLS, credentials, deadlines, cuts and proxies."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import ssl
import stat
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from haulout import __version__
from haulout.kube.endpoint import (
    Basic,
    ClientCertificate,
    Endpoint,
    ExecPlugin,
    Impersonation,
    Secret,
    StaticToken,
    TokenFile,
)
from haulout.kube.errors import (
    ApiError,
    ConfigInvalid,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Invalid,
    NotFound,
    RequestTimeout,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
)
from haulout.kube.http import HttpTransport
from haulout.kube.transport import MERGE_PATCH, METADATA_ONLY, Transport
from tests.build.clock import ManualClock
from tests.build.server import serve, server_context

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def api(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    async def route(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", route)
    async with serve(app, context) as url:
        yield url


@asynccontextmanager
async def connected(server: str, **fields: Any) -> AsyncIterator[HttpTransport]:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    transport = HttpTransport(Endpoint(name="home", server=server, **fields), clock)
    try:
        yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def raw(answer: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve connections by hand: read the head of each request, write `answer` and close."""
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads


class Recorded:
    """A server that answers `{}` and remembers its requests."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.peers: list[object] = []
        self.bodies: list[bytes] = []

    async def __call__(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        self.peers.append(request.transport and request.transport.get_extra_info("peername"))
        self.bodies.append(await request.read())
        return web.Response(body=b"{}", content_type="application/json")


def replace(path: Path, content: bytes) -> Path:
    """Replace a file by a new one, with a later modification time however fast the test runs."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    os.utime(beside, ns=(before + 10**9, before + 10**9))
    beside.rename(path)
    return path


def ca(authority: trustme.CA) -> bytes:
    return authority.cert_pem.bytes()


def pair(authority: trustme.CA, name: str) -> tuple[bytes, bytes]:
    leaf = authority.issue_cert(common_name=name)
    return leaf.cert_chain_pems[0].bytes(), leaf.private_key_pem.bytes()


def never_sent(error: ConnectionFailed) -> bool:
    return not error.sent


class TestRequest:
    async def test_what_the_server_sees(self) -> None:
        seen = Recorded()
        async with api(seen) as url, connected(f"{url}/k8s/clusters/c-1") as transport:
            reply = await transport.request(
                "PATCH",
                "/api/v1/nodes/a",
                query={"fieldManager": "haulout", "labelSelector": "a=b,c!=d e+f"},
                body=b'{"x":1}',
                content_type=MERGE_PATCH,
                accept=METADATA_ONLY,
            )
        (request,) = seen.requests
        assert (reply.status, reply.body) == (200, b"{}")
        assert (request.method, request.path) == ("PATCH", "/k8s/clusters/c-1/api/v1/nodes/a")
        assert dict(request.query) == {"fieldManager": "haulout", "labelSelector": "a=b,c!=d e+f"}
        assert seen.bodies == [b'{"x":1}']
        headers = {name: request.headers[name] for name in ("Accept", "Content-Type", "User-Agent", "Accept-Encoding")}
        assert headers == {
            "Accept": METADATA_ONLY,
            "Content-Type": MERGE_PATCH,
            "User-Agent": f"haulout/{__version__}",
            "Accept-Encoding": "identity",
        }

    async def test_connections_are_used_again(self) -> None:
        seen = Recorded()
        async with api(seen) as url, connected(url) as transport:
            await transport.request("GET", "/a")
            await transport.request("POST", "/b", body=b"{}")
        assert len(set(seen.peers)) == 1

    async def test_impersonation(self) -> None:
        seen = Recorded()
        jane = Impersonation("jane", ("g", "h"), "1", (("k/l", ("v", "w")),))
        async with api(seen) as url, connected(url, impersonate=jane) as transport:
            await transport.request("GET", "/")
        headers = [(name, value) for name, value in seen.requests[0].headers.items() if name.startswith("Impersonate")]
        assert headers == [
            ("Impersonate-User", "jane"),
            ("Impersonate-Uid", "1"),
            ("Impersonate-Group", "g"),
            ("Impersonate-Group", "h"),
            ("Impersonate-Extra-k%2Fl", "v"),
            ("Impersonate-Extra-k%2Fl", "w"),
        ]

    def test_is_a_transport(self) -> None:
        transport: Transport = HttpTransport(
            Endpoint(name="home", server="https://x"), ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        )
        assert isinstance(transport, HttpTransport)


def status(code: int, **fields: Any) -> bytes:
    return json.dumps({"kind": "Status", "status": "Failure", "code": code, **fields}).encode()


BUDGET = {"causes": [{"reason": "DisruptionBudget"}], "retryAfterSeconds": 5}


@pytest.mark.parametrize(
    "code, body, headers, kind, message, retry_after",
    [
        pytest.param(404, status(404, message="no node"), {}, NotFound, "no node", None, id="not-found"),
        pytest.param(409, status(409, reason="Conflict"), {}, Conflict, "Conflict", None, id="conflict"),
        pytest.param(422, status(422, message="bad"), {}, Invalid, "bad", None, id="invalid"),
        pytest.param(
            429, b"busy", {"Retry-After": "7"}, TooManyRequests, "answered with HTTP 429", 7.0, id="retry-after"
        ),
        pytest.param(429, status(429, details=BUDGET), {}, TooManyRequests, "HTTP 429", 5.0, id="budget"),
        pytest.param(
            502, b"<html>Bad Gateway", {}, ServerFailure, "answered with HTTP 502", None, id="html-from-a-proxy"
        ),
        pytest.param(403, b'{"message": "hush"}', {}, Forbidden, "answered with HTTP 403", None, id="no-status"),
        pytest.param(500, b"", {}, ServerFailure, "HTTP 500", None, id="empty"),
        pytest.param(302, b"", {"Location": "https://login.example"}, ApiError, "a redirect", None, id="redirect"),
    ],
)
@pytest.mark.parametrize("stream", [pytest.param(False, id="request"), pytest.param(True, id="stream")])
async def test_refusals(
    code: int,
    body: bytes,
    headers: dict[str, str],
    kind: type[ApiError],
    message: str,
    retry_after: float | None,
    stream: bool,
) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=code, body=body, headers=headers)

    async with api(refuse) as url, connected(url) as transport:
        with pytest.raises(kind) as caught:
            await (read_all(transport) if stream else transport.request("GET", "/"))
    assert message in str(caught.value)
    assert caught.value.status.code == code
    assert caught.value.retry_after == retry_after


async def following(lines: AsyncIterator[bytes]) -> bytes:
    return await anext(lines)


async def read_all(transport: HttpTransport, **options: Any) -> list[bytes]:
    async with transport.stream("/", **options) as lines:
        return [line async for line in lines]


class TestCredentials:
    async def test_refused_once_and_renewed(self, tmp_path: Path) -> None:
        """The plugin's first token is refused in the middle of the work, its second is good."""
        plugin = tmp_path / "log-in"
        plugin.write_text(
            f"#!{sys.executable} -IS\n"
            "import json, pathlib\n"
            "here = pathlib.Path(__file__).parent\n"
            "count = len(list(here.glob('run-*'))) + 1\n"
            "(here / f'run-{count}').touch()\n"
            "print(json.dumps({'kind': 'ExecCredential', 'apiVersion': 'client.authentication.k8s.io/v1',"
            " 'status': {'token': f't{count}', 'expirationTimestamp': f'2026-01-01T0{count}:00:00Z'}}))\n"
        )
        plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
        valid, seen = {"Bearer t1"}, list[str]()

        async def handle(request: web.Request) -> web.Response:
            seen.append(request.headers["Authorization"])
            return web.Response(status=200 if seen[-1] in valid else 401, body=await request.read())

        credentials = (ExecPlugin(str(plugin), "client.authentication.k8s.io/v1", interactive_mode="Never"),)
        async with api(handle) as url, connected(url, credentials=credentials) as transport:
            await transport.request("GET", "/")
            valid = {"Bearer t2"}
            reply = await transport.request("POST", "/", body=b"again")
            await transport.request("GET", "/")
        assert reply.body == b"again"
        assert seen == ["Bearer t1", "Bearer t1", "Bearer t2", "Bearer t2"]

    async def test_a_stream_is_renewed_too(self, tmp_path: Path) -> None:
        token = replace(tmp_path / "token", b"old")

        async def handle(request: web.Request) -> web.Response:
            if request.headers["Authorization"] == "Bearer new":
                return web.Response(body=b"line\n")
            replace(token, b"new")
            return web.Response(status=401)

        async with api(handle) as url, connected(url, credentials=(TokenFile(token),)) as transport:
            assert await read_all(transport) == [b"line\n"]

    async def test_twice_refused_is_the_end(self, tmp_path: Path) -> None:
        token, count = replace(tmp_path / "token", b"0"), 0

        async def handle(request: web.Request) -> web.Response:
            nonlocal count
            count += 1
            replace(token, str(count).encode())
            return web.Response(status=401)

        async with api(handle) as url, connected(url, credentials=(TokenFile(token),)) as transport:
            with pytest.raises(Unauthorized):
                await transport.request("GET", "/")
        assert count == 2

    async def test_what_cannot_be_renewed_is_not_tried_again(self) -> None:
        count = 0

        async def handle(request: web.Request) -> web.Response:
            nonlocal count
            count += 1
            return web.Response(status=401)

        async with api(handle) as url, connected(url, credentials=(StaticToken(Secret("t")),)) as transport:
            with pytest.raises(Unauthorized) as caught:
                await transport.request("GET", "/")
        assert count == 1
        refused = f"{url} does not accept the credentials of home: answered with HTTP 401"
        assert str(caught.value) == f"{refused} (renew them if they have expired)"

    async def test_waiting_for_credentials_counts_as_waiting(self, tmp_path: Path) -> None:
        plugin = tmp_path / "log-in"
        plugin.write_text("#!/bin/sh\nexec sleep 600\n")
        plugin.chmod(0o700)
        credentials = (ExecPlugin(str(plugin), "client.authentication.k8s.io/v1", interactive_mode="Never"),)
        async with connected("http://127.0.0.1:1", credentials=credentials) as transport:
            with pytest.raises(RequestTimeout):
                await transport.request("GET", "/", timeout=0.05)


class TestCounting:
    async def test_every_answer_is_told_by_host_method_and_code_and_so_is_every_one_that_fails_to_come(self) -> None:
        async def answer(request: web.Request) -> web.Response:
            if request.path == "/silence":
                await asyncio.Event().wait()
            return web.Response(status=int(request.path[1:]), text="{}")

        told: list[tuple[str, ...]] = []
        clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        async with api(answer) as url:
            transport = HttpTransport(Endpoint(name="home", server=url), clock, lambda *what: told.append(what))
            await transport.request("GET", "/200")
            with pytest.raises(ApiError):
                await transport.request("PATCH", "/409", body=b"{}")
            async with transport.stream("/200"):
                pass
            with pytest.raises(RequestTimeout):
                await transport.request("DELETE", "/silence", timeout=0.05)
            await transport.close()
        host = url.removeprefix("http://")
        assert told == [(host, "GET", "200"), (host, "PATCH", "409"), (host, "GET", "200"), (host, "DELETE", "<error>")]

    async def test_a_server_that_is_not_there(self) -> None:
        told: list[tuple[str, ...]] = []
        clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        nobody = Endpoint(name="home", server="http://127.0.0.1:1")
        transport = HttpTransport(nobody, clock, lambda *what: told.append(what))
        with pytest.raises(ConnectionFailed):
            await transport.request("GET", "/")
        await transport.close()
        assert told == [("127.0.0.1:1", "GET", "<error>")]


class TestDeadline:
    async def test_no_answer(self) -> None:
        async def hang(request: web.Request) -> web.Response:
            await asyncio.Event().wait()
            raise AssertionError

        async with api(hang) as url, connected(url) as transport:
            with pytest.raises(RequestTimeout, match=rf"^GET {url}/x: no answer within 0\.05 s$"):
                await transport.request("GET", "/x", timeout=0.05)

    async def test_answer_that_does_not_end(self) -> None:
        async with api(half_open) as url, connected(url) as transport:
            with pytest.raises(RequestTimeout):
                await transport.request("GET", "/", timeout=0.05)


async def half_open(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"first\n")
    await asyncio.Event().wait()
    return response


CUT_BODY = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n"


class TestCut:
    @pytest.mark.parametrize(
        "method, times",
        [
            pytest.param("PATCH", 1, id="patch"),
            pytest.param("POST", 1, id="post"),
            pytest.param("PUT", 1, id="put"),
            pytest.param("DELETE", 1, id="delete"),
            pytest.param("GET", 2, id="get-has-no-effect-and-may-be-sent-again"),
        ],
    )
    async def test_without_an_answer(self, method: str, times: int) -> None:
        async with raw(b"") as (url, heads), connected(url) as transport:
            with pytest.raises(
                ConnectionFailed, match=rf"^{method} {url}/: the server closed the connection"
            ) as caught:
                await transport.request(method, "/")
        assert caught.value.sent
        assert len(heads) == times

    async def test_in_the_middle_of_the_answer(self) -> None:
        async with raw(CUT_BODY) as (url, _), connected(url) as transport:
            with pytest.raises(ConnectionFailed) as caught:
                await transport.request("PATCH", "/")
        assert caught.value.sent

    async def test_in_the_middle_of_a_stream(self) -> None:
        async with raw(CUT_BODY) as (url, _), connected(url) as transport, transport.stream("/") as lines:
            with pytest.raises(ConnectionFailed) as caught:
                _ = [line async for line in lines]
        assert caught.value.sent

    async def test_an_answer_that_is_not_http(self) -> None:
        async with raw(b"SSH-2.0-OpenSSH\r\n\r\n") as (url, _), connected(url) as transport:
            with pytest.raises(ConnectionFailed, match=r"the answer is not HTTP$"):
                await transport.request("GET", "/")

    async def test_nobody_there(self) -> None:
        async with raw(b"") as (url, _):
            pass
        async with connected(url) as transport:
            with pytest.raises(ConnectionFailed, match=r": no connection: Connection refused$") as caught:
                await transport.request("PATCH", "/")
        assert never_sent(caught.value)

    async def test_what_is_no_name(self) -> None:
        async with connected("http://a..b:1") as transport:
            with pytest.raises(ConnectionFailed, match=r": no connection: the address has no host name$") as caught:
                await transport.request("PATCH", "/")
        assert never_sent(caught.value)


class TestStream:
    async def test_lines_until_the_server_ends_it(self) -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for piece in (b'{"a"', b":1}\n{}", b"\n", b"last"):
                await response.write(piece)
            return response

        async with api(handle) as url, connected(url) as transport:
            assert await read_all(transport, query={"watch": "true"}) == [b'{"a":1}\n', b"{}\n", b"last"]

    async def test_lines_come_as_they_are_sent(self) -> None:
        step = asyncio.Event()

        async def handle(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for number in range(3):
                await response.write(b"%d\n" % number)
                await step.wait()
                step.clear()
            return response

        got = []
        async with api(handle) as url, connected(url) as transport, transport.stream("/") as lines:
            async for line in lines:
                got.append(line)
                step.set()
        assert got == [b"0\n", b"1\n", b"2\n"]

    async def test_very_long_lines(self) -> None:
        long = b"x" * (2 * 2**20 - 1) + b"\n"

        async def handle(request: web.Request) -> web.Response:
            return web.Response(body=long * 3)

        async with api(handle) as url, connected(url) as transport:
            assert await read_all(transport) == [long] * 3

    async def test_silence(self) -> None:
        async with api(half_open) as url, connected(url) as transport, transport.stream("/", silence=0.5) as lines:
            assert await anext(lines) == b"first\n"
            with pytest.raises(RequestTimeout):
                await anext(lines)

    async def test_silence_before_the_answer(self) -> None:
        async def hang(request: web.Request) -> web.Response:
            await asyncio.Event().wait()
            raise AssertionError

        async with api(hang) as url, connected(url) as transport:
            with pytest.raises(RequestTimeout):
                await read_all(transport, silence=0.05)

    async def test_leaving_early_ends_it_at_the_server(self) -> None:
        left = asyncio.Event()

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return await half_open(request)
            finally:
                left.set()

        async with api(handle) as url, connected(url) as transport:
            async with transport.stream("/") as lines:
                assert await anext(lines) == b"first\n"
            async with asyncio.timeout(30):
                await left.wait()

    async def test_errors_of_the_reader_pass_through(self) -> None:
        async with api(half_open) as url, connected(url) as transport:
            with pytest.raises(TimeoutError, match="mine"):
                async with transport.stream("/"):
                    raise TimeoutError("mine")

    async def test_a_slow_reader_holds_the_server_back(self) -> None:
        line, written, full = b"x" * (2**20 - 1) + b"\n", 0, 64

        async def handle(request: web.Request) -> web.StreamResponse:
            nonlocal written
            response = web.StreamResponse()
            await response.prepare(request)
            while written < full:
                await response.write(line)
                written += 1
            return response

        async with api(handle) as url, connected(url) as transport, transport.stream("/") as lines:
            await anext(lines)
            for _ in range(2000):
                await asyncio.sleep(0)
            assert written < full // 2
            assert sum([1 async for _ in lines]) == full - 1

    async def test_a_closed_transport_ends_its_streams(self) -> None:
        async with api(half_open) as url, connected(url) as transport, transport.stream("/") as lines:
            assert await anext(lines) == b"first\n"
            reading = asyncio.create_task(following(lines))
            await asyncio.sleep(0)
            await transport.close()
            with pytest.raises(ConnectionFailed):
                await reading
            with pytest.raises(ConnectionFailed, match=r"^home: the transport is closed$"):
                await transport.request("GET", "/")


class TestTls:
    async def test_the_authority_is_checked(self) -> None:
        trusted, other = trustme.CA(), trustme.CA()
        async with api(Recorded(), server_context(trusted)) as url:
            async with connected(url, ca=ca(trusted)) as transport:
                assert (await transport.request("GET", "/")).status == 200
            for fields in ({"ca": ca(other)}, {}):
                async with connected(url, **fields) as transport:
                    with pytest.raises(ConnectionFailed, match=r"certificate is not trusted: .*issuer") as caught:
                        await transport.request("PATCH", "/")
                assert never_sent(caught.value)

    async def test_an_intermediate_may_be_the_anchor(self) -> None:
        root = trustme.CA()
        middle = root.create_child_ca()
        async with (
            api(Recorded(), server_context(middle)) as url,
            connected(url, ca=middle.cert_pem.bytes()) as transport,
        ):
            assert (await transport.request("GET", "/")).status == 200

    async def test_insecure(self) -> None:
        async with (
            api(Recorded(), server_context(trustme.CA(), "elsewhere")) as url,
            connected(url, insecure=True) as transport,
        ):
            assert (await transport.request("GET", "/")).status == 200

    async def test_server_name(self) -> None:
        authority = trustme.CA()
        async with api(Recorded(), server_context(authority, "api.internal")) as url:
            async with connected(url, ca=ca(authority)) as transport:
                with pytest.raises(ConnectionFailed, match="IP address mismatch"):
                    await transport.request("GET", "/")
            async with connected(url, ca=ca(authority), tls_server_name="api.internal") as transport:
                assert (await transport.request("GET", "/")).status == 200
                assert await read_all(transport) == [b"{}"]

    async def test_tls_towards_a_server_without(self) -> None:
        async with (
            api(Recorded()) as url,
            connected(url.replace("http:", "https:"), insecure=True) as transport,
        ):
            with pytest.raises(ConnectionFailed, match=r"no connection: .*WRONG_VERSION_NUMBER") as caught:
                await transport.request("PATCH", "/")
        assert never_sent(caught.value)

    async def test_no_certificate_in_the_authority(self, tmp_path: Path) -> None:
        async with connected("https://127.0.0.1:1", ca=replace(tmp_path / "ca", b"nonsense")) as transport:
            with pytest.raises(ConfigInvalid, match=r"^home: certificate-authority holds no certificate"):
                await transport.request("GET", "/")

    async def test_the_authority_may_be_replaced(self, tmp_path: Path) -> None:
        """New requests trust the new one at once; a stream that is open goes on."""
        old, new, seen = trustme.CA(), trustme.CA(), Recorded()
        step = asyncio.Event()

        async def handle(request: web.Request) -> web.StreamResponse:
            if request.path != "/stream":
                return await seen(request)
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"before\n")
            await step.wait()
            await response.write(b"after\n")
            return response

        context, path = server_context(old), replace(tmp_path / "ca.crt", ca(old))
        async with (
            api(handle, context) as url,
            connected(url, ca=path) as transport,
            transport.stream("/stream") as lines,
        ):
            assert await anext(lines) == b"before\n"
            await transport.request("GET", "/")
            new.issue_cert("127.0.0.1").configure_cert(context)
            # The connection that is open was trusted when it was made.
            await transport.request("GET", "/")
            replace(path, ca(new))
            await transport.request("GET", "/")
            step.set()
            assert [line async for line in lines] == [b"after\n"]
        assert seen.peers[0] == seen.peers[1] != seen.peers[2]


class TestClientCertificate:
    async def test_is_shown(self) -> None:
        authority, clients = trustme.CA(), trustme.CA()
        certificate, key = pair(clients, "jane")
        async with api(who, server_context(authority, clients=clients)) as url:
            credentials = (ClientCertificate(certificate, Secret(key.decode())),)
            async with connected(url, ca=ca(authority), credentials=credentials) as transport:
                assert (await transport.request("GET", "/")).body == b"jane"
            async with connected(url, ca=ca(authority)) as transport:
                with pytest.raises(ConnectionFailed):
                    await transport.request("PATCH", "/")

    async def test_may_be_replaced_one_file_after_the_other(self, tmp_path: Path) -> None:
        authority, clients = trustme.CA(), trustme.CA()
        (old_certificate, old_key), (new_certificate, new_key) = pair(clients, "old"), pair(clients, "new")
        certificate, key = replace(tmp_path / "c", old_certificate), replace(tmp_path / "k", old_key)
        async with (
            api(who, server_context(authority, clients=clients)) as url,
            connected(url, ca=ca(authority), credentials=(ClientCertificate(certificate, key),)) as transport,
        ):
            assert (await transport.request("GET", "/")).body == b"old"
            replace(certificate, new_certificate)
            assert (await transport.request("GET", "/")).body == b"old"
            replace(key, new_key)
            assert (await transport.request("GET", "/")).body == b"new"

    async def test_comes_from_an_exec_plugin(self, tmp_path: Path) -> None:
        authority, clients = trustme.CA(), trustme.CA()
        certificate, key = pair(clients, "plugged")
        status = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
        answer = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status}
        replace(tmp_path / "answer", json.dumps(answer).encode())
        plugin = ExecPlugin(
            "cat", "client.authentication.k8s.io/v1", args=(str(tmp_path / "answer"),), interactive_mode="Never"
        )
        async with (
            api(who, server_context(authority, clients=clients)) as url,
            connected(url, ca=ca(authority), credentials=(plugin,)) as transport,
        ):
            assert (await transport.request("GET", "/")).body == b"plugged"

    @pytest.mark.parametrize(
        "key",
        [
            pytest.param(b"nonsense", id="nonsense"),
            pytest.param(pair(trustme.CA(), "other")[1], id="of-another"),
        ],
    )
    async def test_with_a_key_that_does_not_fit(self, key: bytes) -> None:
        certificate, _ = pair(trustme.CA(), "jane")
        credentials = (ClientCertificate(certificate, Secret(key.decode())),)
        async with connected("https://127.0.0.1:1", credentials=credentials) as transport:
            with pytest.raises(ConfigInvalid, match=r"^home: the client certificate and its key cannot be used"):
                await transport.request("GET", "/")


async def who(request: web.Request) -> web.Response:
    """Return the name in the certificate of the client."""
    assert request.transport is not None
    subject = request.transport.get_extra_info("peercert")["subject"]
    return web.Response(text=next(value for ((key, value),) in subject if key == "commonName"))


class Proxy:
    """A proxy that serves CONNECT to clients with the password, and answers everything else itself."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.login = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            if self.login not in head:
                writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
            elif head.startswith("CONNECT "):
                await self._tunnel(head.split()[1], reader, writer)
            else:
                body = gzip.compress(b"from the proxy")
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                )
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _tunnel(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", int(target.rpartition(":")[2]))
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, there_writer))
            group.create_task(pump(there_reader, writer))


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def proxying(context: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Proxy, str]]:
    proxy = Proxy()
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0, ssl=context)
    async with server:
        yield proxy, f"{'https' if context else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"


class TestProxy:
    @pytest.mark.parametrize("tls", [pytest.param(False, id="http"), pytest.param(True, id="https")])
    async def test_tunnels_tls(self, tls: bool) -> None:
        authority = trustme.CA()
        async with (
            api(Recorded(), server_context(authority)) as url,
            proxying(server_context(authority) if tls else None) as (proxy, proxy_url),
            connected(url, ca=ca(authority), proxy_url=proxy_url) as transport,
        ):
            assert (await transport.request("GET", "/")).body == b"{}"
        assert [head.split()[0] for head in proxy.heads] == ["CONNECT"]

    async def test_server_name_through_a_tunnel(self) -> None:
        authority = trustme.CA()
        async with (
            api(Recorded(), server_context(authority, "api.internal")) as url,
            proxying() as (_, proxy_url),
            connected(url, ca=ca(authority), proxy_url=proxy_url, tls_server_name="api.internal") as transport,
        ):
            assert (await transport.request("GET", "/")).status == 200

    async def test_login(self) -> None:
        authority = trustme.CA()
        async with api(Recorded(), server_context(authority)) as url, proxying() as (proxy, proxy_url):
            proxy.login = "Proxy-Authorization: Basic amFuZTpodXNo"
            fields = {"ca": ca(authority), "proxy_url": proxy_url}
            async with connected(url, proxy_login=Basic("jane", Secret("hush")), **fields) as transport:
                assert (await transport.request("GET", "/")).status == 200
            async with connected(url, proxy_login=Basic("jane", Secret("shh")), **fields) as transport:
                with pytest.raises(ConnectionFailed, match=r"the proxy answered with HTTP 407$") as caught:
                    await transport.request("PATCH", "/")
        assert never_sent(caught.value)
        assert not any("Bearer" in head for head in proxy.heads)

    async def test_forwards_without_tls_and_compressed_beyond_loopback(self) -> None:
        async with proxying() as (proxy, proxy_url):
            fields = {"proxy_url": proxy_url, "proxy_login": Basic("jane", Secret("hush"))}
            async with connected("http://api.example", **fields) as transport:
                assert (await transport.request("GET", "/x")).body == b"from the proxy"
            async with connected("http://api.example", compress=False, **fields) as transport:
                await transport.request("GET", "/x")
        first, second = proxy.heads
        assert first.startswith("GET http://api.example/x HTTP/1.1\r\n")
        assert "Proxy-Authorization: Basic amFuZTpodXNo\r\n" in first
        assert "Accept-Encoding: gzip\r\n" in first
        assert "Accept-Encoding: identity\r\n" in second

    async def test_nobody_there(self) -> None:
        async with proxying() as (_, proxy_url):
            pass
        fields = {"proxy_url": proxy_url, "proxy_login": Basic("jane", Secret("hush"))}
        async with connected("https://api.example", **fields) as transport:
            with pytest.raises(ConnectionFailed, match=r"no connection to the proxy: Connection refused$") as caught:
                await transport.request("PATCH", "/")
        assert never_sent(caught.value)
        assert "hush" not in str(caught.value)


async def test_compressed_streams_are_not_held_back() -> None:
    """Each line comes when the server has flushed it, not when its compressor is full."""
    step = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Encoding": "gzip"})
        await response.prepare(request)
        deflate = zlib.compressobj(wbits=31)
        for number in range(3):
            await response.write(deflate.compress(b"%d\n" % number) + deflate.flush(zlib.Z_SYNC_FLUSH))
            await step.wait()
            step.clear()
        await response.write(deflate.flush())
        return response

    got = []
    async with api(handle) as url, connected(url) as transport, transport.stream("/") as lines:
        async for line in lines:
            got.append(line)
            step.set()
    assert got == [b"0\n", b"1\n", b"2\n"]


class Socks:
    """A proxy with CONNECT of RFC 1928 to ports of this machine, for clients with the login if there is one."""

    def __init__(self, login: tuple[bytes, bytes] | None = None) -> None:
        self.asked: list[str] = []
        self._login = login

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not await self._let_in(reader, writer):
                return
            _, _, _, kind = await reader.readexactly(4)
            length = (await reader.readexactly(1))[0] if kind == 3 else 4
            name, port = await reader.readexactly(length), int.from_bytes(await reader.readexactly(2))
            self.asked.append(name.decode() if kind == 3 else ".".join(map(str, name)))
            await self._tunnel(port, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        _, count = await reader.readexactly(2)
        wanted = 2 if self._login else 0
        known = wanted in await reader.readexactly(count)
        writer.write(bytes([5, wanted if known else 255]))
        if not known or self._login is None:
            return known
        given = []
        await reader.readexactly(1)
        for _ in range(2):
            given.append(await reader.readexactly((await reader.readexactly(1))[0]))
        writer.write(bytes([1, tuple(given) != self._login]))
        return tuple(given) == self._login

    async def _tunnel(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        refused = False
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            refused = True
        writer.write(bytes([5, 5 if refused else 0, 0, 1, 0, 0, 0, 0, 0, 0]))
        if refused:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, there_writer))
            group.create_task(pump(there_reader, writer))


@asynccontextmanager
async def socks(login: tuple[bytes, bytes] | None = None) -> AsyncIterator[tuple[Socks, str]]:
    proxy = Socks(login)
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    async with server:
        yield proxy, f"socks5://127.0.0.1:{server.sockets[0].getsockname()[1]}"


class TestSocks:
    async def test_names_are_the_proxy_s_to_resolve(self) -> None:
        authority = trustme.CA()
        async with (
            api(Recorded(), server_context(authority, "api.elsewhere.example")) as url,
            socks() as (proxy, proxy_url),
            connected(
                f"https://api.elsewhere.example:{url.rpartition(':')[2]}", ca=ca(authority), proxy_url=proxy_url
            ) as transport,
        ):
            assert (await transport.request("GET", "/")).body == b"{}"
            assert (await transport.request("GET", "/")).body == b"{}"
        assert proxy.asked == ["api.elsewhere.example"], "one connection for both"

    async def test_server_name_and_no_trust_in_another(self) -> None:
        authority = trustme.CA()
        async with (
            api(Recorded(), server_context(authority, "api.internal")) as url,
            socks() as (proxy, proxy_url),
        ):
            fields = {"ca": ca(authority), "proxy_url": proxy_url}
            async with connected(url, tls_server_name="api.internal", **fields) as transport:
                assert (await transport.request("GET", "/")).status == 200
            async with connected(url, **fields) as transport:
                with pytest.raises(ConnectionFailed, match="the server's certificate is not trusted") as caught:
                    await transport.request("PATCH", "/")
        assert never_sent(caught.value)
        assert set(proxy.asked) == {"127.0.0.1"}

    async def test_login(self) -> None:
        async with api(Recorded()) as url, socks((b"jane", b"hush")) as (_, proxy_url):
            async with connected(url, proxy_url=proxy_url, proxy_login=Basic("jane", Secret("hush"))) as transport:
                assert (await transport.request("GET", "/")).status == 200
            for login in (Basic("jane", Secret("shh")), None):
                async with connected(url, proxy_url=proxy_url, proxy_login=login) as transport:
                    with pytest.raises(ConnectionFailed, match=r"no connection to the proxy: it refused: ") as caught:
                        await transport.request("PATCH", "/")
                assert never_sent(caught.value)
                assert "shh" not in str(caught.value)

    async def test_nobody_there(self) -> None:
        async with socks() as (_, proxy_url), connected("http://127.0.0.1:1", proxy_url=proxy_url) as transport:
            with pytest.raises(ConnectionFailed, match=r"it refused: .*[Rr]efused"):
                await transport.request("GET", "/")
        async with connected("http://127.0.0.1:1", proxy_url=proxy_url) as transport:
            with pytest.raises(ConnectionFailed, match=r"no connection to the proxy: Connection refused$"):
                await transport.request("GET", "/")

    async def test_without_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("haulout.kube.http1.connector.find_spec", lambda name: None)
        async with connected("http://127.0.0.1:1", proxy_url="socks5://p") as transport:
            with pytest.raises(ConfigInvalid, match=r"pip install 'haulout\[socks\]'"):
                await transport.request("GET", "/")

    async def test_that_says_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("haulout.kube.http.CONNECT_SECONDS", 0.05)
        closed = asyncio.Event()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(2**16):
                pass
            writer.close()
            closed.set()

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        async with server:
            proxy_url = f"socks5://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with connected("http://127.0.0.1:1", proxy_url=proxy_url) as transport:
                with pytest.raises(ConnectionFailed, match="no connection within") as caught:
                    await transport.request("PATCH", "/")
            await closed.wait()
        assert never_sent(caught.value)
