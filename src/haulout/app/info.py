"""`/api/v1/info`: what the leader knows of every node; other replicas ask the leader."""

from __future__ import annotations

import asyncio
import json

import msgspec

from haulout.app.parts import Surroundings
from haulout.base.address import AddressError, split_address
from haulout.base.clock import Clock
from haulout.clients.peers import PeerError, ask, decode_answer
from haulout.cluster.store import Store
from haulout.cluster.view import NotListed, View
from haulout.kube.errors import KubeError
from haulout.kube.transport import Transport
from haulout.serve.exchange import Request, StreamResponse
from haulout.serve.http import Handler
from haulout.serve.web import LongAnswers, send
from haulout.surfaces.profiles.info import node_info

# With thousands of nodes the leader needs seconds.
ASK_FOR = 10.0
# About 3 KiB a node, for more nodes than a cluster can have.
LONGEST_ANSWER = 64 * 2**20
# The event loop gets a pause of this length after each piece of work of this length, in seconds.
SLICE = 0.001


class _PodStatus(msgspec.Struct, frozen=True):
    pod_ip: str = msgspec.field(default="", name="podIP")


class _Pod(msgspec.Struct, frozen=True):
    status: _PodStatus = _PodStatus()


class _Response(msgspec.Struct, frozen=True):
    status: int
    body: bytes


def info_route(around: Surroundings, transport: Transport) -> Handler:
    async def respond() -> _Response:
        if around.leads():
            return _Response(200, await _infos(around.store, around.clock))
        leader = around.leader()
        if leader is None or not leader[0]:
            return _trouble(503, "no maintenance-controller is leading")
        return await _from_leader(transport, around.settings.http, *leader)

    # All callers get the same answer, which takes seconds to make with thousands of nodes.
    answers = LongAnswers(respond)

    async def answer(request: Request) -> StreamResponse:
        async with answers.answer(request) as found:
            return await send(request, found.body, "application/json", found.status)

    return answer


async def _infos(store: Store, clock: Clock) -> bytes:
    texts: list[str] = []
    begun_at = clock.monotonic()
    for key in store.keys("", "Node"):
        if clock.monotonic() - begun_at > SLICE:
            await asyncio.sleep(SLICE)
            begun_at = clock.monotonic()
        try:
            info = node_info(key, View(store, explaining=True), clock.now())
        except NotListed:
            continue
        if info is not None:
            texts.append(json.dumps(info))
    return f"[{', '.join(texts)}]".encode()


async def _from_leader(transport: Transport, address: str, holder: str, namespace: str) -> _Response:
    try:
        async with asyncio.timeout(ASK_FOR):
            url = await _leaders_address(transport, address, namespace, holder.partition("_")[0])
            # The leader is a pod of the cluster, so no proxy is used.
            async with ask("GET /api/v1/info", "GET", url, within=ASK_FOR, by_proxy=False) as reply:
                return _Response(reply.status, await reply.read(LONGEST_ANSWER))
    except TimeoutError:
        return _trouble(502, f"the leader cannot be asked: no answer within {ASK_FOR:g} s")
    except (KubeError, AddressError, PeerError) as error:
        return _trouble(502, f"the leader cannot be asked: {error}")


async def _leaders_address(transport: Transport, address: str, namespace: str, pod: str) -> str:
    reply = await transport.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}", timeout=ASK_FOR)
    found = decode_answer("the leader's pod", reply.body, _Pod).status.pod_ip
    if not found:
        raise KubeError(f"pod {namespace}/{pod} has no address")
    host = f"[{found}]" if ":" in found else found
    return f"http://{host}:{split_address(address)[1]}/api/v1/info"


def _trouble(status: int, text: str) -> _Response:
    return _Response(status, json.dumps({"error": text}).encode())
