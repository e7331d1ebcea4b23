"""Counters and gauges, rendered in Prometheus' text format.

Names are the surfaces' contracts, so that they stand exactly as given: no suffix is added to them.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client import PROCESS_COLLECTOR, CollectorRegistry, generate_latest
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]

# Of controller-runtime's reconcile times, which dashboards know.
BUCKETS: tuple[float, ...] = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0),
    *(15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)

# Of what takes people's time.
LONG_BUCKETS: tuple[float, ...] = (
    *(1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0),
    *(4 * 3600.0, 12 * 3600.0, 24 * 3600.0, 72 * 3600.0, 168 * 3600.0),
)
# Of controller-runtime's queues.
QUEUE_BUCKETS: tuple[float, ...] = tuple(10.0**power for power in range(-8, 4))
BUCKETS_OF: Mapping[str, tuple[float, ...]] = {
    "maintenance_capi_approval_seconds": LONG_BUCKETS,
    "nodemaintenance_drain_duration_seconds": LONG_BUCKETS,
    "workqueue_queue_duration_seconds": QUEUE_BUCKETS,
    "workqueue_work_duration_seconds": QUEUE_BUCKETS,
}

# Of those that are worked out when asked for, the ones that only ever grow.
COUNTERS = frozenset(
    {
        "haulout_events_dropped",
        "maintenance_controller_pod_shuffle_count",
        "maintenance_controller_pod_shuffles_per_replica",
        "nodemaintenance_evictions_total",
        "nodemaintenance_lease_errors_total",
        "process_cpu_seconds_total",
    }
)

HELP = {
    "maintenance_controller_pod_shuffle_count": "Pods on nodes that entered maintenance, by owner and profile.",
    "maintenance_controller_pod_shuffles_per_replica": "The same, each as its share of the owner's replicas.",
    "certwatcher_read_certificate_errors_total": "Mounted certificates that could not be used.",
    "certwatcher_read_certificate_total": "How often mounted certificates were read.",
    "controller_runtime_webhook_latency_seconds": "How long reviews took to answer.",
    "controller_runtime_webhook_requests_in_flight": "Reviews that are being answered.",
    "controller_runtime_webhook_requests_total": "Reviews by the code of the answer.",
    "controller_runtime_reconcile_errors_total": "Decisions of a controller that failed.",
    "controller_runtime_reconcile_time_seconds": "How long a controller's decisions took.",
    "controller_runtime_reconcile_total": "Decisions of a controller by result.",
    "haulout_events_dropped": "Events that were not told because more were waiting than can be kept.",
    "haulout_evictions": "Evictions by surface and result.",
    "nodemaintenance_drain_duration_seconds": "How long maintenances took from their lease to the last pod.",
    "nodemaintenance_drain_progress_ratio": "How much of a maintenance's drain is done.",
    "nodemaintenance_evictions_total": "Evictions for maintenances by result.",
    "nodemaintenance_info": "1 for each maintenance, with its node and phase.",
    "nodemaintenance_lease_errors_total": "Node leases that could not be had or kept.",
    "nodemaintenance_pending_pods": "Pods that a maintenance still waits for.",
    "process_cpu_seconds_total": "Seconds of processor time that this process has used.",
    "process_max_fds": "How many files this process may have open.",
    "process_open_fds": "How many files this process has open.",
    "process_resident_memory_bytes": "Memory that this process occupies.",
    "process_start_time_seconds": "When this process was started, in seconds since 1970.",
    "process_virtual_memory_bytes": "Addresses that this process has reserved.",
    "workqueue_adds_total": "Objects that have been put into a controller's queue.",
    "workqueue_depth": "Objects that wait for a controller's decision.",
    "workqueue_longest_running_processor_seconds": "How long the longest decision under way has taken.",
    "workqueue_queue_duration_seconds": "How long objects waited for a controller's decision.",
    "workqueue_retries_total": "Objects that have been put back into a controller's queue after an error.",
    "workqueue_unfinished_work_seconds": "How long the decisions under way have taken together.",
    "workqueue_work_duration_seconds": "How long what was taken from a controller's queue took.",
    "haulout_askings": "How often a decision was asked.",
    "haulout_decision_failures": "Decisions that failed instead of answering.",
    "haulout_leader": "Whether this process leads.",
    "leader_election_master_status": "Whether this process holds the lease of this name.",
    "haulout_loop_stall_seconds": "The longest that the loop kept I/O waiting.",
    "haulout_node_budget_allowed": "How many nodes a NodeDisruptionBudget lets be unavailable.",
    "haulout_node_budget_invalid_total": "NodeDisruptionBudgets that could not be read, once a generation.",
    "haulout_node_budget_used": "Nodes that a NodeDisruptionBudget counts as unavailable.",
    "haulout_node_budget_waiting": "Holds that wait for a NodeDisruptionBudget.",
    "haulout_requests": "Requests to API servers by verb, kind and outcome.",
    "haulout_restless_keys": "Keys slowed down because they keep writing what nobody else touches.",
    "haulout_refusals": "Writes that an API server refused, by surface and code.",
    "haulout_oversized_objects": "Objects that were too large to be read whole, each time they were seen.",
    "haulout_undecodable_objects": "Objects that could not be read, each time they were seen.",
    "haulout_watch_troubles": "Interruptions of watches by kind and cause.",
    "rest_client_requests_total": "Requests to API servers by host, method and code of the answer.",
    "maintenance_capi_approval_seconds": "How long Machines waited for their Nodes' approval.",
    "maintenance_capi_cluster_connected": "Whether the Nodes of a workload cluster are being watched.",
    "maintenance_capi_machines": "Enabled Machines by what they wait for.",
    "maintenance_capi_reconnects_total": "How often a workload cluster was connected again, by reason.",
    "maintenance_controller_config_valid": "Whether the configuration in maintenance.yaml is valid.",
    "maintenance_controller_profile_state": "1 for the state that a profile of a node is in.",
    "maintenance_controller_profile_state_seconds": "Seconds since a profile of a node entered its state.",
    "maintenance_controller_transition_failure_count": "Failures of profiles to enter or leave a state.",
}


def process_samples() -> Iterable[Sample]:
    """What this process takes of its machine. Reads files: not on the event loop."""
    for metric in PROCESS_COLLECTOR.collect():
        for sample in metric.samples:
            yield sample.name, (), sample.value


def _buckets(name: str) -> tuple[float, ...]:
    return BUCKETS_OF.get(name, BUCKETS)


class Snapshot(Collector):
    """What was counted up to one moment; putting it into text takes long, and can be done anywhere."""

    def __init__(
        self,
        families: Iterable[tuple[str, str, dict[Labels, float]]],
        histograms: Mapping[str, Mapping[Labels, Sequence[float]]],
        sourced: Iterable[Sample],
    ) -> None:
        self._families = list(families)
        self._histograms = histograms
        self._sourced = sourced

    def collect(self) -> Iterable[Metric]:
        worked_out: dict[str, dict[Labels, float]] = {}
        for name, labels, value in self._sourced:
            worked_out.setdefault(name, {})[labels] = value
        counted = {name: series for _, name, series in self._families}
        for name, series in counted.items():
            # Zeros for what has not been counted yet.
            for labels, value in worked_out.pop(name, {}).items():
                series.setdefault(labels, value)
        more = [("counter" if name in COUNTERS else "gauge", name, series) for name, series in worked_out.items()]
        for kind, name, series in sorted((*self._families, *more), key=lambda family: family[:2]):
            metric = Metric(name, HELP.get(name, name.replace("_", " ")), kind)
            for labels, value in sorted(series.items()):
                metric.add_sample(name, dict(labels), value)
            yield metric

        for name, known in sorted(self._histograms.items()):
            histogram = HistogramMetricFamily(name, HELP.get(name, name.replace("_", " ")))
            for labels, counts in sorted(known.items()):
                edges = [*(f"{edge:g}" for edge in _buckets(name)), "+Inf"]
                sums = itertools.accumulate(counts[:-1])
                for edge, total in zip(edges, sums, strict=True):
                    histogram.add_sample(f"{name}_bucket", {**dict(labels), "le": edge}, total)
                histogram.add_sample(f"{name}_count", dict(labels), sum(counts[:-1]))
                histogram.add_sample(f"{name}_sum", dict(labels), counts[-1])
            yield histogram

    def render(self) -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        text = generate_latest(registry)
        names = [name for kind, name, _ in self._families if kind == "counter"]
        for name in (*names, *COUNTERS):
            # The library announces counters under a name with the suffix that OpenMetrics wants.
            text = text.replace(f" {name}_total ".encode(), f" {name} ".encode())
        return text


class Metrics:
    """The counters, gauges and histograms of a process.

    Counting is cheap. A `snapshot` is turned into text off the event loop.
    """

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, float]] = {}
        self._gauges: dict[str, dict[Labels, float]] = {}
        # A count for each bucket and for what is above them all, then the sum.
        self._histograms: dict[str, dict[Labels, list[float]]] = {}
        self._sources: list[Callable[[], Iterable[Sample]]] = []

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        self.add(name, tuple(sorted(labels.items())), amount)

    def add(self, name: str, labels: Labels, amount: float = 1.0) -> None:
        series = self._counters.setdefault(name, {})
        series[labels] = series.get(labels, 0.0) + amount

    def series(self, name: str) -> dict[Labels, float]:
        """What has been counted under a name so far."""
        return dict(self._counters.get(name, {}))

    def forget(self, name: str, /, **labels: str) -> None:
        """What was counted of something that is gone."""
        known, gone = self._counters.get(name, {}), set(labels.items())
        for each in [each for each in known if gone <= set(each)]:
            del known[each]

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        counts = self._histogram(name, labels)
        counts[bisect.bisect_left(_buckets(name), value)] += 1
        counts[-1] += value

    def begin(self, name: str, /, **labels: str) -> None:
        """A histogram that is there before anything was observed."""
        self._histogram(name, labels)

    def _histogram(self, name: str, labels: Mapping[str, str]) -> list[float]:
        known, key = self._histograms.setdefault(name, {}), tuple(sorted(labels.items()))
        if key not in known:
            known[key] = [0.0] * (len(_buckets(name)) + 2)
        return known[key]

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        self._gauges.setdefault(name, {})[tuple(sorted(labels.items()))] = value

    def from_source(self, gauges: Callable[[], Iterable[Sample]]) -> None:
        """Gauges that are worked out when asked for, so that what is gone leaves no series behind.

        Called on the event loop; what it returns is gone through off it.
        """
        self._sources.append(gauges)

    def snapshot(self) -> Snapshot:
        families = [
            (kind, name, dict(series))
            for kind, known in (("counter", self._counters), ("gauge", self._gauges))
            for name, series in known.items()
        ]
        histograms = {
            name: {labels: list(counts) for labels, counts in known.items()} for name, known in self._histograms.items()
        }
        return Snapshot(families, histograms, itertools.chain.from_iterable([source() for source in self._sources]))

    def render(self) -> bytes:
        return self.snapshot().render()
