"""Sends all writes to an API server: limited in number, fair between keys, with preconditions, never retried here.

See decision 0090.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from haulout.kube.codec import Broken, HasMetadata, Kind, Shortened
from haulout.kube.errors import KubeError
from haulout.kube.excerpt import Shape
from haulout.kube.listing import Pages
from haulout.kube.transport import JSON, MERGE_PATCH, METADATA_ONLY, STRATEGIC_PATCH, Transport
from haulout.model.meta import FIELD_MANAGER

K = TypeVar("K", bound=HasMetadata)
# Called at the moment of sending. It returns the seconds that the request may take, or None if it must not be sent any
# more.
Guard = Callable[[], float | None]


class Withheld(KubeError):
    """The guard did not allow a request. Nothing was sent."""


class Continued(NamedTuple):
    """The key of a request that is not the first of its sequence. It goes before requests that begin a sequence."""

    key: Hashable


# The keys that wait, in the order of their next turns, each with its requests.
Ring = dict[Hashable, deque[asyncio.Future[None]]]


class Gate:
    """A limit on the number of requests under way.

    Waiting requests are sent by turns over the keys, and in order within a key. So however many requests of one key
    wait, the first request of another key waits for at most one request of each key.

    Requests whose key is `Continued` go before all others. Otherwise, when a thousand sequences begin together, the
    second step of each would wait for the first step of all. Sequences are short, so other requests get their turns
    between them.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        # Both are empty while a slot is free.
        self._continued: Ring = {}
        self._begun: Ring = {}

    @property
    def waiting(self) -> int:
        rings = (self._continued, self._begun)
        return sum(not turn.done() for ring in rings for turns in ring.values() for turn in turns)

    async def enter(self, key: Hashable) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        ring = self._continued if isinstance(key, Continued) else self._begun
        ring.setdefault(key, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        while ring := self._continued or self._begun:
            key = next(iter(ring))
            turns = ring.pop(key)
            turn = turns.popleft()
            if turns:
                ring[key] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Writer:
    """A sender of writes to one API server: patches, creations, evictions and deletions.

    Methods return the raw bytes of the object in the answer. They raise a refusal as an `ApiError`.

    Nothing is retried, because a decision has to say what follows a refusal. Requests wait only for the limit of
    requests in flight; it is the kernel that keeps the pause that a server asks for.

    `key`: requests of different keys take turns (`Gate`). `guard`: called just before sending, and may withhold the
    request. `keep`: the fields to keep of an answer that is too long to be held. `manager`: the name under which the
    server notes the fields that are written.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        in_flight: int = 32,
        longest: float = 30.0,
        manager: str = FIELD_MANAGER,
    ) -> None:
        self._transport = transport
        self._gate = Gate(in_flight)
        self._query = {"fieldManager": manager}
        self._longest = longest

    @property
    def waiting(self) -> int:
        """The number of requests that wait for their turn."""
        return self._gate.waiting

    async def get(self, path: str, *, key: Hashable, guard: Guard | None = None, keep: Shape | None = None) -> bytes:
        return await self._send("GET", path, key=key, guard=guard, keep=keep)

    async def read_list(
        self, path: str, kind: Kind[K], query: Mapping[str, str], *, key: Hashable, guard: Guard | None = None
    ) -> tuple[list[K | Shortened[K] | Broken], str]:
        """Read a whole list as it is at one resource version. Return its items and that version.

        No `resourceVersion` is requested, so the server reads the latest state from its store. All pages show the
        version of the first.
        """
        await self._gate.enter(key)
        try:
            within = self._seconds(guard, f"GET {path}")
            pages = Pages(self._transport, path, kind, query, within=within)
            page = await pages.next()
            version, items = page.version, list(page)
            while not pages.complete:
                items += await pages.next()
            return items, version
        finally:
            self._gate.leave()

    async def create(
        self,
        path: str,
        body: Any,
        *,
        key: Hashable,
        slim: bool = False,
        guard: Guard | None = None,
        keep: Shape | None = None,
    ) -> bytes:
        """Create an object. `path` is the path of the collection."""
        return await self._send(
            "POST", path, body, key=key, query=self._query, accept=_accept(slim=slim), guard=guard, keep=keep
        )

    async def merge_patch(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        key: Hashable,
        version: str | None = None,
        subresource: str | None = None,
        slim: bool = False,
        strategic: bool = False,
        guard: Guard | None = None,
        keep: Shape | None = None,
    ) -> bytes:
        """Patch an object. With `version`, raises `Conflict` unless the object still has that resource version.

        `slim`: ask for the metadata only. That is right only if nothing but metadata changes.
        `strategic`: the server merges lists entry by entry. Only built-in kinds support that.
        """
        if version is not None:
            body = {**body, "metadata": {**body.get("metadata", {}), "resourceVersion": version}}
        return await self._send(
            "PATCH",
            _below(path, subresource),
            body,
            key=key,
            query=self._query,
            content_type=STRATEGIC_PATCH if strategic else MERGE_PATCH,
            accept=_accept(slim=slim),
            guard=guard,
            keep=keep,
        )

    async def evict(
        self,
        namespace: str,
        name: str,
        *,
        key: Hashable,
        uid: str,
        grace_seconds: int | None = None,
        guard: Guard | None = None,
    ) -> bytes:
        """Evict a pod.

        Raises `TooManyRequests` with `by_budget` if a PodDisruptionBudget refuses, and `Conflict` if another pod has
        the name by now.
        """
        options = _without_none(preconditions={"uid": uid}, gracePeriodSeconds=grace_seconds)
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        return await self._send("POST", path, body, key=key, query=self._query, guard=guard)

    async def delete(
        self,
        path: str,
        *,
        key: Hashable,
        uid: str | None = None,
        grace_seconds: int | None = None,
        with_owned: bool = False,
        guard: Guard | None = None,
        keep: Shape | None = None,
    ) -> bytes:
        """Delete an object and the objects that it owns; `with_owned`: it stays until those are gone.

        Return the object if it still exists (because of finalizers or a grace period), else a Status.
        """
        # The server ignores delete options in the query once there is a body.
        options = _without_none(
            preconditions=_without_none(uid=uid) or None,
            gracePeriodSeconds=grace_seconds,
            # Background is the server's default for all kinds but Jobs, whose pods would otherwise go on running.
            propagationPolicy="Foreground" if with_owned else "Background",
        )
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        return await self._send("DELETE", path, body, key=key, guard=guard, keep=keep)

    async def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: Hashable,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        guard: Guard | None = None,
        keep: Shape | None = None,
    ) -> bytes:
        payload = None if body is None else msgspec.json.encode(body)
        await self._gate.enter(key)
        try:
            seconds = self._seconds(guard, f"{method} {path}")
            reply = await self._transport.request(
                method,
                path,
                query=query,
                body=payload,
                content_type=content_type,
                accept=accept,
                timeout=seconds,
                keep=keep,
            )
        finally:
            self._gate.leave()
        return reply.body

    def _seconds(self, guard: Guard | None, what: str) -> float:
        """Return how many seconds a request may take. Raises `Withheld` if it must not be sent any more."""
        seconds = guard() if guard else self._longest
        if seconds is None or seconds <= 0:
            raise Withheld(f"{what}: withheld")
        return min(seconds, self._longest)


def _accept(*, slim: bool) -> str:
    return METADATA_ONLY if slim else JSON


def _below(path: str, subresource: str | None) -> str:
    return f"{path}/{subresource}" if subresource else path


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
