"""Where the parts of the embedded cluster meet: objects as the API server keeps them, and things that happen later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

Json = dict[str, Any]


class Resource(NamedTuple):
    """How a kind is addressed: `Resource("apps", "v1", "deployments")`; the core group is `""`."""

    group: str
    version: str
    plural: str


class Change(NamedTuple):
    """What happened to one object. `type` is ADDED, MODIFIED or DELETED; objects are never changed in place."""

    type: str
    resource: Resource
    object: Json
    old: Json | None


class Objects(Protocol):
    """The API server as actors see it: the same rules as for everyone, without HTTP.

    Refusals are raised as `haulout.kube.errors.ApiError`, with the code, reason and message of the real server.
    What is returned is shared and must not be changed.
    """

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None: ...

    def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Json]:
        """In the order of namespace and name; `namespace` empty: all of them."""
        ...

    def create(self, resource: Resource, obj: Json, *, like: Json | None = None) -> Json:
        """`like`: what was created earlier of the very same spec, which is then not completed and checked again."""
        ...

    def update(self, resource: Resource, obj: Json, *, subresource: str = "") -> Json:
        """Refused with a conflict unless the object's resourceVersion, where it has one, is the current one."""
        ...

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
        strategic: bool = False,
    ) -> Json:
        """A JSON merge patch, or a strategic one."""
        ...

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
    ) -> None: ...

    def evict(self, namespace: str, name: str, *, uid: str | None = None, grace: int | None = None) -> None: ...

    def subscribe(self, resource: Resource, on_change: Callable[[Change], None]) -> None:
        """Told of every change from now on, in order, after it has been stored; never from within a write of its own."""
        ...


class Timers(Protocol):
    """Things that happen later, in the order of their instants; equal instants in the order of asking."""

    def now(self) -> datetime: ...

    def at(self, instant: datetime, act: Callable[[], None]) -> Callable[[], None]:
        """Calls `act` when it is time; what is returned cancels it."""
        ...
