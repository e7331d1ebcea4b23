"""The simulated node lifecycle controller: nodes without heartbeats, and the taints of conditions and of a cordon."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct

from haulout.embedded.controllers.node_fit import NO_EXECUTE
from haulout.embedded.controllers.nodetaints import NOT_READY, UNREACHABLE, of_readiness, swept
from haulout.embedded.controllers.object_fields import (
    Key,
    condition,
    is_ready,
    key_of,
    labels_of,
    timestamp,
    with_condition,
    with_conditions,
)
from haulout.embedded.controllers.tables import Pods, Table
from haulout.embedded.controllers.work_queue import WorkQueue
from haulout.embedded.interfaces import Json, Objects, Timers
from haulout.embedded.resources import NODES, PODS

_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class LifecycleOptions(Struct, frozen=True, kw_only=True):
    """The times after which a silent node counts as not ready.

    The defaults are those of kube-controller-manager 1.36.
    """

    silent_after: timedelta = timedelta(seconds=50)
    starting_for: timedelta = timedelta(seconds=60)
    # One node of a zone is tainted NoExecute in each such span; in an unhealthy zone the longer span counts.
    eviction_every: timedelta = timedelta(seconds=10)
    slow_eviction_every: timedelta = timedelta(seconds=100)
    large_zone: int = 50
    trouble_from: float = 0.55


class _Zone:
    def __init__(self) -> None:
        self.nodes: set[str] = set()
        self.unready: set[str] = set()
        self.waiting: dict[str, None] = {}
        self.next_at: datetime | None = None
        self.planned = False


class NodeLifecycle:
    """The simulated node lifecycle controller: it marks and taints nodes that no longer send heartbeats.

    A heartbeat is a renewed condition or lease. Without leases, a node is silent from `silent` until `heard`.
    `brief`: taints of one instant are one write, see `ActorOptions`.
    """

    def __init__(
        self,
        objects: Objects,
        timers: Timers,
        pods: Pods,
        nodes: Table,
        leases: Table | None,
        options: LifecycleOptions,
        *,
        brief: bool = False,
    ) -> None:
        self._objects = objects
        self._brief = brief
        self._timers = timers
        self._pods = pods
        self._nodes = nodes
        self._options = options
        self._heartbeats = leases is not None
        self._heard_at: dict[str, datetime] = {}
        self._checks: dict[str, Callable[[], None]] = {}
        # By region and zone.
        self._zones: dict[tuple[str, str], _Zone] = {}
        self._zone_of: dict[str, _Zone] = {}
        # Whether the node that `_on_node` gets was written by `_sync`.
        self._is_own_write = False
        self._work: WorkQueue[str] = WorkQueue(timers, self._sync)
        nodes.listen(self._on_node)
        if leases:
            leases.listen(self._on_lease)

    def heard(self, name: str) -> None:
        """Note a sign of life of a node, which ends an earlier `silent`."""
        if self._heartbeats:
            self._hear(name)
        else:
            self._heard_at.pop(name, None)
            if cancel := self._checks.pop(name, None):
                cancel()

    def silent(self, name: str) -> None:
        """Note that a node falls silent now. With heartbeats this does nothing, since missing ones show it."""
        if not self._heartbeats:
            self._hear(name)

    def _hear(self, name: str) -> None:
        self._heard_at[name] = self._timers.now()
        if name not in self._checks and (node := self._nodes.get(("", name))):
            self._plan_check(name, node)

    def _plan_check(self, name: str, node: Json) -> None:
        """Plan the next check of a node.

        The node's one timer moves on when it fires, which is cheaper than to move it with each heartbeat.
        """
        patience = self._options.silent_after if condition(node, "Ready") else self._options.starting_for
        self._checks[name] = self._timers.at(self._heard_at[name] + patience, lambda: self._check(name))

    def _check(self, name: str) -> None:
        self._checks.pop(name, None)
        node = self._nodes.get(("", name))
        if node is None or name not in self._heard_at:
            return
        patience = self._options.silent_after if condition(node, "Ready") else self._options.starting_for
        if self._timers.now() < self._heard_at[name] + patience:
            self._plan_check(name, node)
        else:
            # The next heartbeat starts the observation of the node again.
            del self._heard_at[name]
            self._mark_unknown(name)

    def _on_lease(self, key: Key, old: Json | None, new: Json | None) -> None:
        if new and key[0] == "kube-node-lease" and (not old or old.get("spec") != new.get("spec")):
            self._hear(key[1])

    def _on_node(self, key: Key, old: Json | None, new: Json | None) -> None:
        name = key[1]
        if new is None:
            self._rezone(name, None)
            self._heard_at.pop(name, None)
            if cancel := self._checks.pop(name, None):
                cancel()
            return
        if self._heartbeats and (old is None or _heartbeat(old) != _heartbeat(new)):
            self._hear(name)
        if old is None or old.get("status") is not new.get("status") or labels_of(old) != labels_of(new):
            self._rezone(name, new)
        if old is None or not _decide_alike(old, new):
            # A sync after the write of a sync would find the taints as they should be.
            if not self._is_own_write:
                self._work.add(name)
            for zone in self._zones.values():
                if zone.waiting:
                    self._plan(zone)

    def _rezone(self, name: str, node: Json | None) -> None:
        zone = self._zone(labels_of(node)) if node else None
        before = self._zone_of.pop(name, None)
        if before and before is not zone:
            before.nodes.discard(name)
            before.unready.discard(name)
            before.waiting.pop(name, None)
        if node and zone:
            self._zone_of[name] = zone
            zone.nodes.add(name)
            (zone.unready.discard if is_ready(node) else zone.unready.add)(name)

    def _zone(self, labels: dict[str, str]) -> _Zone:
        place = labels.get("topology.kubernetes.io/region", ""), labels.get("topology.kubernetes.io/zone", "")
        zone = self._zones.get(place)
        if zone is None:
            zone = self._zones[place] = _Zone()
        return zone

    def _mark_unknown(self, name: str) -> None:
        node = self._objects.get(NODES, "", name)
        if node is None:
            return
        now, was_ready = self._timers.now(), is_ready(node)
        if unknown := [new for kind in _REPORTED if (new := _unknown(node, kind))]:
            conditions = (node.get("status") or {}).get("conditions") or ()
            body = {"status": {"conditions": with_conditions(conditions, unknown, now)}}
            self._nodes.put(self._objects.patch(NODES, "", name, body, subresource="status"))
        if was_ready:
            self._mark_pods(name, now)

    def _mark_pods(self, name: str, now: datetime) -> None:
        for pod in self._pods.on_node(name):
            found = condition(pod, "Ready")
            if found and found["status"] == "True":
                conditions = with_condition(pod["status"]["conditions"], {**found, "status": "False"}, now)
                body = {"status": {"conditions": conditions}}
                self._pods.put(self._objects.patch(PODS, *key_of(pod), body, subresource="status"))

    def _sync(self, name: str) -> None:
        node = self._objects.get(NODES, "", name)
        if node is None:
            return
        taints: list[Json] = (node.get("spec") or {}).get("taints") or []
        wanted = self._executed(name, node, swept(node, timestamp(self._timers.now())))
        if taints != wanted:
            written = self._patch_taints(name, wanted)
            self._is_own_write = True
            try:
                self._nodes.put(written)
            finally:
                self._is_own_write = False

    def _executed(self, name: str, node: Json, taints: list[Json]) -> list[Json]:
        """Return the taints with NoExecute ones swapped or removed. New NoExecute taints wait in the zone's queue."""
        ready = condition(node, "Ready")
        present = {one["key"] for one in taints if one["effect"] == NO_EXECUTE} & {NOT_READY, UNREACHABLE}
        wanted = of_readiness(node)
        zone = self._zone_of.get(name)
        if wanted and not present and zone:
            if self._brief and self._takes_next(zone):
                return [*taints, self._no_execute(wanted)]
            zone.waiting[name] = None
            self._plan(zone)
        elif zone and not wanted:
            zone.waiting.pop(name, None)
        if not present or (ready is None) or present == {wanted}:
            return taints
        others = [one for one in taints if one["effect"] != NO_EXECUTE or one["key"] not in present]
        return [*others, self._no_execute(wanted)] if wanted else others

    def _no_execute(self, key: str) -> Json:
        return {"key": key, "effect": NO_EXECUTE, "timeAdded": timestamp(self._timers.now())}

    def _patch_taints(self, name: str, taints: list[Json]) -> Json:
        """Write the taints of a node. Return the node as it is stored."""
        return self._objects.patch(NODES, "", name, {"spec": {"taints": taints or None}})

    def _plan(self, zone: _Zone) -> None:
        if not zone.planned:
            zone.planned = True
            now = self._timers.now()
            self._timers.at(max(zone.next_at or now, now), lambda: self._taint_next(zone))

    def _takes_next(self, zone: _Zone) -> bool:
        """Take the next place in the queue of a zone, if it is free at this instant. Return whether it was."""
        now, span = self._timers.now(), self._span(zone)
        if zone.waiting or span is None or (zone.next_at or now) > now:
            return False
        zone.next_at = now + span
        return True

    def _taint_next(self, zone: _Zone) -> None:
        zone.planned = False
        span = self._span(zone)
        if not zone.waiting:
            return
        if span is None:
            # Evictions stop until the state of some node changes.
            return
        name = next(iter(zone.waiting))
        del zone.waiting[name]
        zone.next_at = self._timers.now() + span
        node = self._objects.get(NODES, "", name)
        wanted = of_readiness(node)
        if node and wanted:
            taints = (node.get("spec") or {}).get("taints") or ()
            self._nodes.put(self._patch_taints(name, [*taints, self._no_execute(wanted)]))
        if zone.waiting:
            self._plan(zone)

    def _span(self, zone: _Zone) -> timedelta | None:
        """Return the time between two NoExecute taints in a zone; None while no node there may be tainted."""
        if all(len(one.unready) == len(one.nodes) for one in self._zones.values() if one.nodes):
            return None
        unready, size = len(zone.unready), len(zone.nodes)
        if unready < size and unready > 2 and unready / size >= self._options.trouble_from:
            return self._options.slow_eviction_every if size > self._options.large_zone else None
        return self._options.eviction_every


def _decide_alike(old: Json, new: Json) -> bool:
    """Whether two states of a node are equal in all that its taints depend on."""
    was, spec = old.get("spec") or {}, new.get("spec") or {}
    if was.get("taints") != spec.get("taints") or was.get("unschedulable") != spec.get("unschedulable"):
        return False
    return old.get("status") is new.get("status") or _statuses(old) == _statuses(new)


def _statuses(node: Json) -> list[tuple[str, str]]:
    return [(one["type"], one["status"]) for one in (node.get("status") or {}).get("conditions") or ()]


def _heartbeat(node: Json) -> str | None:
    ready = condition(node, "Ready")
    return ready.get("lastHeartbeatTime") if ready else None


def _unknown(node: Json, kind: str) -> Json | None:
    """Return the condition of a node that has stopped reporting; None if it is already Unknown."""
    found = condition(node, kind)
    if found is None:
        return {
            "type": kind,
            "status": "Unknown",
            "lastHeartbeatTime": node["metadata"]["creationTimestamp"],
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
        }
    if found["status"] == "Unknown":
        return None
    message = "Kubelet stopped posting node status."
    return {**found, "status": "Unknown", "reason": "NodeStatusUnknown", "message": message}
