"""`/api/v1/info`: what the leader knows of every node; other replicas ask the leader."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from haulout.app.parts import Surroundings
from haulout.base.address import AddressError, split_address
from haulout.base.clock import Clock
from haulout.cluster.store import Store
from haulout.cluster.view import NotListed, View
from haulout.kube.errors import KubeError
from haulout.kube.transport import Transport
from haulout.serve.web import Handler
from haulout.surfaces.profiles.info import node_info

ASK_FOR = 1.0
# So many nodes, then the loop has its turn.
AT_ONCE = 20


class _PodStatus(msgspec.Struct, frozen=True):
    pod_ip: str = msgspec.field(default="", name="podIP")


class _Pod(msgspec.Struct, frozen=True):
    status: _PodStatus = _PodStatus()


def info_route(around: Surroundings, transport: Transport) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        if around.leads():
            return web.json_response(await _infos(around.store, around.clock))
        leader = around.leader()
        if leader is None or not leader[0]:
            return _trouble(503, "no maintenance-controller is leading")
        return await _from_leader(transport, around.settings.http, *leader)

    return answer


async def _infos(store: Store, clock: Clock) -> list[Any]:
    found = []
    for number, key in enumerate(store.keys("", "Node")):
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
        try:
            info = node_info(key, View(store, explaining=True), clock.now())
        except NotListed:
            continue
        if info is not None:
            found.append(info)
    return found


async def _from_leader(transport: Transport, address: str, holder: str, namespace: str) -> web.Response:
    try:
        async with asyncio.timeout(ASK_FOR):
            url = await _leaders_address(transport, address, namespace, holder.partition("_")[0])
            async with aiohttp.ClientSession() as session, session.get(url) as reply:
                return web.Response(body=await reply.read(), status=reply.status, content_type="application/json")
    except (KubeError, aiohttp.ClientError, AddressError, TimeoutError, msgspec.DecodeError) as error:
        return _trouble(502, f"the leader cannot be asked: {str(error) or type(error).__name__}")


async def _leaders_address(transport: Transport, address: str, namespace: str, pod: str) -> str:
    reply = await transport.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}", timeout=ASK_FOR)
    found = msgspec.json.decode(reply.body, type=_Pod).status.pod_ip
    if not found:
        raise KubeError(f"pod {namespace}/{pod} has no address")
    host = f"[{found}]" if ":" in found else found
    return f"http://{host}:{split_address(address)[1]}/api/v1/info"


def _trouble(status: int, text: str) -> web.Response:
    return web.Response(text=json.dumps({"error": text}), status=status, content_type="application/json")
