"""All that takes nodes out of service: the world of four surfaces, and nodes of ESX, Kubernikus and a NodeMaintenanceSet."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import FACT, FactDemand
from haulout.core.action import Send
from haulout.core.declaration import Enabled
from haulout.embedded import NODES, Json
from haulout.surfaces.esx.options import Options as HostOptions
from haulout.surfaces.esx.surface import ESX
from haulout.surfaces.esx.vcenter import HOST_PROBE, HostState, StartVirtualMachine, StopVirtualMachine
from haulout.surfaces.esx.wire import HOST_LABEL, INITIATED_ANNOTATION, OK_LABEL, ZONE_LABEL
from haulout.surfaces.kubernikus.options import Options as ServerOptions
from haulout.surfaces.kubernikus.surface import KUBERNIKUS
from haulout.surfaces.kubernikus.wire import DELETE_LABEL, VERSION_PROBE, ServerDeletion
from haulout.surfaces.nodemaintenance.sets.wire import API_VERSION
from haulout.surfaces.nodemaintenance.sets.wire import KIND as SET
from tests.build.all_surfaces import AllSurfaces
from tests.build.maintenance_sets import SETS

PACE, VERSION = timedelta(seconds=20), "v1.36.3"
HOSTS = HostOptions(
    PACE, 0.0, force=False, poll_for=timedelta(seconds=2), give_up_for=timedelta(minutes=3), alone=False
)
SERVERS = ServerOptions(PACE, alone=False)
UP, DOWN = HostState("8.0.2"), HostState("8.0.2", in_maintenance=True)


class EveryOwner(AllSurfaces):
    """Nodes that four surfaces want (`names`), and three more.

    `guest` runs on an ESX host that is in maintenance until the virtual machine is stopped. The server of `server` is
    deleted by Kubernikus. A NodeMaintenanceSet takes `rolled` into maintenance.
    """

    def __init__(self, count: int = 3, *, records: bool = False) -> None:
        self.host, self.stops = DOWN, 0
        super().__init__(count + 3, records=records)
        self.guest, self.server, self.rolled = self.names[count:]
        self.names = self.names[:count]
        self.on_send = self.obey
        self.enabled = (*self.enabled, Enabled(ESX, HOSTS), Enabled(KUBERNIKUS, SERVERS))
        for name in self.every:
            info = {"status": {"nodeInfo": {"kubeletVersion": VERSION}}}
            self.world.objects.patch(NODES, "", name, info, subresource="status")
        self.change(self.guest, {HOST_LABEL: "esx-1", ZONE_LABEL: "eu-nl-2a"})
        self.begin()

    def begin(self, late: str = "") -> None:
        super().begin(late)
        version = FactDemand(VERSION_PROBE, "", PACE).key
        self.kernel.store.write(Value(key=version, value=VERSION, state="fresh"))
        self._report_host()

    def _report_host(self) -> None:
        key = Key("", FACT, HOST_PROBE, repr(("esx-1", "a")))
        self.kernel.store.write(Value(key=key, value=self.host, state="fresh"))

    def change(self, node: str, labels: dict[str, str | None]) -> None:
        if self.world.objects.get(NODES, "", node) is not None:
            self.world.change(NODES, node, {"metadata": {"labels": labels}})

    @property
    def every(self) -> list[str]:
        return [*self.names, self.guest, self.server, self.rolled]

    def stop_guest(self) -> None:
        self.change(self.guest, {OK_LABEL: "true"})

    def delete_server(self) -> None:
        self.change(self.server, {DELETE_LABEL: "true"})

    def roll_set(self) -> None:
        spec = {"nodes": [self.rolled], "maxConcurrent": 1}
        body = {"apiVersion": API_VERSION, "kind": SET, "metadata": {"name": "set"}, "spec": spec}
        self.world.objects.create(SETS, body)

    def obey(self, send: Send) -> None:
        """Carry out a message as vCenter and the cloud do. The maintenance of the host ends once it has no guest."""
        match send.payload:
            case StopVirtualMachine():
                self.stops += 1
                self._after(2, self._finish_host)
            case StartVirtualMachine():
                self.change(self.guest, {OK_LABEL: None})
            case ServerDeletion():
                self._after(2, self._remove_server)

    def _after(self, seconds: float, act: Any) -> None:
        self.world.time.at(self.world.time.now() + timedelta(seconds=seconds), act)

    def _finish_host(self) -> None:
        self.host = UP
        self._report_host()

    def _remove_server(self) -> None:
        if self.world.objects.get(NODES, "", self.server) is not None:
            self.world.objects.delete(NODES, "", self.server)

    def unfinished(self, **more: Any) -> dict[str, Any]:
        guest, found = self.node(self.guest), super().unfinished(**more)
        is_out = self.host == DOWN or INITIATED_ANNOTATION in guest["metadata"].get("annotations", {})
        rolled: Json = self.world.objects.get(SETS, "", "set") or {}
        return {
            **found,
            "esx": [self.guest] if is_out else [],
            "kubernikus": [self.server] if self.world.objects.get(NODES, "", self.server) is not None else [],
            "sets": [] if rolled.get("status", {}).get("phase") == "Completed" else [rolled],
        }
