"""What happened to objects of several kinds, in the one order in which the API server stored it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tests.rig.api import BROKEN, Json, Watch
from tests.rig.plane import Cluster

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

    def follow(self, kind: str, watch: Watch) -> None:
        # http.client trips over a socket that is shut down under its hands.
        with suppress(*BROKEN, ValueError, AttributeError):
            for event in watch:
                if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                    version = int(event["object"]["metadata"]["resourceVersion"])
                    self.events.append(Event(version, kind, event["type"], event["object"]))

    def replayed(self) -> Iterator[Objects]:
        """Yield all objects as they stood after each event, by kind, namespace and name."""
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
    """Record what happens to objects of these resources. Each comes with a name for its kind."""
    made, api = Recorded(), plane.api()
    first = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    watches = [(kind, api.watch(resource, silence=600, **first)) for kind, resource in kinds]
    threads = [threading.Thread(target=made.follow, args=each, daemon=True) for each in watches]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        for _, watch in watches:
            watch.close()
        for thread in threads:
            thread.join(10)
