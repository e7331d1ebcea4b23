"""An embedded API server on a clock moved by hand: `world.ask("POST", "/api/v1/nodes", node("a"))`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from inspect import isawaitable
from typing import Any, NamedTuple

from haulout.embedded import Api, Change, Json, Resource, Response, Server, VirtualTimers
from haulout.kube.transport import JSON, JSON_PATCH, MERGE_PATCH

START = datetime(2026, 1, 1, tzinfo=UTC)
NODES = Resource("", "v1", "nodes")
PODS = Resource("", "v1", "pods")
CONFIG_MAPS = Resource("", "v1", "configmaps")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")

PATCHES = {
    "merge": MERGE_PATCH,
    "json": JSON_PATCH,
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class Said(NamedTuple):
    """The answer of the server; `body` is decoded if it is JSON."""

    code: int
    body: Any
    headers: tuple[tuple[str, str], ...]

    @property
    def message(self) -> str:
        return str(self.body.get("message", "")) if isinstance(self.body, dict) else str(self.body)

    @property
    def warnings(self) -> list[str]:
        return [value for name, value in self.headers if name == "Warning"]


class World:
    def __init__(self, *, taint_new_nodes: bool = False, log_length: int = 4096) -> None:
        self.timers = VirtualTimers(START)
        self.server = Server(self.timers, taint_new_nodes=taint_new_nodes, log_length=log_length)
        self.api = Api(self.server)

    def ask(
        self,
        method: str,
        address: str,
        body: Any = None,
        *,
        patch: str = "",
        accept: str = JSON,
        content_type: str = "",
    ) -> Said:
        answer = self._send(method, address, body, patch=patch, accept=accept, content_type=content_type)
        assert not isawaitable(answer)
        return said(answer)

    async def ask_slowly(self, method: str, address: str, body: Any = None, *, patch: str = "") -> Said:
        """Send a request in a way that lets webhooks answer."""
        answer = self._send(method, address, body, patch=patch)
        return said(await answer if isawaitable(answer) else answer)

    def watch(self, address: str, *, accept: str = JSON) -> Response:
        answer = self._send("GET", address, accept=accept)
        assert isinstance(answer, Response)
        return answer

    def _send(
        self,
        method: str,
        address: str,
        body: Any = None,
        *,
        patch: str = "",
        accept: str = JSON,
        content_type: str = "",
    ) -> Any:
        path, _, text = address.partition("?")
        query: Mapping[str, str] = dict(part.partition("=")[::2] for part in text.split("&") if part)
        headers = {"accept": accept, "content-type": PATCHES[patch] if patch else content_type or JSON}
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.api.handle(method, path, query, headers, sent)

    def wait(self, **span: float) -> None:
        self.timers.run_for(timedelta(**span))

    def heard(self, resource: Resource) -> list[Change]:
        """Return a list that every later change is added to when time passes."""
        changes: list[Change] = []
        self.server.subscribe(resource, changes.append)
        return changes


def said(answer: Response) -> Said:
    try:
        body = json.loads(answer.body)
    except ValueError:
        body = answer.body.decode()
    return Said(answer.status, body, answer.headers)


def events(answer: Response) -> list[tuple[str, Json]]:
    """Return the events that a watch has received so far."""
    assert answer.watch is not None
    lines = [json.loads(line) for line in answer.watch.lines]
    answer.watch.lines.clear()
    return [(line["type"], line["object"]) for line in lines]


def short(answer: Response) -> list[str]:
    return [f"{kind} {obj['metadata'].get('name', '')}".strip() for kind, obj in events(answer)]


def node(name: str, **labels: str) -> Json:
    return {"metadata": {"name": name, **({"labels": labels} if labels else {})}}


def pod(name: str, *, on: str = "", labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """Return a pod in the namespace default."""
    placed = {"nodeName": on} if on else {}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": dict(labels or {"app": "web"})},
        "spec": {"containers": [{"name": "c", "image": "nginx"}], **placed, **spec},
    }


def budget(name: str, app: str = "web", **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def deployment(name: str, app: str = "web", **spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, "template": template, **spec},
    }
