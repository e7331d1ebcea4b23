"""A small API server in this process, with one kind of object and many faults that a test can switch on."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

from haulout.kube.errors import ConnectionFailed, KubeError, RequestTimeout, error_from_reply
from haulout.kube.excerpt import Shape
from haulout.kube.transport import JSON, Reply

# What a server does with a streaming list; "ignored" is a server from before there were any.
Streaming = Literal["works", "422", "400", "error-event", "ignored", "ends"]


def refusal(
    code: int, reason: str = "", *, cause: str = "", name: str = "", retry_after: str | None = None
) -> KubeError:
    return error_from_reply(code, status(code, reason, cause=cause, name=name), retry_after)


def status(code: int, reason: str = "", *, cause: str = "", name: str = "") -> bytes:
    details: dict[str, Any] = {"causes": [{"reason": cause, "message": cause}]} if cause else {}
    details |= {"name": name} if name else {}
    return json.dumps(
        {"kind": "Status", "code": code, "reason": reason, "message": reason, "details": details}
    ).encode()


class Stream:
    """One open watch, as the server sees it."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes | KubeError | None] = asyncio.Queue()
        self.stalled = False  # half-open: nothing gets through any more
        self.mute = False  # from a version that the server has not reached

    def say(self, line: bytes) -> None:
        if not self.stalled and not self.mute:
            self.lines.put_nowait(line)

    def end(self, error: KubeError | None = None) -> None:
        if not self.stalled:
            self.lines.put_nowait(error)


