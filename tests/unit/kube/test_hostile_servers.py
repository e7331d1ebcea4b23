"""Hostile API servers on loopback: what they send is an error in time, and takes bounded memory."""

from __future__ import annotations

import asyncio

import pytest

from haulout.base.clock import SystemClock
from haulout.kube.bounds import AWAY, HOME, Bounds
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import KubeError
from haulout.kube.http import HttpTransport
from tests.build import hostile
from tests.build.hostile import Attack, serving

WITHIN, PATIENCE = 0.4, 20
MOST_SENT = 24 * 2**20
# The first of them is a good answer.
MANY = "many answers at once"
ENDLESS = {name: attack for name, attack in hostile.NEVER_ENDING.items() if name != MANY}


async def refusal(url: str, bounds: Bounds, *, stream: bool) -> str:
    """Return the error of a request, or of the first million lines of a watch."""
    transport = HttpTransport(Endpoint(name="east", server=url), SystemClock(), bounds=bounds)
    try:
        with pytest.raises(KubeError) as caught:
            async with asyncio.timeout(PATIENCE):
                if not stream:
                    await transport.request("GET", "/api/v1/nodes", timeout=WITHIN)
                async with transport.stream("/api/v1/nodes", silence=WITHIN) as lines:
                    async for _ in lines:
                        pass
    finally:
        await transport.close()
    return str(caught.value)


@pytest.mark.parametrize("bounds", [HOME, AWAY], ids=["home", "away"])
@pytest.mark.parametrize("attack", [*ENDLESS.values()], ids=[*ENDLESS])
async def test_answer_that_does_not_end_is_given_up(attack: Attack, bounds: Bounds) -> None:
    async with serving(attack) as peer:
        text = await refusal(f"http://127.0.0.1:{peer.port}", bounds, stream=False)
    assert text.startswith(f"GET http://127.0.0.1:{peer.port}/api/v1/nodes: ")


async def test_of_many_answers_the_first_counts_and_the_connection_is_closed() -> None:
    async with serving(hostile.NEVER_ENDING[MANY]) as peer:
        server = Endpoint(name="east", server=f"http://127.0.0.1:{peer.port}")
        transport = HttpTransport(server, SystemClock(), bounds=AWAY)
        for _ in range(2):
            assert (await transport.request("GET", "/api/v1/nodes")).status == 204
        await transport.close()
    assert len(peer.calls) == 2


@pytest.mark.parametrize("stream", [False, True], ids=["request", "stream"])
@pytest.mark.parametrize("attack", [*hostile.FLOODS.values()], ids=[*hostile.FLOODS])
async def test_answer_without_end_takes_bounded_memory(attack: Attack, stream: bool) -> None:
    async with serving(attack) as peer:
        await refusal(f"http://127.0.0.1:{peer.port}", AWAY, stream=stream)
    assert peer.sent < MOST_SENT


@pytest.mark.parametrize("attack", [*hostile.HANDSHAKES.values()], ids=[*hostile.HANDSHAKES])
async def test_handshake_that_is_none_is_an_error(attack: Attack) -> None:
    async with serving(attack) as peer:
        await refusal(f"https://127.0.0.1:{peer.port}", AWAY, stream=False)
