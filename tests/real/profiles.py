"""Shared by the tests of profiles on a real API server: a configuration, and how a node is read."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.rig.api import BROKEN, Api, ApiError, Watch, is_behind
from tests.rig.plane import Cluster
from tests.rig.wait import eventually

PROFILE, STATE, DATA = (f"cloud.sap/maintenance-{word}" for word in ("profile", "state", "data"))
GO = "example.com/go"
STATES = ("operational", "maintenance-required", "in-maintenance")


def roll_config(most: int, *, profile: str = "roll", wait: str = "") -> str:
    """Return a configuration: a label asks for maintenance, at most `most` nodes are in it, and they return after `wait`."""
    hold = f"\n  - {{type: wait, name: hold, config: {{duration: {wait}}}}}" if wait else ""
    return f"""
intervals: {{requeue: 30s}}
instances:
  check:
  - {{type: hasLabel, name: go, config: {{key: {GO}, value: "true"}}}}
  - {{type: maxMaintenance, name: few, config: {{max: {most}, profile: {profile}}}}}{hold}
  trigger:
  - {{type: alterLabel, name: done, config: {{key: {GO}, remove: true}}}}
profiles:
- name: {profile}
  operational: {{transitions: [{{check: go, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: go && few, next: in-maintenance}}]}}
  in-maintenance: {{transitions: [{{check: {"hold" if wait else "go"}, trigger: done, next: operational}}]}}
"""


def label_of(node: dict[str, Any], name: str) -> str | None:
    value: str | None = node["metadata"].get("labels", {}).get(name)
    return value


def entries_of(node: dict[str, Any]) -> dict[str, Any]:
    profiles: dict[str, Any] = json.loads(node["metadata"]["annotations"][DATA])["Profiles"]
    return profiles


def states(api: Api, prefix: str) -> dict[str, str | None]:
    found = [node for node in api.items("nodes") if node["metadata"]["name"].startswith(prefix)]
    return {node["metadata"]["name"]: label_of(node, STATE) for node in found}


class Sampled:
    """Every state of every node, in the server's own order, without gaps."""

    def __init__(self) -> None:
        self.inside: set[str] = set()
        self.most = 0
        self.moves: dict[str, list[str]] = {}

    def forget(self) -> None:
        """Forget what has been seen so far. Nodes in maintenance still count."""
        self.moves = {}
        self.most = len(self.inside)

    def take(self, event: dict[str, Any]) -> None:
        if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return
        name, state = event["object"]["metadata"]["name"], label_of(event["object"], STATE)
        # Tests wait for moves in another thread: all that follows from one is true when they see it.
        if state == "in-maintenance" and event["type"] != "DELETED":
            self.inside.add(name)
        else:
            self.inside.discard(name)
        self.most = max(self.most, len(self.inside))
        moves = self.moves.setdefault(name, [])
        if state and moves[-1:] != [state]:
            moves.append(state)


class Sampling:
    """A watch of the nodes of a selector. If the server ends it, it is resumed, so nothing is missed."""

    def __init__(self, plane: Cluster, selector: str, seen: Sampled | None = None) -> None:
        self.seen = seen or Sampled()
        self._api = plane.api()
        self._selector = selector
        self._over = False
        # The version of each node as it was seen last.
        self._versions: dict[str, int] = {}
        first = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        self._watch = self._open(**first)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def catch_up(self) -> None:
        """Wait until everything that is stored now has been seen, because the watch may be behind."""
        nodes = self._api.items("nodes", labelSelector=self._selector)
        stored = {node["metadata"]["name"]: int(node["metadata"]["resourceVersion"]) for node in nodes}
        eventually(
            lambda: all(self._versions.get(name, 0) >= version for name, version in stored.items()),
            "the watch has brought all that is stored",
        )

    def stop(self) -> None:
        self._over = True
        self._watch.close()
        self._thread.join(10)

    def _open(self, **query: str) -> Watch:
        return eventually(
            lambda: self._api.watch("nodes", silence=300, labelSelector=self._selector, **query),
            "the nodes are watched",
            refused=(ApiError, OSError),
        )

    def _follow(self) -> None:
        version = ""
        while not self._over:
            try:
                for event in self._watch:
                    if is_behind(event):
                        break
                    assert event["type"] != "ERROR", event
                    version = event["object"]["metadata"]["resourceVersion"]
                    self.seen.take(event)
                    if event["type"] != "BOOKMARK":
                        self._versions[event["object"]["metadata"]["name"]] = int(version)
            except (*BROKEN, ValueError, AttributeError):
                # http.client raises any of these when another thread closes its socket.
                if self._over:
                    return
            if not self._over:
                self._watch.close()
                self._watch = self._open(resourceVersion=version, allowWatchBookmarks="true")
                # `stop` was called while this watch was being opened, and could not close it.
                if self._over:
                    self._watch.close()


@contextmanager
def sampled(plane: Cluster, selector: str, seen: Sampled | None = None) -> Iterator[Sampled]:
    sampling = Sampling(plane, selector, seen)
    try:
        yield sampling.seen
        sampling.catch_up()
    finally:
        sampling.stop()
