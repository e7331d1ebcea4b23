"""Hostile tenants for benchmarks: kubeconfigs that are expensive to read, and API servers with expensive answers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import gzip
import json
import multiprocessing
import os
import ssl
import threading
from collections.abc import Callable, Iterator
from itertools import chain, count
from multiprocessing.connection import Connection

import trustme

from tests.rig.api import Api, Json

MIB = 2**20
PREFIX, STATE = "runtime-extension-maintenance-controller.cloud.sap/", "cloud.sap/maintenance-state"
NODE_ANNOTATIONS = {"cluster.x-k8s.io/cluster-name": "hostile", "cluster.x-k8s.io/cluster-namespace": "fleet"}
BOMB = 800 * MIB
# About as many certificate authorities as fit into the longest file that is read.
AUTHORITIES = 250
BEGUN = b'{"type":"ADDED","object":{"metadata":{"name":"'
LIST_ENDS = (
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"100",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
)
PBES2, PBKDF2, HMAC_SHA256, AES_256 = (
    bytes.fromhex(oid) for oid in ("2a864886f70d01050d", "2a864886f70d01050c", "2a864886f70d0209", "60864801650304012a")
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


# The API servers run in a process of their own, so that their work does not slow down the measurement.


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Receive every request and answer none."""
    while await reader.read(2**16):
        pass


async def _endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer any request with one line that does not end."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(HEAD + b"Connection: close\r\n\r\n" + BEGUN)
    # Writing to a closed connection would keep a whole core busy that the measured programs need.
    while not writer.is_closing():
        writer.write(b"a" * 2**16)
        await writer.drain()
        await asyncio.sleep(0)


def _bomb() -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]:
    """Return a handler whose answers have less than a megabyte and unpack to hundreds of megabytes."""
    body = gzip.compress(BEGUN + b"a" * BOMB)
    head = HEAD + f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(head + body)
            await writer.drain()

    return answer


async def _send_lines(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lines: Iterator[bytes]) -> None:
    """Answer any request with these lines, as fast as the client reads them."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(HEAD + b"Connection: close\r\n\r\n")
    for line in lines:
        writer.write(line)
        await writer.drain()
        # drain() does not yield to other tasks while the client keeps up, and does not notice that it has disconnected.
        await asyncio.sleep(0)
        if writer.is_closing():
            return


async def _many_labels(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send watch events of one object that is just short enough to be decoded whole, each with other labels."""
    labels = [",".join(f'"{i:x}":"{value}"' for i in range(24_000)) for value in range(2)]
    objects = (f'"name":"n","resourceVersion":"{i}","labels":{{{labels[i % 2]}}}' for i in count(1))
    await _send_lines(
        reader, writer, (f'{{"type":"ADDED","object":{{"metadata":{{{each}}}}}}}\n'.encode() for each in objects)
    )