class Server:
    """The server, as `Transport`. Objects are JSON values by name; `version` is that of the latest change."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.oldest = 100
        self.served = True
        self.streaming: Streaming = "works"
        self.bookmarks_every: float | None = 60.0
        self.gone_by_http = False
        # If not, another server stands in its place, which knows no path of the API.
        self.is_api_server = True
        # How many watches from a version begin with a malformed line.
        self.spoilt_watches = 0
        # Raised by the next requests, one each; None lets a request pass.
        self.faults: deque[KubeError | None] = deque()
        self.streams: list[Stream] = []
        self.requests: list[dict[str, str]] = []
        self.pages_held = 0
        self._history: list[tuple[int, bytes]] = []
        self._snapshots: dict[int, list[bytes]] = {}
        self._bodies: list[bytes] = []

    @property
    def asked(self) -> list[str]:
        """The requests so far, in short: "stream", "page", "page+" (a further one), "watch 101", "probe 101"."""
        return [_short(query) for query in self.requests]

    def put(self, name: str, **fields: Any) -> None:
        self.version += 1
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.objects[name] = {"metadata": {"name": name, "resourceVersion": str(self.version)}, **fields}
        self._tell(kind, self.objects[name])

    def delete(self, name: str) -> None:
        self.version += 1
        gone = self.objects.pop(name)
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED", gone)

    def compact(self) -> None:
        self.oldest = self.version
        self._snapshots.clear()

    def restore(self, objects: Mapping[str, dict[str, Any]], version: int) -> None:
        """Restore a backup: an earlier version. All connections are cut."""
        self.objects = {name: json.loads(json.dumps(obj)) for name, obj in objects.items()}
        self.version = self.oldest = version
        self._history.clear()
        self._snapshots.clear()
        self.cut()

    def cut(self) -> None:
        """Break all connections. Their watches receive nothing of what happens from now on."""
        for stream in self.streams:
            stream.end(ConnectionFailed("reset by peer"))
            stream.stalled = True

    def picture(self) -> dict[str, str]:
        return {name: obj["metadata"]["resourceVersion"] for name, obj in self.objects.items()}

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
        if path == "/api":
            if not self.is_api_server:
                raise refusal(404, "")
            return Reply(200, b'{"kind":"APIVersions","versions":["v1"]}')
        self.pages_held = max(self.pages_held, self._held())
        asked = await self._arrive(query)
        if int(asked.get("resourceVersion", 0)) > self.version:
            raise refusal(504, "Timeout", cause="ResourceVersionTooLarge")
        version, start = (int(part) for part in asked.get("continue", f"{self.version}:0").split(":"))
        if not start:
            self._snapshots[version] = [_encode(obj) for _, obj in sorted(self.objects.items())]
        if version not in self._snapshots:
            raise refusal(410, "Expired")
        everything, end = self._snapshots[version], start + int(asked.get("limit", sys.maxsize))
        more = f"{version}:{end}" if end < len(everything) else ""
        head = json.dumps({"resourceVersion": str(version), "continue": more}).encode()
        self._bodies.append(b'{"metadata":' + head + b',"items":[' + b",".join(everything[start:end]) + b"]}")
        return Reply(200, self._bodies[-1])

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        silence: float = 330.0,
        keep: Shape | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        asked = await self._arrive(query)
        stream = Stream()
        self._open(stream, asked)
        self.streams.append(stream)
        try:
            yield self._lines(stream, float(asked["timeoutSeconds"]), silence)
        finally:
            self.streams.remove(stream)

    async def close(self) -> None:
        self.cut()

    async def _arrive(self, query: Mapping[str, str] | None) -> dict[str, str]:
        asked = dict(query or {})
        self.requests.append(asked)
        await asyncio.sleep(0.001)
        if self.faults and (fault := self.faults.popleft()):
            raise fault
        if not self.served:
            raise refusal(404, "NotFound")
        return asked

    def _open(self, stream: Stream, asked: dict[str, str]) -> None:
        if "resourceVersion" in asked:
            since = int(asked["resourceVersion"])
            if self.spoilt_watches:
                self.spoilt_watches -= 1
                stream.say(b"<html>")
            if since < self.oldest and self.gone_by_http:
                raise refusal(410, "Expired")
            if since < self.oldest:
                stream.say(b'{"type":"ERROR","object":' + status(410, "Expired") + b"}")
            for version, line in self._history:
                if version > since:
                    stream.say(line)
            # Real servers answer a watch from their own future with silence.
            stream.mute = since > self.version
            return
        match self.streaming:
            case "422":
                raise refusal(422, "Invalid")
            case "400":
                raise refusal(400, "BadRequest")
            case "error-event":
                stream.say(b'{"type":"ERROR","object":' + status(500, "InternalError") + b"}")
                return
        for obj in self.objects.values():
            stream.say(_event("ADDED", obj))
        if self.streaming == "works":
            stream.say(self._bookmark({"k8s.io/initial-events-end": "true"}))
        if self.streaming == "ends":
            stream.end()

    async def _lines(self, stream: Stream, lives: float, silence: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        ends_at, silent_at = loop.time() + lives, loop.time() + silence
        # Real servers send one shortly before the end, too.
        marks_at = loop.time() + (min(self.bookmarks_every, lives - 2) if self.bookmarks_every else lives * 2)
        while True:
            until = min(ends_at, silent_at, silent_at if stream.mute else marks_at)
            if stream.stalled:
                until = silent_at
            try:
                async with asyncio.timeout_at(until):
                    line = await stream.lines.get()
            except TimeoutError:
                if until == silent_at:
                    raise RequestTimeout(f"silent for {silence:g} s") from None
                if stream.stalled:
                    continue
                if until == ends_at:
                    return
                marks_at += self.bookmarks_every or lives * 2
                line = self._bookmark({})
            if line is None:
                return
            if isinstance(line, KubeError):
                raise line
            silent_at = loop.time() + silence
            yield line

    def _tell(self, kind: str, obj: dict[str, Any]) -> None:
        line = _event(kind, obj)
        self._history.append((self.version, line))
        for stream in self.streams:
            stream.say(line)

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        return _event("BOOKMARK", {"metadata": {"resourceVersion": str(self.version), "annotations": annotations}})

    def _held(self) -> int:
        """Return how many pages the client still holds. The list, the loop variable and the argument hold one each."""
        return sum(sys.getrefcount(body) > 3 for body in self._bodies)


def _encode(obj: dict[str, Any]) -> bytes:
    return json.dumps(obj, separators=(",", ":")).encode()


def _event(kind: str, obj: dict[str, Any]) -> bytes:
    return _encode({"type": kind, "object": obj})


def _short(query: dict[str, str]) -> str:
    version = query.get("resourceVersion", "")
    if "watch" in query:
        return f"watch {version}" if version else "stream"
    if version:
        return f"probe {version}"
    return "page+" if "continue" in query else "page"
