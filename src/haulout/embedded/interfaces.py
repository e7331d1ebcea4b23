"""The types that the parts of the embedded cluster share: objects and their changes, the API server, timers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

Json = dict[str, Any]


class Resource(NamedTuple):
    """The address of a kind: `Resource("apps", "v1", "deployments")`; the core group is `""`."""

    group: str
    version: str
    plural: str


class Change(NamedTuple):
    """One change of one object. `type` is ADDED, MODIFIED or DELETED. Objects are never changed in place."""

    type: str
    resource: Resource
    object: Json
    old: Json | None


class Objects(Protocol):
    """The API server as the simulated controllers see it: the rules that clients have, without HTTP.

    Refusals are raised as `haulout.kube.errors.ApiError`, with the code, reason and message of the real server.
    Returned objects are shared and must not be changed.
    """

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None: ...

    def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Json]:
        """Return objects in the order of namespace and name; of all namespaces if `namespace` is empty."""
        ...

    def create(self, resource: Resource, obj: Json, *, like: Json | None = None, manager: str = "unknown") -> Json:
        """Create an object. `like`: one created earlier of the very same spec, whose defaults and checks are reused."""
        ...

    def update(self, resource: Resource, obj: Json, *, subresource: str = "") -> Json:
        """Replace an object. Raises `Conflict` if it has a resourceVersion that is not the current one."""
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
        manager: str = "unknown",
    ) -> Json:
        """Apply a JSON merge patch, or a strategic merge patch. `manager`: the client whose name is noted."""
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
        """Call `on_change` with every change from now on, in order, after it was stored and never within a write."""
        ...


class Timers(Protocol):
    """A clock and the calls that are planned on it. Calls run in the order of their instants, then of planning."""

    def now(self) -> datetime: ...

    def at(self, instant: datetime, act: Callable[[], None]) -> Callable[[], None]:
        """Plan a call of `act`. The returned function cancels it."""
        ...
