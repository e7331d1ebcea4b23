"""The simulated kubelets, one per node: they register nodes, send heartbeats, fail on demand and reboot."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from haulout.embedded.controllers.behaviour import KubeletOptions, is_managed
from haulout.embedded.controllers.containers import Containers
from haulout.embedded.controllers.generated_names import Names
from haulout.embedded.controllers.object_fields import Key, condition, micro_timestamp, timestamp, with_conditions
from haulout.embedded.controllers.tables import Pods, Table
from haulout.embedded.interfaces import Json, Objects, Timers
from haulout.embedded.resources import LEASES, NODES
from haulout.kube.errors import Conflict, NotFound

LEASE_NAMESPACE = "kube-node-lease"
_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_READY = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
_SHUTTING_DOWN = ("Ready", "False", "KubeletNotReady", "node is shutting down")
_LEASE_SECONDS = 40


class Hearing(Protocol):
    """The listener that is called when a node stops reporting or reports again, in a world without heartbeats."""

    def silent(self, name: str) -> None: ...

    def heard(self, name: str) -> None: ...


class _Host:
    __slots__ = ("boots", "cancels", "up", "version")

    def __init__(self, version: str) -> None:
        self.up = True
        self.boots = 0
        self.version = version
        self.cancels: dict[str, Callable[[], None]] = {}


class Kubelets:
    """The simulated kubelets of all nodes: they report nodes as Ready and run their pods.

    Nodes with the annotation `simulate.haulout.dev/unmanaged` are left alone.
    """

    def __init__(
        self,
        objects: Objects,
        timers: Timers,
        names: Names,
        pods: Pods,
        nodes: Table,
        options: KubeletOptions,
        *,
        heartbeats: bool = True,
        hearing: Hearing | None = None,
        brief: bool = False,
    ) -> None:
        self._objects = objects
        self._timers = timers
        self._names = names
        self._nodes = nodes
        self._options = options
        self._heartbeats = heartbeats
        self._hearing = hearing
        self._hosts: dict[str, _Host] = {}
        nodes.listen(self._on_node)
        self.containers = Containers(objects, timers, pods, options, self.is_up, reboot=self.reboot, brief=brief)

    def is_up(self, name: str) -> bool:
        host = self._hosts.get(name)
        return host is not None and host.up

    def kill(self, name: str) -> None:
        """Stop the kubelet of a node without notice. Its containers keep running, but are no longer reported."""
        host = self._hosts[name]
        self._silence(name, host)
        self.containers.node_down(name, announced=False)

    def revive(self, name: str) -> None:
        """Start a killed kubelet again."""
        self._come_back(name, rebooted=False)

    def reboot(
        self, name: str, down_for: timedelta, *, announced: bool = True, kubelet_version: str | None = None
    ) -> None:
        """Shut a host down now and boot it after `down_for`, with a new boot ID and new containers.

        If the reboot is `announced`, the node reports NotReady before it goes down; otherwise it falls silent.
        """
        host = self._hosts[name]
        if announced:
            self._post(name, host, _SHUTTING_DOWN)
        self._silence(name, host)
        self.containers.node_down(name, announced=announced)
        host.version = kubelet_version or host.version
        wait = down_for + self._options.boot_ready_after
        host.cancels["boot"] = self._timers.at(self._timers.now() + wait, lambda: self._come_back(name, rebooted=True))

    def _silence(self, name: str, host: _Host) -> None:
        self._cancel(host)
        host.up = False
        if self._hearing:
            self._hearing.silent(name)

    def _come_back(self, name: str, *, rebooted: bool) -> None:
        host = self._hosts.get(name)
        if host is None:
            return
        self._cancel(host)
        host.up = True
        host.boots += rebooted
        if self._hearing:
            self._hearing.heard(name)
        self._post(name, host, _READY)
        self.containers.node_up(name, rebooted=rebooted)
        self._beat(name, host)

    def _on_node(self, key: Key, old: Json | None, new: Json | None) -> None:
        name = key[1]
        if new is None:
            if host := self._hosts.pop(name, None):
                self._cancel(host)
            return
        if name in self._hosts or not is_managed(new):
            return
        host = self._hosts[name] = _Host(self._options.kubelet_version)
        known = condition(new, "Ready") is not None
        wait = timedelta() if known else self._options.node_ready_after
        if not known or self._heartbeats:
            host.cancels["start"] = self._timers.at(
                self._timers.now() + wait, lambda: self._register(name, known=known)
            )

    def _register(self, name: str, *, known: bool) -> None:
        host = self._hosts.get(name)
        if host and host.up:
            if not known:
                self._post(name, host, _READY)
            self._beat(name, host)

    def _beat(self, name: str, host: _Host) -> None:
        if not self._heartbeats:
            return
        self._renew(name, host)
        self._plan(host, "status", self._options.status_every, lambda: self._report(name, host))

    def _renew(self, name: str, host: _Host) -> None:
        renewed = {"holderIdentity": name, "renewTime": micro_timestamp(self._timers.now())}
        body = {"spec": {**renewed, "leaseDurationSeconds": _LEASE_SECONDS}}
        try:
            self._objects.patch(LEASES, LEASE_NAMESPACE, name, {"spec": renewed})
        except NotFound:
            self._create_lease(name, body)
        self._plan(host, "lease", self._options.lease_every, lambda: self._renew(name, host))

    def _create_lease(self, name: str, body: Json) -> None:
        node = self._nodes.get(("", name))
        metadata: Json = {"namespace": LEASE_NAMESPACE, "name": name}
        if node:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
            metadata["ownerReferences"] = [owner]
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, **body}
        try:
            self._objects.create(LEASES, lease)
        except (Conflict, NotFound):
            return

    def _report(self, name: str, host: _Host) -> None:
        self._post(name, host, _READY)
        self._plan(host, "status", self._options.status_every, lambda: self._report(name, host))

    def _post(self, name: str, host: _Host, ready: tuple[str, str, str, str]) -> None:
        node = self._objects.get(NODES, "", name)
        if node is None:
            return
        now, old = self._timers.now(), node.get("status") or {}
        at = timestamp(now)
        reported: list[Json] = [
            {"type": kind, "status": status, "lastHeartbeatTime": at, "reason": reason, "message": message}
            for kind, status, reason, message in (*_HEALTHY, ready)
        ]
        # The patch has only what differs, so that the server need not check again what it has stored.
        changes: Json = {"conditions": with_conditions(old.get("conditions") or (), reported, now)}
        room = old.get("capacity") or dict(self._options.capacity)
        if not old.get("capacity"):
            changes["capacity"] = room
        if not old.get("allocatable"):
            changes["allocatable"] = room
        before = old.get("nodeInfo") or {}
        info = self._info(name, host, before)
        if info != before:
            changes["nodeInfo"] = {key: value for key, value in info.items() if before.get(key) != value}
        if not old.get("addresses"):
            changes["addresses"] = [{"type": "Hostname", "address": name}]
        self._nodes.put(self._objects.patch(NODES, "", name, {"status": changes}, subresource="status"))

    def _info(self, name: str, host: _Host, old: Json) -> Json:
        """Return the nodeInfo of a node. A boot ID that it already has stays until its first simulated reboot."""
        boot = old.get("bootID") if not host.boots else None
        version = old.get("kubeletVersion") if host.version == self._options.kubelet_version else None
        return {
            "machineID": old.get("machineID") or self._names.uuid("machine", name).replace("-", ""),
            "systemUUID": old.get("systemUUID") or self._names.uuid("system", name),
            "kernelVersion": "6.12.0-simulated",
            "osImage": "Simulated Linux",
            "containerRuntimeVersion": "containerd://2.1.0",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
            **{key: value for key, value in old.items() if value},
            "bootID": boot or self._names.uuid("boot", name, str(host.boots)),
            "kubeletVersion": version or host.version,
        }

    def _plan(self, host: _Host, what: str, wait: timedelta, act: Callable[[], None]) -> None:
        host.cancels[what] = self._timers.at(self._timers.now() + wait, act)

    def _cancel(self, host: _Host) -> None:
        for cancel in host.cancels.values():
            cancel()
        host.cancels.clear()
