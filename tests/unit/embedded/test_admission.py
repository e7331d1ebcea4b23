"""Webhooks beyond what contract cases show: which are asked, changes in between, and the client."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import trustme
from aiohttp import web

from haulout.embedded import Admission, Json, Resource, WebhookClient
from haulout.embedded.face.admission import HookFailed
from tests.build.apiserver import NODES, World, node
from tests.build.server import serve, server_context

GROUP = "admissionregistration.k8s.io"
KINDS = {
    "mutating": (Resource(GROUP, "v1", "mutatingwebhookconfigurations"), "MutatingWebhookConfiguration"),
    "validating": (Resource(GROUP, "v1", "validatingwebhookconfigurations"), "ValidatingWebhookConfiguration"),
}
NODES_RULE: Json = {
    "operations": ["CREATE", "UPDATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["nodes"],
}


def configure(world: World, kind: str, *, name: str = "a.hook.io", rule: Json = NODES_RULE, **webhook: Any) -> None:
    hook = {
        "name": name,
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **webhook,
    }
    world.server.create(KINDS[kind][0], {"metadata": {"name": name}, "webhooks": [hook]})


class Desk:
    """A webhook that answers reviews, and remembers them."""

    def __init__(self, world: World, **response: Any) -> None:
        self.requests: list[Json] = []
        self.response = {"allowed": True, **response}
        world.api.admission.register("a.hook.io", self.answer)

    async def answer(self, review: Json) -> Json:
        self.requests.append(review["request"])
        return {"response": {"uid": review["request"]["uid"], **self.response}}


def patch(*operations: Json) -> Json:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


@pytest.mark.parametrize(
    "webhook, asked",
    [
        pytest.param({}, 1, id="rule"),
        pytest.param({"rule": NODES_RULE | {"operations": ["DELETE"]}}, 0, id="other operation"),
        pytest.param({"rule": NODES_RULE | {"operations": ["*"], "resources": ["*"]}}, 1, id="everything"),
        pytest.param({"rule": NODES_RULE | {"resources": ["nodes/*"]}}, 1, id="with subresources"),
        pytest.param({"rule": NODES_RULE | {"resources": ["nodes/status"]}}, 0, id="subresource only"),
        pytest.param({"rule": NODES_RULE | {"scope": "Namespaced"}}, 0, id="scope"),
        pytest.param({"objectSelector": {"matchLabels": {"zone": "z1"}}}, 1, id="label"),
        pytest.param({"objectSelector": {"matchLabels": {"zone": "z2"}}}, 0, id="other label"),
        pytest.param({"namespaceSelector": {"matchLabels": {"x": "y"}}}, 1, id="namespaces do not matter to nodes"),
    ],
)
async def test_who_is_asked(webhook: Json, asked: int) -> None:
    world = World()
    configure(world, "validating", **webhook)
    desk = Desk(world)
    assert (await world.ask_slowly("POST", "/api/v1/nodes", node("a", zone="z1"))).code == 201
    assert len(desk.requests) == asked


async def test_a_change_in_between_is_noticed() -> None:
    world = World()
    world.server.create(NODES, node("a"))
    configure(world, "validating")
    desk = Desk(world)

    async def interfere(review: Json) -> Json:
        if len(desk.requests) < 2:
            world.server.patch(NODES, "", "a", {"metadata": {"labels": {"turn": str(len(desk.requests))}}})
        return await desk.answer(review)

    world.api.admission.register("a.hook.io", interfere)
    said = await world.ask_slowly("PATCH", "/api/v1/nodes/a", {"spec": {"unschedulable": True}}, patch="merge")
    assert (said.code, len(desk.requests)) == (200, 3)
    assert (said.body["spec"], said.body["metadata"]["labels"]) == ({"unschedulable": True}, {"turn": "1"})


async def test_actors_are_not_reviewed() -> None:
    world = World()
    configure(world, "validating")
    Desk(world, allowed=False)
    assert world.server.create(NODES, node("a"))["metadata"]["name"] == "a"


def test_without_webhooks_the_answer_is_there_at_once() -> None:
    world = World()
    configure(world, "validating", rule=NODES_RULE | {"resources": ["pods"]})
    assert world.ask("POST", "/api/v1/nodes", node("a")).code == 201


async def test_webhooks_over_https() -> None:
    authority = trustme.CA()

    async def answer(request: web.Request) -> web.Response:
        review = await request.json()
        response = {
            "uid": review["request"]["uid"],
            "allowed": request.path == "/ok",
            "status": {"message": request.path},
        }
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    app = web.Application()
    app.router.add_post("/{tail:.*}", answer)
    bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
    async with serve(app, server_context(authority, "127.0.0.1", "hooks.team.svc")) as address:
        world = World()
        client = WebhookClient({"team/hooks": address})
        world.api.admission = Admission(world.server, post=client.post)
        configure(world, "validating", name="a.hook.io", clientConfig={"url": f"{address}/ok", "caBundle": bundle})
        assert (await world.ask_slowly("POST", "/api/v1/nodes", node("a"))).code == 201
        service = {"namespace": "team", "name": "hooks", "path": "/no"}
        configure(world, "validating", name="b.hook.io", clientConfig={"service": service, "caBundle": bundle})
        said = await world.ask_slowly("POST", "/api/v1/nodes", node("b"))
        assert said.message == 'admission webhook "b.hook.io" denied the request: /no'
        with pytest.raises(HookFailed, match='service "none" not found'):
            await client.post({"service": {"namespace": "x", "name": "none"}}, {}, 1)
        with pytest.raises(HookFailed):
            await client.post({"url": "https://127.0.0.1:1/"}, {}, 1)
        await client.close()
