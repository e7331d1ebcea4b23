"""The part of the process for the nodemaintenance surface: the namespace of its Leases, its metrics and webhook."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from haulout.app.parts import Part, Surroundings
from haulout.core.admission import Webhook
from haulout.core.declaration import Context
from haulout.core.drain import requests
from haulout.kube.discovery import OPENSHIFT, served_groups
from haulout.kube.errors import Conflict, NotFound
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.runtime.metrics import Sample
from haulout.surfaces.nodemaintenance.admit import Quorum, webhook
from haulout.surfaces.nodemaintenance.metrics import samples
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.settings import EVICTION
from haulout.surfaces.nodemaintenance.situation import SURFACE
from haulout.surfaces.nodemaintenance.surface import CONFIG_KEY, NODEMAINTENANCE
from haulout.surfaces.nodemaintenance.wire import KIND, MaintenanceRow

log = logging.getLogger("haulout.nodemaintenance")


class NodeMaintenances(Part):
    """The nodemaintenance surface as a part of the process: its metrics and its admission webhook."""

    declaration = NODEMAINTENANCE

    def __init__(self, around: Surroundings) -> None:
        self._openshift = False
        self._knows_requests = True
        super().__init__(around)

    def complete(self, options: Options, context: Context) -> Options:
        backend = options.eviction_backend if self._knows_requests else EVICTION
        return msgspec.structs.replace(options, eviction_backend=backend)

    def samples(self) -> Iterable[Sample]:
        rows = self.around.store.rows("", KIND)
        yield from samples(row for row in rows if isinstance(row, MaintenanceRow))
        yield "nodemaintenance_lease_errors_total", (), 0.0
        for labels, value in self.around.metrics.series("haulout_evictions_total").items():
            if ("surface", SURFACE) in labels:
                yield "nodemaintenance_evictions_total", tuple(each for each in labels if each[0] == "result"), value

    async def introduce(self, transport: Transport) -> None:
        groups = await served_groups(transport)
        self._openshift = OPENSHIFT in groups
        self._knows_requests = requests.API_VERSION in groups
        if self.options.by_request and not self._knows_requests:
            log.warning("pods are evicted directly: the API server does not serve EvictionRequests")
            self.renew_options()

    def webhooks(self) -> tuple[Webhook, ...]:
        quorum = Quorum.MEMBERS if self.options.quorum_on_kubernetes else Quorum.NONE
        return (webhook(Quorum.OPENSHIFT if self._openshift else quorum),)

    async def prepare(self, writer: Writer) -> None:
        """Create the namespace of the Leases unless it exists. Raises KubeError where it may not be read or created."""
        name = self.options.lease_namespace
        try:
            await writer.get(f"/api/v1/namespaces/{name}", key=CONFIG_KEY)
        except NotFound:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            try:
                await writer.create("/api/v1/namespaces", body, key=CONFIG_KEY)
            except Conflict as error:
                if not error.exists:
                    raise
