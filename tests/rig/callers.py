"""Callers without credentials that hold up the servers of an operator on this machine, many of each kind, for a while.

A process of its own: `python -m tests.rig.callers HTTP HEALTH WEBHOOKS CONNECTIONS SECONDS` with the ports; it prints what
became of the connections of each kind, as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from haulout.serve.certificates import make_self_signed
from tests.rig.operator import Platform
from tests.rig.plane import Cluster
from tests.rig.process import CHECKOUT, free_port

HOST = "127.0.0.1"
SURFACES = "{profiles: {config: config/maintenance.yaml, metricsTimeout: 0s}, nodemaintenance: {}}"
PATH = "/validate-nodemaintenance-medik8s-io-v1beta1-nodemaintenance"
LONG = 3 * 2**20
# Seconds after which a caller whose connection was closed comes again.
AGAIN_AFTER = 0.25
POST = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ".encode()
Kind = Callable[["Ports", Counter[str]], Awaitable[None]]


class Ports:
    def __init__(self, http: int, health: int, webhooks: int) -> None:
        self.http = http
        self.health = health
        self.webhooks = webhooks
        self.tls = trusting()


def trusting() -> ssl.SSLContext:
    """Return a context that accepts any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def long_review() -> bytes:
    """Return a long review of empty objects, which would take a hundred times the memory if they were decoded."""
    junk = b",".join([b"{}"] * (LONG // 3))
    head = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE",'
    return head + b'"name":"asked","object":{"x":[' + junk + b'],"spec":{"nodeName":"nobody"}}}}'


LONG_REVIEW = long_review()


@contextlib.asynccontextmanager
async def _connected(
    port: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(HOST, port, ssl=tls)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def _drip(writer: asyncio.StreamWriter, reader: asyncio.StreamReader, counts: Counter[str]) -> None:
    """Send one byte a second, until the server closes the connection."""
    while True:
        writer.write(b"x")
        await writer.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await reader.read()
                counts["closed by the server"] += 1
                return


async def headers(ports: Ports, counts: Counter[str]) -> None:
    async with _connected(ports.http) as (reader, writer):
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: ")
        await _drip(writer, reader, counts)


async def bodies(ports: Ports, counts: Counter[str]) -> None:
    async with _connected(ports.webhooks, ports.tls) as (reader, writer):
        writer.write(POST + b"60000\r\n\r\n{")
        await _drip(writer, reader, counts)


async def reviews(ports: Ports, counts: Counter[str]) -> None:
    async with _connected(ports.webhooks, ports.tls) as (reader, writer):
        writer.write(POST + b"%d\r\n\r\n" % len(LONG_REVIEW))
        writer.write(LONG_REVIEW)
        await _answer(reader, counts)


async def infos(ports: Ports, counts: Counter[str]) -> None:
    async with _connected(ports.http) as (reader, writer):
        writer.write(b"GET /api/v1/info HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await _answer(reader, counts)


async def idle(ports: Ports, counts: Counter[str]) -> None:
    async with _connected(ports.health) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await _answer(reader, counts)
        await reader.read()
        counts["closed by the server"] += 1


async def handshakes(ports: Ports, counts: Counter[str]) -> None:
    async with _connected(ports.webhooks) as (reader, writer):
        writer.write(b"\x16\x03\x01\x02\x00\x01")
        await reader.read()
        counts["closed by the server"] += 1


async def _answer(reader: asyncio.StreamReader, counts: Counter[str]) -> None:
    line = await reader.readline()
    counts[f"answered {line.split()[1].decode()}" if line else "closed by the server"] += 1
    while (line := await reader.readline()).strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
            while length > 0 and (piece := await reader.read(min(length, 2**16))):
                length -= len(piece)
            return


KINDS: tuple[Kind, ...] = (headers, bodies, reviews, infos, idle, handshakes)
# There are fewer places than callers of each kind. Callers that keep the server waiting lose theirs, the others get
# answers.
FATES = {
    **dict.fromkeys(("headers", "bodies", "handshakes"), "closed by the server"),
    **dict.fromkeys(("infos", "idle"), "answered 200"),
}
# On a busy machine it takes longer until every kind of caller was closed or answered. They go on for so many more
# seconds.
LONGER = 60.0


async def _call(kind: Kind, ports: Ports, counts: Counter[str]) -> None:
    while True:
        counts["connections"] += 1
        try:
            await kind(ports, counts)
        except (OSError, ssl.SSLError):
            counts["closed by the server"] += 1
        await asyncio.sleep(AGAIN_AFTER)


async def _all(ports: Ports, connections: int, seconds: float) -> dict[str, Counter[str]]:
    counts = {kind.__name__: Counter[str]() for kind in KINDS}
    tasks = [
        asyncio.create_task(_call(kind, ports, counts[kind.__name__])) for kind in KINDS for _ in range(connections)
    ]
    await asyncio.sleep(seconds)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LONGER):
            while not all(counts[kind][fate] for kind, fate in FATES.items()):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return counts


class Callers:
    """The running process of the callers. `end` returns what it counted."""

    def __init__(self, http: int, health: int, webhooks: int, *, connections: int, seconds: float) -> None:
        words = [str(each) for each in (http, health, webhooks, connections, seconds)]
        # The callers run at low priority, because their own work is not measured.
        argv = ["nice", "-n", "10", sys.executable, "-m", "tests.rig.callers", *words]
        self._process = subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def end(self) -> dict[str, dict[str, int]]:
        text, _ = self._process.communicate(timeout=120)
        assert self._process.returncode == 0
        found: dict[str, dict[str, int]] = json.loads(text)
        return found


class Attacked(Platform):
    """`haulout run` with profiles and webhooks, which leads in a namespace and can be held up on all ports."""

    def __init__(self, plane: Cluster, directory: Path, config: str, namespace: str) -> None:
        self.webhooks = free_port()
        pair = make_self_signed([HOST], datetime.now(UTC))
        (directory / "certs").mkdir(parents=True)
        (directory / "certs" / "tls.crt").write_bytes(pair.certificate)
        (directory / "certs" / "tls.key").write_bytes(pair.key)
        more = f"namespace: {namespace}\nwebhooks: {{certificates: {directory / 'certs'}}}\n"
        super().__init__(plane, directory, config, more, surfaces=SURFACES)
        self.basic = self.basic.replace('webhooks: "0"', f'webhooks: "{HOST}:{self.webhooks}"')
        self.settle(more)

    def healthy(self) -> bool:
        return self._healthy()

    def callers(self, connections: int, seconds: float) -> Callers:
        return Callers(self.port, self.health_port, self.webhooks, connections=connections, seconds=seconds)


def main() -> None:
    http, health, webhooks, connections = map(int, sys.argv[1:5])

    async def call() -> dict[str, Counter[str]]:
        return await _all(Ports(http, health, webhooks), connections, float(sys.argv[5]))

    print(json.dumps(asyncio.run(call())))


if __name__ == "__main__":
    main()
