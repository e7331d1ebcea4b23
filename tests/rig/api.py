"""A small JSON client for tests: `api.get("nodes", "a")`, `api.items("apps/v1/deployments", "shop")`."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import select
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.rig.wait import eventually

Json = dict[str, Any]

# The errors of a broken connection. Python's TLS takes an RST for an end, so the message is incomplete.
BROKEN = (ConnectionError, http.client.IncompleteRead)

CRDS = "apiextensions.k8s.io/v1/customresourcedefinitions"
DAEMONSETS = "apps/v1/daemonsets"
DEPLOYMENTS = "apps/v1/deployments"
LEASES = "coordination.k8s.io/v1/leases"
PDBS = "policy/v1/poddisruptionbudgets"
REPLICASETS = "apps/v1/replicasets"

PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class ApiError(Exception):
    """An answer with a status of 400 or above."""

    def __init__(self, code: int, body: Any, headers: Mapping[str, str]) -> None:
        self.code = code
        self.body = body
        self.headers = headers
        self.reason: str = body.get("reason", "") if isinstance(body, dict) else ""
        self.message: str = body.get("message", "") if isinstance(body, dict) else str(body)[:500]
        super().__init__(f"{code} {self.reason}: {self.message}")


def path_of(resource: str, name: str | None = None, ns: str | None = None, sub: str | None = None) -> str:
    """Return the path of a resource. `resource` is a plural of the core group, or `group/version/plural`."""
    group, _, plural = resource.rpartition("/")
    parts = [f"/apis/{group}" if group else "/api/v1"]
    if ns is not None:
        parts.append(f"namespaces/{ns}")
    parts += [part for part in (plural, name, sub) if part is not None]
    return "/".join(parts)


class Api:
    """A client for tests.

    It is thread-safe: each request takes an idle connection or opens one. It never repeats a request.
    """

    def __init__(self, server: str, token: str, *, ca: Path | None = None, timeout: float = 60) -> None:
        self.server = server
        self.token = token
        self.timeout = timeout
        parts = urllib.parse.urlsplit(server)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._tls = None
        if parts.scheme == "https":
            self._tls = ssl.create_default_context(cafile=ca)
            if ca is None:
                self._tls.check_hostname = False
                self._tls.verify_mode = ssl.CERT_NONE
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request. Return the decoded JSON, or the text if the answer is not JSON."""
        connection = self._take()
        try:
            self._send(connection, method, path, body, query, content_type, headers)
            answer = connection.getresponse()
            content = answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        decoded = decode(content)
        if answer.status >= 400:
            raise ApiError(answer.status, decoded, dict(answer.getheaders()))
        return decoded

    def get(self, resource: str, name: str, ns: str | None = None, *, sub: str | None = None) -> Json:
        found: Json = self.request("GET", path_of(resource, name, ns, sub))
        return found

    def find(self, resource: str, name: str, ns: str | None = None) -> Json | None:
        try:
            return self.get(resource, name, ns)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def items(self, resource: str, ns: str | None = None, **query: str) -> list[Json]:
        found: list[Json] = self.request("GET", path_of(resource, ns=ns), query=query)["items"]
        return found

    def create(self, resource: str, body: Json, ns: str | None = None) -> Json:
        made: Json = self.request("POST", path_of(resource, ns=ns), body)
        return made

    def replace(self, resource: str, body: Json, *, sub: str | None = None) -> Json:
        meta = body["metadata"]
        made: Json = self.request("PUT", path_of(resource, meta["name"], meta.get("namespace"), sub), body)
        return made

    def patch(
        self,
        resource: str,
        name: str,
        body: Any,
        ns: str | None = None,
        *,
        sub: str | None = None,
        kind: str = "merge",
        **query: str,
    ) -> Json:
        path = path_of(resource, name, ns, sub)
        made: Json = self.request("PATCH", path, body, query=query, content_type=PATCH_TYPES[kind])
        return made

    def delete(self, resource: str, name: str, ns: str | None = None, *, grace: int | None = None) -> None:
        """Delete an object. It is no error if the object does not exist."""
        options = {} if grace is None else {"gracePeriodSeconds": str(grace)}
        try:
            self.request("DELETE", path_of(resource, name, ns), query=options)
        except ApiError as error:
            if error.code != 404:
                raise

    def delete_all(self, resource: str, ns: str | None = None, *, grace: int = 0, **query: str) -> None:
        """Delete all objects that the selectors in `query` match, and wait until they are gone."""
        self.request("DELETE", path_of(resource, ns=ns), query={"gracePeriodSeconds": str(grace), **query})
        eventually(lambda: not self.items(resource, ns, **query), f"{resource} in {ns} gone")

    def evict(self, name: str, ns: str, *, grace: int | None = None) -> None:
        body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": ns}}
        if grace is not None:
            body["deleteOptions"] = {"gracePeriodSeconds": grace}
        self.request("POST", path_of("pods", name, ns, "eviction"), body)

    def watch(self, resource: str, ns: str | None = None, *, silence: float = 60, **query: str) -> Watch:
        """Open a watch on a connection of its own. `silence`: how long it may be quiet before TimeoutError."""
        connection = self._open(silence)
        try:
            asked = {"watch": "true", **query}
            self._send(connection, "GET", path_of(resource, ns=ns), None, asked, "application/json", None)
            answer = connection.getresponse()
            if answer.status >= 400:
                raise ApiError(answer.status, decode(answer.read()), dict(answer.getheaders()))
        except BaseException:
            connection.close()
            raise
        return Watch(connection, answer)

    def close(self) -> None:
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    def _open(self, timeout: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)

    def _take(self) -> http.client.HTTPConnection:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                # An idle connection that is readable has been closed by the server.
                if connection.sock is not None and not readable(connection.sock):
                    return connection
                connection.close()
        return self._open(self.timeout)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, str] | None,
        content_type: str,
        headers: Mapping[str, str] | None,
    ) -> None:
        sent = {"Accept": "application/json", "Authorization": f"Bearer {self.token}", **(headers or {})}
        content = None
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent["Content-Type"] = content_type
        target = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        connection.request(method, target, body=content, headers=sent)


def is_behind(event: Json) -> bool:
    """Whether an event says that the watch cache of a busy server has not reached the requested version yet."""
    causes = event["object"].get("details", {}).get("causes", ()) if event["type"] == "ERROR" else ()
    return any(cause["reason"] == "ResourceVersionTooLarge" for cause in causes)


class Watch:
    """The events of one watch, in order.

    It ends when the server ends it, and raises a `BROKEN` when the connection breaks.
    """

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._answer = answer
        self._rest = b""

    def __iter__(self) -> Iterator[Json]:
        while True:
            while b"\n" in self._rest:
                line, _, self._rest = self._rest.partition(b"\n")
                event: Json = json.loads(line)
                yield event
            # `readline` would take a broken stream for one that has ended.
            content = self._answer.read1(2**16)
            if not content:
                return
            self._rest += content

    def take(self, count: int) -> list[Json]:
        """Return the next so many events, or fewer if the watch ends."""
        return list(itertools.islice(self, count))

    def bear(self, silence: float) -> None:
        """Set how long the watch may be quiet before TimeoutError."""
        self._connection.sock.settimeout(silence)

    def close(self) -> None:
        # A reader in another thread holds the lock of the buffered file. Shutting down the socket ends its read.
        if self._connection.sock is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._answer.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def readable(handle: socket.socket) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def decode(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return content.decode(errors="replace")
