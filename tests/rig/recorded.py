"""Records the changes of objects of several kinds, in the one order in which the API server stored them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tests.rig.api import BROKEN, Api, ApiError, Json, Watch, is_behind
from tests.rig.plane import Cluster
from tests.rig.wait import eventually

Objects = dict[tuple[str, str, str], Json]


class Event(NamedTuple):
    """One change of one object. `version` orders the changes of all kinds, because one etcd counts them."""

    version: int
    kind: str
    type: str
    object: Json


class Recorded:
    """The events of some resources since it was opened."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def follow(self, kind: str, first: Json, watch: Watch) -> None:
        self._take(kind, first)
        # http.client raises any of these when another thread closes its socket.
        with suppress(*BROKEN, ValueError, AttributeError):
            for event in watch:
                self._take(kind, event)

    def _take(self, kind: str, event: Json) -> None:
        assert event["type"] != "ERROR", event
        if event["type"] != "BOOKMARK":
            version = int(event["object"]["metadata"]["resourceVersion"])
            self.events.append(Event(version, kind, event["type"], event["object"]))

    def has(self, kind: str, stored: Json) -> bool:
        """Whether an object is recorded as it is stored, or a later state of it."""
        meta, version = stored["metadata"], int(stored["metadata"]["resourceVersion"])
        return any(
            event.version >= version and event.kind == kind and event.object["metadata"]["uid"] == meta["uid"]
            for event in reversed(self.events)
        )

    def replayed(self) -> Iterator[Objects]:
        """Yield all objects as they were after each event, by kind, namespace and name."""
        found: Objects = {}
        for event in sorted(self.events, key=lambda event: event.version):
            meta = event.object["metadata"]
            key = (event.kind, meta.get("namespace", ""), meta["name"])
            if event.type == "DELETED":
                found.pop(key, None)
            else:
                found[key] = event.object
            yield found


@contextmanager
def recorded(plane: Cluster, kinds: Iterable[tuple[str, str]]) -> Iterator[Recorded]:
    """Record the changes of objects of these resources. Each resource comes with a name for its kind.

    When the block ends, everything that was stored until then is recorded.
    """
    made, api, named = Recorded(), plane.api(), list(kinds)
    watches = [(kind, *_opened(api, resource)) for kind, resource in named]
    threads = [threading.Thread(target=made.follow, args=each, daemon=True) for each in watches]
    for thread in threads:
        thread.start()
    try:
        yield made
        stored = [(kind, each) for kind, resource in named for each in api.items(resource)]
        eventually(lambda: all(made.has(kind, each) for kind, each in stored), "all that is stored is recorded")
    finally:
        for _, _, watch in watches:
            watch.close()
        for thread in threads:
            thread.join(10)


def _opened(api: Api, resource: str) -> tuple[Json, Watch]:
    """Open a watch that begins with all objects. Return it with its first event."""
    first = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}

    def attempt() -> tuple[Json, Watch] | None:
        watch = api.watch(resource, silence=600, **first)
        (event,) = watch.take(1)
        if not is_behind(event):
            return event, watch
        watch.close()
        return None

    return eventually(attempt, f"{resource} is watched", refused=(ApiError,))