async def _many_events(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send watch events of a hundred small objects that change one after the other, without end."""
    await _send_lines(
        reader, writer, chain(map(_small_event, range(1, 101)), [LIST_ENDS], map(_small_event, count(101)))
    )


def _small_event(number: int) -> bytes:
    metadata = f'{{"name":"n{number % 100 or ""}","resourceVersion":"{number}","labels":{{"a":"{number}"}}}}'
    return f'{{"type":"ADDED","object":{{"metadata":{metadata}}}}}\n'.encode()


async def _many_values(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Refuse streaming lists, and answer with endless pages that have almost as many values as we decode."""
    items = ",".join(f'{{"metadata":{{"name":"n{i}"}}}}' for i in range(7_500))
    for number in count():
        asked = await reader.readuntil(b"\r\n\r\n")
        if b"watch=true" in asked.partition(b"\r\n")[0]:
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            continue
        body = f'{{"metadata":{{"resourceVersion":"1","continue":"{number}"}},"items":[{items}]}}'.encode()
        writer.write(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()


async def _crumbs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send every byte of a watch in a TLS record of its own."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(HEAD + b"Connection: close\r\n\r\n")
    while not writer.is_closing():
        for _ in range(50):
            writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0)


def _node_event(number: int, name: str, *, kind: str = "MODIFIED") -> bytes:
    """Return a watch event of a Node with labels and annotations that make the operator decide about it."""
    labels = {f"{PREFIX}machine-maintenance": "true", f"{PREFIX}approve-maintenance": "true", STATE: "operational"}
    if number % 2:
        labels.pop(f"{PREFIX}machine-maintenance")
    metadata = {"name": name, "resourceVersion": str(number), "labels": labels, "annotations": NODE_ANNOTATIONS}
    return json.dumps({"type": kind, "object": {"metadata": metadata}}).encode() + b"\n"


async def _flips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send watch events in which the Node of the tenant's Machine changes all the time in fields that decisions read."""
    asked = await reader.readuntil(b"\r\n\r\n")
    if not asked.startswith(b"GET"):
        writer.write(b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        return
    writer.write(HEAD + b"Connection: close\r\n\r\n")
    writer.write(_node_event(2, "n", kind="ADDED") + LIST_ENDS)
    for number in count(101):
        writer.write(_node_event(number, "n"))
        await writer.drain()
        # Slow enough for the limit on each cluster's events, so that only the decisions cost.
        await asyncio.sleep(0.02)
        if writer.is_closing():
            return


async def _crowd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send about as many Nodes as we read, all with our labels, and then change them one after the other."""
    asked = await reader.readuntil(b"\r\n\r\n")
    if not asked.startswith(b"GET"):
        writer.write(b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        return
    writer.write(HEAD + b"Connection: close\r\n\r\n")
    for number in range(4_900):
        writer.write(_node_event(2, f"n{number or ''}", kind="ADDED"))
        await writer.drain()
        if writer.is_closing():
            return
    writer.write(LIST_ENDS)
    for number in count(102):
        writer.write(_node_event(number, f"n{number % 4_900}"))
        await writer.drain()
        await asyncio.sleep(0.02)
        if writer.is_closing():
            return


def _answers() -> dict[str, Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]]:
    return {
        "silent": _silent,
        "endless": _endless,
        "bomb": _bomb(),
        "many labels": _many_labels,
        "many events": _many_events,
        "many values": _many_values,
        "crumbs": _crumbs,
        "flips": _flips,
        "crowd": _crowd,
    }


async def _serve(certificate: bytes, told: Connection) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with trustme.Blob(certificate).tempfile() as path:
        context.load_cert_chain(path)

    def careless(answer: Callable[..., object]) -> Callable[..., object]:
        async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, EOFError):
                await answer(reader, writer)  # type: ignore[misc]
            writer.close()

        return run

    ports = {}
    for name, answer in _answers().items():
        server = await asyncio.start_server(careless(answer), "127.0.0.1", 0, ssl=context)  # type: ignore[arg-type]
        ports[name] = server.sockets[0].getsockname()[1]
    told.send(ports)
    await asyncio.Event().wait()


def _run(certificate: bytes, told: Connection) -> None:
    # These servers stand for other machines, so they must not take a core from the measured programs.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    asyncio.run(_serve(certificate, told))


@contextlib.contextmanager
def _servers(authority: trustme.CA) -> Iterator[dict[str, int]]:
    certificate = authority.issue_cert("127.0.0.1")
    pem = certificate.private_key_pem.bytes() + b"".join(each.bytes() for each in certificate.cert_chain_pems)
    ours, theirs = multiprocessing.Pipe()
    spawned = multiprocessing.get_context("spawn")
    process = spawned.Process(target=_run, args=(pem, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


# Kubeconfigs


def _config(server: str, authority: bytes, **user: str) -> str:
    trusted = base64.b64encode(authority).decode()
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": server, "certificate-authority-data": trusted}}],
            "users": [{"name": "it", "user": user or {"token": "t"}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }
    )


def _encrypted(authority: trustme.CA) -> dict[str, str]:
    """Return the credentials of a user whose client key claims to need 2^31 - 1 hash rounds to be decrypted."""
    rounds = _der(0x02, (2**31 - 1).to_bytes(4, "big"))
    hashed = _der(0x30, _der(0x04, b"8 bytes!") + rounds + _der(0x30, _der(0x06, HMAC_SHA256) + _der(0x05, b"")))
    scheme = _der(0x30, _der(0x06, PBKDF2) + hashed) + _der(0x30, _der(0x06, AES_256) + _der(0x04, b"i" * 16))
    whole = _der(0x30, _der(0x30, _der(0x06, PBES2) + _der(0x30, scheme)) + _der(0x04, b"k" * 96))
    text = base64.encodebytes(whole)
    key = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n" + text + b"-----END ENCRYPTED PRIVATE KEY-----\n"
    certificate = authority.issue_cert("jane@example.org").cert_chain_pems[0].bytes()
    return {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    return bytes([tag, *([size] if size < 0x80 else [0x81, size])]) + content


def _kubeconfigs(authority: trustme.CA, ports: dict[str, int]) -> dict[str, str]:
    pem = authority.cert_pem.bytes()
    nowhere = "https://127.0.0.1:1"
    served = {f"{name} server": _config(f"https://127.0.0.1:{port}", pem) for name, port in ports.items()}
    return {
        "encrypted key": _config(nowhere, pem, **_encrypted(authority)),
        "sexagesimal number": f"current-context: 1{':59' * 80_000}\n",
        "deep YAML": "[" * 250_000,
        "YAML of aliases": _aliases(),
        "large YAML": f"users: [{'{name: it}, ' * 70_000}]\n",
        f"{AUTHORITIES} authorities": _config(nowhere, pem * AUTHORITIES),
        **served,
    }


def _aliases() -> str:
    """Return YAML whose aliases expand to a list of a billion entries."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    return "\n".join([*lines, "users: *a8", ""])


# Tenants


@dataclasses.dataclass
class Tenants:
    """Hostile tenants. Each has a Secret with the kubeconfig of one cluster, and writes it again and again.

    They do so whether or not a Machine names their cluster, so that the API server's load is always the same.
    """

    api: Api
    namespace: str
    kinds: dict[str, str]
    number: int

    @property
    def clusters(self) -> list[str]:
        return [f"hostile-{i:03}" for i in range(self.number)]

    def kind(self, i: int) -> str:
        return list(self.kinds)[i % len(self.kinds)]

    def secret(self, i: int, time: int) -> Json:
        text = self.kinds[self.kind(i)] + "\n" * (time % 7)
        return {"data": {"value": base64.b64encode(text.encode()).decode()}}

    def write(self, over: threading.Event, pause: float) -> None:
        for turn in count():
            i = turn % self.number
            if over.wait(pause):
                return
            self.api.patch(
                "secrets", f"{self.clusters[i]}-kubeconfig", self.secret(i, turn // self.number), self.namespace
            )


@contextlib.contextmanager
def tenants(api: Api, namespace: str, number: int, *, pause: float) -> Iterator[Tenants]:
    """Run hostile tenants and their API servers. `pause`: seconds between the writes of two tenants."""
    authority, over = trustme.CA(), threading.Event()
    with _servers(authority) as ports:
        made = Tenants(api, namespace, _kubeconfigs(authority, ports), number)
        for i, cluster in enumerate(made.clusters):
            body = {"metadata": {"name": f"{cluster}-kubeconfig"}, "type": "cluster.x-k8s.io/secret"}
            api.create("secrets", body | made.secret(i, 0), namespace)
        thread = threading.Thread(target=made.write, args=(over, pause), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            over.set()
            thread.join(60)
