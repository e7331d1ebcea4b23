"""A server as a case sees it: a small client that writes down its requests and their answers."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.contract.hooks import Hooks
from tests.contract.normal import generated_in

Json = dict[str, Any]

# Only a case that fails waits this long: on a busy machine a late answer is not wrong. The real controller takes a
# quarter of a minute for a namespace, and its garbage collector looks for what it has missed after half a minute.
PATIENCE = 120.0
SILENCE = 60.0

CRDS = "apiextensions.k8s.io/v1/customresourcedefinitions"
DAEMONSETS = "apps/v1/daemonsets"
DEPLOYMENTS = "apps/v1/deployments"
EVENTS = "events.k8s.io/v1/events"
JOBS = "batch/v1/jobs"
LEASES = "coordination.k8s.io/v1/leases"
MUTATING = "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
PDBS = "policy/v1/poddisruptionbudgets"
REPLICASETS = "apps/v1/replicasets"
STATEFULSETS = "apps/v1/statefulsets"
VALIDATING = "admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
WIDGETS = "contract.test/v1/widgets"

SKYHOOKS, POLICIES = (f"skyhook.nvidia.com/v1alpha1/{plural}" for plural in ("skyhooks", "deploymentpolicies"))
CLUSTER_WIDE = {"nodes", "namespaces", CRDS, MUTATING, VALIDATING, "contract.test/v1/racks", SKYHOOKS, POLICIES}
PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
# Letters and digits of generated names: no vowels, so that they spell nothing.
SUFFIX = r"[bcdfghjklmnpqrstvwxz2456789]{5}\b"
TOLD_HEADERS = ("Warning", "Retry-After", "Allow")


class Site(NamedTuple):
    """The address of a server, and what a case may need beside it."""

    name: str
    server: str
    token: str
    tls: ssl.SSLContext | None
    hooks: Hooks
    # Afterwards, lists that were begun and watches of earlier versions are too old.
    forget: Callable[[], None]
    start_controllers: Callable[[], object]


class Answer(NamedTuple):
    code: int
    body: Any

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])


class World:
    """The client of one case, which writes down its requests and their answers.

    `show`: the fields of an answer that are written down: `""` none, `"*"` all. Refusals are always written down in
    full.
    """

    def __init__(self, site: Site, slug: str) -> None:
        self.site = site
        self.ns = slug
        self.hooks = site.hooks
        self.steps: list[Json] = []
        # Names that the server has generated, with the prefixes that were given.
        self.generated: dict[str, str] = {}
        self._connection = open_connection(site, 60)
        self._open: list[Stream] = []

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        show: str = "",
        content_type: str = "application/json",
        accept: str = "application/json",
        token: str = "",
        **query: str,
    ) -> Answer:
        answer, told = self._send(method, path, body, content_type, accept, query, token)
        step: Json = {"asked": f"{method} {shown_target(path, query)}", "code": answer.code}
        if told:
            step["headers"] = told
        if answer.code >= 400:
            step["body"] = opaque_lists(answer.body)
        elif show:
            step["body"] = pick(opaque_lists(answer.body), show)
        self.steps.append(step)
        return answer

    def path(self, resource: str, name: str | None = None, sub: str | None = None, ns: str | None = None) -> str:
        group, _, plural = resource.rpartition("/")
        parts = [f"/apis/{group}" if group else "/api/v1"]
        if resource not in CLUSTER_WIDE:
            parts.append(f"namespaces/{ns or self.ns}")
        return "/".join([*parts, *(part for part in (plural, name, sub) if part is not None)])

    def create(self, resource: str, body: Json, *, ns: str | None = None, show: str = "", **query: str) -> Answer:
        return self.ask("POST", self.path(resource, ns=ns), body, show=show, **query)

    def get(self, resource: str, name: str, sub: str | None = None, *, show: str = "*", **query: str) -> Answer:
        return self.ask("GET", self.path(resource, name, sub), show=show, **query)

    def list(
        self, resource: str, *, show: str = "items[].metadata.name", accept: str = "application/json", **query: str
    ) -> Answer:
        return self.ask("GET", self.path(resource), show=show, accept=accept, **query)

    def replace(self, resource: str, body: Json, sub: str | None = None, *, show: str = "", **query: str) -> Answer:
        return self.ask("PUT", self.path(resource, body["metadata"]["name"], sub), body, show=show, **query)

    def patch(
        self,
        resource: str,
        name: str,
        body: Any,
        sub: str | None = None,
        *,
        kind: str = "merge",
        show: str = "",
        **query: str,
    ) -> Answer:
        path = self.path(resource, name, sub)
        return self.ask("PATCH", path, body, content_type=PATCH_TYPES[kind], show=show, **query)

    def delete(self, resource: str, name: str, options: Json | None = None, *, show: str = "", **query: str) -> Answer:
        return self.ask("DELETE", self.path(resource, name), options, show=show, **query)

    def evict(self, pod: str, *, show: str = "*", options: Json | None = None, **query: str) -> Answer:
        body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": self.ns}}
        if options is not None:
            body["deleteOptions"] = options
        return self.ask("POST", self.path("pods", pod, "eviction"), body, show=show, **query)

    def quiet(self, method: str, path: str, body: Any, content_type: str = "application/json") -> Answer:
        """Send a request that is not written down, for objects whose names or number differ between servers."""
        return self._send(method, path, body, content_type, "application/json", {})[0]

    def peek(self, resource: str, name: str = "", **query: str) -> Any:
        """Return the body of a GET, which is not written down."""
        path = self.path(resource, name or None)
        return self._send("GET", path, None, "application/json", "application/json", query)[0].body

    def wait(self, what: str, probe: Callable[[], Any], *, within: float = PATIENCE) -> Any:
        """Return the first true value of the probe. If there is none in time, that is written down."""
        ends = time.monotonic() + within
        pause = 0.005
        while not (value := probe()):
            if time.monotonic() > ends:
                self.steps.append({"awaited": what, "code": "never"})
                return value
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)
        self.steps.append({"awaited": what, "code": "happened"})
        return value

    def wait_for(self, resource: str, name: str, until: Callable[[Json], Any], what: str) -> None:
        self.wait(f"{name} {what}", lambda: self._holds(resource, name, until))

    def wait_gone(self, resource: str, name: str) -> None:
        self.wait(f"{name} gone", lambda: self.peek(resource, name).get("code") == 404)

    def _holds(self, resource: str, name: str, until: Callable[[Json], Any]) -> bool:
        found = self.peek(resource, name)
        try:
            return bool(until(found))
        except (KeyError, IndexError, TypeError):
            return False

    def watch(self, resource: str, *, ns: str | None = None, silence: float = SILENCE, **query: str) -> Stream:
        return self.watch_path(self.path(resource, ns=ns), silence=silence, **query)

    def watch_path(
        self, path: str, *, silence: float = SILENCE, accept: str = "application/json", **query: str
    ) -> Stream:
        stream = Stream(self, path, {"watch": "true", **query}, silence, accept)
        self._open.append(stream)
        return stream

    def reconnect(self) -> None:
        self._connection.close()

    def note(self, what: str, value: Any) -> None:
        self.steps.append({"noted": what, "body": value})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for stream in self._open:
            stream.close()
        self._connection.close()

    def _send(
        self,
        method: str,
        path: str,
        body: Any,
        content_type: str,
        accept: str,
        query: Mapping[str, str],
        token: str = "",
    ) -> tuple[Answer, Json]:
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        sent = {"Accept": accept, "Authorization": f"Bearer {token or self.site.token}"}
        if content is not None:
            sent["Content-Type"] = content_type
        target = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        try:
            self._connection.request(method, target, body=content, headers=sent)
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return Answer(599, f"no answer: {error!r}"), {}
        if answer.will_close:
            self._connection.close()
        told: Json = {name: answer.headers.get_all(name) for name in TOLD_HEADERS if name in answer.headers}
        kind = answer.headers.get("Content-Type", "")
        if kind != "application/json":
            told["Content-Type"] = kind
        found = decoded(text)
        self.learn(found)
        meta = body.get("metadata") if isinstance(body, dict) else None
        if isinstance(meta, dict) and (stem := meta.get("generateName")):
            self.generated.update((name, stem) for name in re.findall(f"{stem}{SUFFIX}", text.decode()))
        return Answer(answer.status, found), told

    def learn(self, body: Any) -> None:
        """Remember the names that the server has generated in an answer."""
        self.generated.update(generated_in(body))


class Stream:
    """A watch. The events that `take` and `until` return are written down."""

    def __init__(self, world: World, path: str, query: Mapping[str, str], silence: float, accept: str) -> None:
        self._world = world
        self._what = shown_target(path, query)
        self._rest = b""
        self._connection = open_connection(world.site, silence)
        self._answer: http.client.HTTPResponse | None = None
        headers = {"Accept": accept, "Authorization": f"Bearer {world.site.token}"}
        try:
            self._connection.request("GET", f"{path}?{urllib.parse.urlencode(query)}", headers=headers)
            answer = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            world.steps.append({"asked": f"WATCH {self._what}", "code": "no answer", "body": repr(error)})
            return
        if answer.status == 200:
            self._answer = answer
        else:
            body = decoded(answer.read())
            world.steps.append({"asked": f"WATCH {self._what}", "code": answer.status, "body": body})

    def take(self, count: int, *, show: str = "metadata.name") -> list[Json]:
        """Return the next so many events."""
        events: list[Json] = []
        for event in self._events():
            events.append(event)
            if len(events) == count:
                break
        return self._note(events, show)

    def until(self, name: str, *, show: str = "metadata.name") -> list[Json]:
        """Return all events before the first one of the object with this name."""
        events: list[Json] = []
        for event in self._events():
            if event["object"].get("metadata", {}).get("name") == name:
                break
            events.append(event)
        return self._note(events, show)

    def to_bookmark(self, *, show: str = "metadata.name") -> list[Json]:
        """Return all events up to the first bookmark, and that one."""
        events: list[Json] = []
        for event in self._events():
            events.append(event)
            if event["type"] == "BOOKMARK":
                break
        return self._note(events, show)

    def rest(self, *, show: str = "metadata.name") -> list[Json]:
        """Return all events to the end of the stream."""
        return self._note(list(self._events()), show)

    def _note(self, events: list[Json], show: str) -> list[Json]:
        noted = [
            {"type": event["type"], "object": pick(event["object"], "*" if event["type"] == "ERROR" else show)}
            for event in events
        ]
        for event in noted:
            if event["type"] == "BOOKMARK" and isinstance(event["object"], dict):
                hide_version(event["object"])
        # The server chooses how often it sends bookmarks.
        kept = [
            event
            for number, event in enumerate(noted)
            if not (is_bookmark(event) and event in noted[number - 1 : number])
        ]
        self._world.steps.append({"watched": self._what, "body": kept})
        return events

    def _events(self) -> Iterator[Json]:
        if self._answer is None:
            return
        while True:
            while b"\n" in self._rest:
                line, _, self._rest = self._rest.partition(b"\n")
                event: Json = json.loads(line)
                self._world.learn(event)
                yield event
            try:
                content = self._answer.read1(2**16)
            except (OSError, http.client.HTTPException) as error:
                self._world.steps.append({"watched": self._what, "code": f"broke off: {type(error).__name__}"})
                return
            if not content:
                self._world.steps.append({"watched": self._what, "code": "ended"})
                return
            self._rest += content

    def close(self) -> None:
        if self._connection.sock is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        if self._answer is not None:
            self._answer.close()
        self._connection.close()


def is_bookmark(event: Json) -> bool:
    return bool(event["type"] == "BOOKMARK")


def open_connection(site: Site, timeout: float) -> http.client.HTTPConnection:
    parts = urllib.parse.urlsplit(site.server)
    host, port = parts.hostname or "", parts.port or 443
    if site.tls is None:
        return http.client.HTTPConnection(host, port, timeout=timeout)
    return http.client.HTTPSConnection(host, port, timeout=timeout, context=site.tls)


def decoded(text: bytes) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text.decode(errors="replace")


def shown_target(path: str, query: Mapping[str, str]) -> str:
    """Return the address without what differs between servers."""
    hidden = {key: "..." if key in {"continue", "resourceVersion"} else value for key, value in query.items()}
    return f"{path}?{'&'.join(f'{key}={value}' for key, value in hidden.items())}" if query else path


def opaque_lists(body: Any) -> Any:
    """Replace the versions of lists, which depend on what other cases have written in between."""
    if isinstance(body, dict) and ("items" in body or body.get("kind") in {"Table", "Status"}):
        body = {**body, "metadata": dict(body.get("metadata") or {})}
        hide_version(body)
        if body["metadata"].get("continue"):
            body["metadata"]["continue"] = "<token>"
    return body


def hide_version(body: Json) -> None:
    if "metadata.resourceVersion" in body:
        body["metadata.resourceVersion"] = "<version>"
    meta = body.get("metadata")
    if isinstance(meta, dict) and "resourceVersion" in meta:
        meta["resourceVersion"] = "<version>"


def pick(body: Any, show: str) -> Any:
    """Return the fields of a body by their paths, as `"spec.replicas items[].metadata.name"`; `"*"` is all of it."""
    if show == "*":
        return body
    return {path: follow(body, path.split(".")) for path in show.split()}


def follow(value: Any, path: list[str]) -> Any:
    if not path:
        return value
    head, rest = path[0], path[1:]
    name, many, _ = head.partition("[]")
    if not isinstance(value, dict) or name not in value:
        return "<absent>"
    if many:
        return [follow(item, rest) for item in value[name] or []]
    return follow(value[name], rest)
