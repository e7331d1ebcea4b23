"""The part of the process for the packages surface: its metrics, probes and admission webhooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from haulout.app.parts import Part
from haulout.clients.prometheus import Prometheus
from haulout.cluster.store import Store
from haulout.cluster.view import MARK, NotListed, View
from haulout.core.admission import Webhook
from haulout.kube.allowed_addresses import Reach
from haulout.kube.errors import KubeError
from haulout.kube.transport import Transport
from haulout.plugins.checks.prometheus_instant import Sample as Reading
from haulout.runtime.metrics import Sample
from haulout.runtime.probes import Probe, ProbeFailed
from haulout.surfaces.packages.admit import webhooks
from haulout.surfaces.packages.groups import GROUPS
from haulout.surfaces.packages.metrics import samples, with_both_names
from haulout.surfaces.packages.node.failure_log import LARGEST_READ, PROBE, tail
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.skyhook.wave_gates import PROBE as GATE_PROBE
from haulout.surfaces.packages.skyhook.wave_gates import GateQuestion
from haulout.surfaces.packages.surface import PACKAGES
from haulout.surfaces.packages.units.unit import Unit, unit_of
from haulout.surfaces.packages.wire_policy import POLICY_KINDS, PolicyRow

REFUSED_PROMETHEUS = "its address is not one that gates may name (allowedPrometheusRanges would have to allow it)"


class Packages(Part):
    """The packages surface as a part of the process: its metrics, probes and admission webhooks."""

    declaration = PACKAGES

    def samples(self) -> Iterable[Sample]:
        store = self.around.store
        found = (row for kind in POLICY_KINDS for row in store.rows("", kind) if isinstance(row, PolicyRow))
        policies = {row.key.name: row for row in found}
        names = sorted({row.key.name for group in GROUPS for row in store.rows("", group.kind)})
        units = (_unit(store, name) for name in names)
        return with_both_names(
            samples(
                [unit.leader for unit in units if unit is not None],
                (row for row in store.rows("", MARK) if isinstance(row, NodeStanding)),
                policies,
            ),
            has_legacy=self.options.publish_legacy_metrics,
        )

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        async def log_of(question: tuple[str, str, str, int]) -> str:
            namespace, pod, container, _ = question
            path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
            query = {"container": container, "tailLines": "100"}
            try:
                reply = await transport.request("GET", path, query=query, accept="*/*")
            except KubeError as error:
                raise ProbeFailed(f"the log of pod {namespace}/{pod} cannot be read: {error}") from None
            return tail(reply.body.decode(errors="replace"), LARGEST_READ)

        async def value_of(question: GateQuestion) -> Reading:
            # If the home API server has a loopback address, this is a developer's machine, and Prometheus may be on it.
            reach = Reach(
                self.options.allowed_prometheus_ranges,
                loopback=self.around.home_is_local(),
                plain_http=self.options.allow_http_prometheus,
                refusal=REFUSED_PROMETHEUS,
            )
            return await Prometheus(self.around.clock, reach)((question.url, question.query))

        return {PROBE: log_of, GATE_PROBE: value_of}

    def webhooks(self) -> tuple[Webhook, ...]:
        return webhooks()


def _unit(store: Store, name: str) -> Unit | None:
    try:
        return unit_of(View(store), name)
    except NotListed:
        return None
