"""The part of the process for the clusterapi surface: its metrics and connections to workload clusters."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from haulout.app.parts import Part, Surroundings
from haulout.cluster.key import node_key
from haulout.cluster.project import RESOURCES
from haulout.cluster.store import Listing
from haulout.kube.allowed_addresses import Reach
from haulout.kube.config import Opened, from_secret
from haulout.kube.errors import KubeError, NotFound
from haulout.kube.transport import Transport
from haulout.runtime.metrics import Sample
from haulout.runtime.probes import Probe, ProbeFailed
from haulout.surfaces.clusterapi.decide import APPROVAL_SECONDS, GONE, NODE_PROBE, THERE
from haulout.surfaces.clusterapi.metrics import samples
from haulout.surfaces.clusterapi.surface import CLUSTERAPI
from haulout.surfaces.clusterapi.wire import MACHINE, Access, workload_of

RECONNECTS = "maintenance_capi_reconnects_total"
LOOK_WITHIN = 8.0


class ClusterApis(Part):
    """The clusterapi surface as a part of the process: its metrics and its access to workload clusters."""

    declaration = CLUSTERAPI

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        for flow in ("deletion", "maintenance"):
            around.metrics.begin(APPROVAL_SECONDS, flow=flow)

    def samples(self) -> Iterable[Sample]:
        return samples(self.around.store)

    def connect(self, access: Hashable) -> Opened | None:
        if not isinstance(access, Access):
            return None
        # If the home API server has a loopback address, this is a developer's machine, and the API servers of workload
        # clusters may have loopback addresses, too. In a cluster such an address would lead to our own pod.
        reach = Reach(access.server_ranges, loopback=self.around.home_is_local(), plain_http=access.allow_http)
        return from_secret(access.kubeconfig, source=access.source, reach=reach, may_run=access.allow_exec)

    def on_reconnect(self, cluster: str, reason: str) -> None:
        workload = workload_of(cluster)
        self.around.metrics.count(RECONNECTS, namespace=workload.namespace, cluster=workload.name, reason=reason)

    def forget_cluster(self, cluster: str) -> None:
        workload = workload_of(cluster)
        self.around.metrics.forget(RECONNECTS, namespace=workload.namespace, cluster=workload.name)

    def lacks(self) -> str:
        table = self.around.store.table("", MACHINE)
        if table.listing is Listing.LISTED:
            return ""
        why = f": {table.why}" if table.why else ""
        is_absent = bool(why) and table.listing is Listing.WAITING
        advice = " (install Cluster API, or take clusterapi out of the surfaces)" if is_absent else ""
        return f"the Machines have not been listed yet{why}{advice}"

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        return {NODE_PROBE: self._look_for_node}

    async def _look_for_node(self, argument: tuple[str, str]) -> str:
        """Ask the API server whether a Node is gone. A Node that is missing from the watch may only be late."""
        cluster, name = argument
        transport = self.around.transport(cluster)
        if transport is None:
            raise ProbeFailed(f"workload cluster {cluster} is not connected")
        try:
            path = RESOURCES["Node"].object_path(node_key(name, cluster))
            await transport.request("GET", path, timeout=LOOK_WITHIN)
        except KubeError as error:
            if isinstance(error, NotFound) and error.of_object:
                return GONE
            raise ProbeFailed(str(error)) from None
        return THERE
