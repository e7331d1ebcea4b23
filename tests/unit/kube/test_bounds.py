"""Endless answers of a real server on loopback: what they cost, and how they are reported."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime

import msgspec
import pytest
from aiohttp import web

from haulout.kube.bounds import AWAY, HOME, Bounds
from haulout.kube.codec import Added, Kind
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import Compressed, ServerFailure, TooLarge
from haulout.kube.excerpt import Excerpt
from haulout.kube.http import HttpTransport
from haulout.model.pod import Pod
from tests.build.clock import ManualClock
from tests.build.server import serve

MIB = 2**20
PODS = Kind(Pod)


@asynccontextmanager
async def answering(
    pieces: Callable[[], Iterator[bytes]], *, status: int = 200, encoding: str = "identity", bounds: Bounds = HOME
) -> AsyncIterator[HttpTransport]:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers={"Content-Encoding": encoding})
        await response.prepare(request)
        for piece in pieces():
            await response.write(piece)
        return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    async with serve(app, None) as url:
        clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        transport = HttpTransport(Endpoint(name="east", server=url), clock, bounds=bounds)
        try:
            yield transport
        finally:
            await transport.close()


def bomb(mebibytes: int) -> Callable[[], Iterator[bytes]]:
    """Return a long JSON text that is compressed to a few hundred KiB."""

    def pieces() -> Iterator[bytes]:
        press = zlib.compressobj(9, zlib.DEFLATED, 31)
        yield press.compress(b'{"metadata":{},"items":[],"x":"')
        for _ in range(mebibytes):
            yield press.compress(b"a" * MIB)
        yield press.compress(b'"}') + press.flush()

    return pieces


def pod(name: str, args: str = "") -> bytes:
    """Return a watch line with a pod, as Go writes it."""
    found = {
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": name}},
        "spec": {"containers": [{"args": [args]}], "nodeName": "n"},
        "status": {"phase": "Running"},
    }
    return json.dumps({"type": "ADDED", "object": found}).replace("<", "\\u003c").encode() + b"\n"


@contextmanager
def no_more_than(most: int) -> Iterator[None]:
    """Assert how much memory Python takes within the block."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most


async def test_compressed_answer_is_bounded_after_decompression() -> None:
    async with answering(bomb(200), encoding="gzip") as transport:
        with no_more_than(24 * MIB), pytest.raises(TooLarge) as caught:
            await transport.request("GET", "/api/v1/nodes")
    assert "127.0.0.1" in str(caught.value)
    assert str(HOME.body) in str(caught.value)


async def test_answer_of_another_cluster_is_not_unpacked() -> None:
    async with answering(bomb(200), encoding="gzip", bounds=AWAY) as transport:
        with no_more_than(4 * MIB), pytest.raises(Compressed):
            await transport.request("GET", "/api/v1/nodes")
        with no_more_than(4 * MIB), pytest.raises(Compressed):
            async with transport.stream("/api/v1/nodes", keep=PODS.event_shape):
                pass


async def test_refusal_of_another_cluster_is_told_by_its_code_where_it_is_compressed() -> None:
    async with answering(bomb(200), status=503, encoding="gzip", bounds=AWAY) as transport:
        with no_more_than(4 * MIB), pytest.raises(ServerFailure) as caught:
            await transport.request("GET", "/api/v1/nodes")
    assert caught.value.status.code == 503


async def test_compressed_refusal_is_told_by_its_code() -> None:
    async with answering(bomb(200), status=503, encoding="gzip") as transport:
        with no_more_than(12 * MIB), pytest.raises(ServerFailure) as caught:
            await transport.request("GET", "/api/v1/nodes")
    assert caught.value.status.code == 503


def endless() -> Iterator[bytes]:
    yield b'{"metadata":{},"items":[],"x":"'
    while True:
        yield b"a" * MIB


@pytest.mark.parametrize("bounds", [HOME, AWAY], ids=["home", "away"])
async def test_line_without_an_end_is_given_up(bounds: Bounds) -> None:
    async with answering(endless, bounds=bounds) as transport:
        with no_more_than(12 * MIB), pytest.raises(TooLarge) as caught:
            async with transport.stream("/api/v1/pods", keep=PODS.event_shape) as lines:
                await anext(lines)
    assert str(bounds.most) in str(caught.value)


async def test_long_line_is_read_in_part_and_the_next_one_whole() -> None:
    text = pod("fat", "<" * 1_200_000) + pod("thin")
    pieces = [text[start : start + 2**16] for start in range(0, len(text), 2**16)]
    async with answering(lambda: iter(pieces)) as transport:
        with no_more_than(6 * MIB):
            async with transport.stream("/api/v1/pods", keep=PODS.event_shape) as lines:
                fat, thin = [line async for line in lines]
    assert isinstance(fat, Excerpt)
    assert fat.length > 7_200_000
    event = PODS.event(fat)
    assert isinstance(event, Added)
    assert event.object.spec.node_name == "n"
    assert event.object.metadata.labels == {"app": "fat"}
    assert thin == pod("thin")


async def test_long_line_that_nobody_can_shorten_is_an_error() -> None:
    async with answering(lambda: iter([pod("fat", "<" * 1_200_000)])) as transport:
        with pytest.raises(TooLarge):
            async with transport.stream("/api/v1/pods") as lines:
                await anext(lines)


async def test_long_object_is_read_in_part() -> None:
    found = msgspec.json.decode(pod("fat", "<" * 1_200_000))["object"]
    text = json.dumps(found).replace("<", "\\u003c").encode()
    async with answering(lambda: iter([text])) as transport:
        reply = await transport.request("GET", "/api/v1/namespaces/ns/pods/fat", keep=PODS.shape)
    assert isinstance(reply.body, Excerpt)
    assert msgspec.json.decode(reply.body, type=Pod) == msgspec.json.decode(text, type=Pod)


async def test_others_have_their_turn_while_a_long_line_is_read() -> None:
    """Nothing but brackets, which is what takes longest."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    brackets = b'{"type":"ADDED","object":{"x":[' + b"[]," * MIB + b"[]]}}\n"
    async with answering(lambda: iter([brackets])) as transport, asyncio.TaskGroup() as group:
        beside = group.create_task(other())
        async with transport.stream("/api/v1/pods", keep=PODS.event_shape) as lines:
            assert await anext(lines) == b'{"type":"ADDED","object":{}}'
        beside.cancel()
    assert turns > len(brackets) / 2**16


async def test_page_of_another_cluster_with_very_many_values_is_not_decoded() -> None:
    """To decode a mebibyte of empty objects keeps the event loop for tens of milliseconds."""
    text = b'{"items":[' + b"{}," * (AWAY.body // 3 - 10) + b"{}]}"
    async with answering(lambda: iter([text]), bounds=AWAY) as transport:
        with pytest.raises(TooLarge) as caught:
            await transport.request("GET", "/api/v1/nodes")
    assert str(AWAY.values) in str(caught.value)
