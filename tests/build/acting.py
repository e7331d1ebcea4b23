"""A person before the embedded cluster, whose rights a test takes away or leaves unanswered."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from haulout.acts.caller import Caller
from haulout.base import yaml
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, Api, InProcessTransport, Json, Server, VirtualTimers
from haulout.kube.errors import ConnectionFailed, KubeError, error_from_reply
from haulout.kube.excerpt import Shape
from haulout.kube.transport import JSON, MERGE_PATCH, Reply
from haulout.surfaces.registry import definition
from tests.build.workloads import START

REVIEWS = "selfsubjectaccessreviews"


class Desk:
    """The embedded cluster with definitions, as one person reaches it.

    `denied`: rights that the person lacks, as "verb resource". `unanswered`: those whose review gets no answer.
    `fails`: the error of each write, by its method. `writes`: the writes that were sent, with their bodies.
    """

    def __init__(self, *crds: str) -> None:
        self.server = Server(VirtualTimers(START))
        for crd in crds:
            self.server.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.load(definition(crd)))
        self.denied: set[str] = set()
        self.unanswered: set[str] = set()
        self.reviews: list[str] = []
        self.writes: list[tuple[str, str, Json]] = []
        self.queries: list[Mapping[str, str]] = []
        self.fails: dict[str, KubeError] = {}
        self._inner = InProcessTransport(Api(self.server))

    def caller(self) -> Caller:
        return Caller(self, "jane")

    def make(self, *objects: Json) -> None:
        for body in objects:
            group, _, version = str(body["apiVersion"]).rpartition("/")
            (kind,) = [
                each
                for each in self.server.catalog
                if (each.resource.group, each.resource.version, each.kind) == (group, version, body["kind"])
            ]
            self.server.create(kind.resource, body)

    async def change(self, path: str, body: Json, *, by: str = "kubectl") -> None:
        query = {"fieldManager": by}
        payload = json.dumps(body).encode()
        await self._inner.request("PATCH", path, query=query, body=payload, content_type=MERGE_PATCH)

    async def get(self, path: str) -> Json:
        return dict(json.loads((await self._inner.request("GET", path)).body))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float = 30.0,
        keep: Shape | None = None,
    ) -> Reply:
        if path.endswith(REVIEWS):
            return self._review(json.loads(body or b"{}"))
        if method == "GET":
            self._authorize("get", path)
        else:
            self.writes.append((method, path, json.loads(body or b"{}")))
            self.queries.append(query or {})
            if method in self.fails:
                raise self.fails[method]
        return await self._inner.request(
            method, path, query=query, body=body, content_type=content_type, accept=accept, timeout=timeout, keep=keep
        )

    def _authorize(self, verb: str, path: str) -> None:
        for right in self.denied:
            denied, _, resource = right.partition(" ")
            if denied == verb and f"/{resource}" in path:
                raise error_from_reply(403, forbidden(verb, resource))

    def _review(self, review: Json) -> Reply:
        attributes: dict[str, Any] = review["spec"]["resourceAttributes"]
        right = f"{attributes['verb']} {attributes['resource']}"
        self.reviews.append(right)
        if right in self.unanswered:
            raise ConnectionFailed("no answer")
        return Reply(201, json.dumps({"status": {"allowed": right not in self.denied}}).encode())

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        silence: float = 330.0,
        keep: Shape | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    async def close(self) -> None:
        await self._inner.close()


def forbidden(verb: str, resource: str) -> bytes:
    """Return the body with which RBAC refuses a request."""
    message = f'{resource} is forbidden: User "jane" cannot {verb} resource "{resource}" at the cluster scope'
    return json.dumps({"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}).encode()
