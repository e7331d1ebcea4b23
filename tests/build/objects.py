"""A few objects by path in this process, with resource versions as preconditions.

Answers can be delayed, lost or refused.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec import Struct

from haulout.base.patch import merge
from haulout.kube.errors import ConnectionFailed, KubeError, RequestTimeout
from haulout.kube.excerpt import Shape
from haulout.kube.transport import JSON, Reply
from tests.build.fakeapi import refusal


class Asked(Struct, frozen=True):
    method: str
    path: str
    query: dict[str, str]
    body: Any
    content_type: str
    accept: str
    timeout: float
    at: float


class Objects:
    """The objects, as `Transport` without watches."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}
        self.asked: list[Asked] = []
        # The faults of the next requests, one each; None lets a request pass. A request whose answer is lost is carried
        # out.
        self.faults: deque[KubeError | None] = deque()
        self.lost_answers = 0
        self.takes = 0.01
        self.reachable = True
        self.in_flight = 0
        self.most_in_flight = 0
        self._version = 0

    def put(self, path: str, obj: Any) -> None:
        self._version += 1
        self.stored[path] = obj | {"metadata": {**obj.get("metadata", {}), "resourceVersion": str(self._version)}}

    @property
    def short(self) -> list[str]:
        return [f"{asked.method} {asked.path.rsplit('/', 1)[-1]}" for asked in self.asked]

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
        now = asyncio.get_running_loop().time()
        value = None if body is None else json.loads(body)
        self.asked.append(Asked(method, path, dict(query or {}), value, content_type, accept, timeout, now))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            async with asyncio.timeout(timeout):
                await asyncio.sleep(self.takes)
        except TimeoutError:
            raise RequestTimeout(f"{method} {path}: no answer for {timeout:g} s") from None
        finally:
            self.in_flight -= 1
        return Reply(200, json.dumps(self._answer(method, path, value)).encode())

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        silence: float = 330.0,
        keep: Shape | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    async def close(self) -> None: ...

    def _answer(self, method: str, path: str, body: Any) -> Any:
        if not self.reachable:
            raise ConnectionFailed("connection refused")
        if self.faults and (fault := self.faults.popleft()):
            raise fault
        answer = self._carry_out(method, path, body)
        if self.lost_answers:
            self.lost_answers -= 1
            raise RequestTimeout("no answer")
        return answer

    def _carry_out(self, method: str, path: str, body: Any) -> Any:
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.stored:
                raise refusal(409, "AlreadyExists")
            self.put(path, body)
        elif path not in self.stored:
            raise refusal(404, "NotFound", name=path.rpartition("/")[2])
        elif method == "PUT":
            if body["metadata"].get("resourceVersion") != self.stored[path]["metadata"]["resourceVersion"]:
                raise refusal(409, "Conflict")
            self.put(path, body)
        elif method == "PATCH":
            self.put(path, merge(self.stored[path], body))
        return self.stored[path]
