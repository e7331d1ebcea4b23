"""The nodes as the scheduler sees them: free resources, number of pods, and the spread of each owner's pods."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from haulout.embedded.controllers.node_fit import NOTHING, Room, allocatable, allocatable_of, requests_of
from haulout.embedded.controllers.object_fields import Key, controller_of, labels_of, node_of
from haulout.embedded.interfaces import Json

ZONE = "topology.kubernetes.io/zone"


class Place(Struct):
    """One node as the simulated scheduler sees it. `free` is what its pods have left of its allocatable resources."""

    node: Json
    zone: str
    free: Room


class _Placed(NamedTuple):
    node: str
    room: Room
    owner: str


class Places:
    """All nodes and their pods as the simulated scheduler sees them.

    A pod counts for its node even before the node itself is known.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Place] = {}
        # Counts every change of the nodes and of what is on them.
        self.changes = 0
        # By zone: the nodes' numbers of pods and names, sorted.
        self._zones: dict[str, list[tuple[int, str]]] = {}
        self._placed: dict[Key, _Placed] = {}
        self._counts: dict[str, int] = {}
        self._used: dict[str, Room] = {}
        # By the UID of an owner: how many of its pods each node has.
        self._spread: dict[str, dict[str, int]] = {}

    def put_node(self, name: str, node: Json | None) -> None:
        self.changes += 1
        zone, old = labels_of(node).get(ZONE, "") if node else "", self.nodes.get(name)
        if old and node and old.zone == zone and allocatable_of(old.node) == allocatable_of(node):
            # Taints and other labels change neither the node's place in its zone nor its room.
            old.node = node
            return
        if old:
            del self.nodes[name]
            self._leave(old.zone, name)
        if node:
            self.nodes[name] = Place(node, zone, allocatable(node).minus(self._used.get(name, NOTHING)))
            insort(self._zones.setdefault(zone, []), (self._counts.get(name, 0), name))

    def holds(self, key: Key) -> bool:
        return key in self._placed

    def put_pod(self, key: Key, pod: Json) -> None:
        owner = controller_of(pod)
        held = self._placed[key] = _Placed(node_of(pod), requests_of(pod["spec"]), owner["uid"] if owner else "")
        self._move(held, 1)

    def drop_pod(self, key: Key) -> None:
        self._move(self._placed.pop(key), -1)

    def spread(self, pod: Json) -> Mapping[str, int] | None:
        """Return how many pods of the same owner each node has; None if there are none."""
        owner = controller_of(pod)
        return self._spread.get(owner["uid"]) if owner else None

    def zones(self, spread: Mapping[str, int] | None) -> list[str]:
        """Return the zones: fewest pods of the owner first, then those with the emptiest node, then by name."""
        if len(self._zones) <= 1:
            return list(self._zones)
        held, nodes = dict.fromkeys(self._zones, 0), self.nodes
        for name, count in spread.items() if spread else ():
            if place := nodes.get(name):
                held[place.zone] += count
        return sorted(self._zones, key=lambda zone: (held[zone], self._zones[zone][0][0], zone))

    def in_zone(self, zone: str) -> Iterator[str]:
        """Return the nodes of a zone: fewest pods first, then by name."""
        return (name for _, name in self._zones[zone])

    def _leave(self, zone: str, name: str) -> None:
        row = self._zones[zone]
        del row[bisect_left(row, (self._counts.get(name, 0), name))]
        if not row:
            del self._zones[zone]

    def _move(self, held: _Placed, by: int) -> None:
        self.changes += 1
        name = held.node
        place = self.nodes.get(name)
        if place:
            self._leave(place.zone, name)
        count = self._counts[name] = self._counts.get(name, 0) + by
        used = self._used.get(name, NOTHING)
        self._used[name] = used.plus(held.room) if by > 0 else used.minus(held.room)
        if place:
            place.free = place.free.minus(held.room) if by > 0 else place.free.plus(held.room)
            insort(self._zones.setdefault(place.zone, []), (count, name))
        if held.owner:
            spread = self._spread.setdefault(held.owner, {})
            if count := spread.get(name, 0) + by:
                spread[name] = count
            else:
                del spread[name]
                if not spread:
                    del self._spread[held.owner]
