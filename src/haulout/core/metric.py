"""The metrics of the operator itself, as data. Those of a surface are in its declaration."""

from __future__ import annotations

import msgspec

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

# The buckets of controller-runtime's reconcile times, which dashboards use.
BUCKETS: tuple[float, ...] = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0),
    *(15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
# The buckets of times from a second to a week, which people notice.
LONG_BUCKETS: tuple[float, ...] = (
    *(1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0),
    *(4 * 3600.0, 12 * 3600.0, 24 * 3600.0, 72 * 3600.0, 168 * 3600.0),
)
# The buckets of a difference between two of these times, whose sign counts.
SIGNED_BUCKETS: tuple[float, ...] = (*(-edge for edge in reversed(LONG_BUCKETS)), 0.0, *LONG_BUCKETS)
# The buckets of controller-runtime's queues.
QUEUE_BUCKETS: tuple[float, ...] = tuple(10.0**power for power in range(-8, 4))


# Counters whose first names had no suffix. They are exported under both names until the next release.
RENAMED = (
    *("haulout_askings_total", "haulout_decision_failures_total", "haulout_events_dropped_total"),
    *("haulout_evictions_total", "haulout_oversized_objects_total", "haulout_pod_deletions_total"),
    *("haulout_refusals_total", "haulout_requests_total", "haulout_restless_keys_total"),
    *("haulout_undecodable_objects_total", "haulout_watch_troubles_total"),
)


class Metric(msgspec.Struct, frozen=True):
    """A metric. Its name is exported as it is, because dashboards use it.

    `kind`: counter, gauge or histogram. `help`: its meaning, in one line.
    `labels`: the names of its labels. `buckets`: the upper edges of a histogram's buckets.
    `most`: the most series that are kept, where users choose the values of labels. A new series replaces the oldest
    one.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = BUCKETS
    most: int | None = None


KERNEL_METRICS = (
    Metric("certwatcher_read_certificate_errors_total", COUNTER, "Mounted certificates that could not be used."),
    Metric("certwatcher_read_certificate_total", COUNTER, "How often mounted certificates were read."),
    Metric(
        "controller_runtime_reconcile_errors_total",
        COUNTER,
        "Decisions of a controller that failed.",
        labels=("controller",),
    ),
    Metric(
        "controller_runtime_reconcile_time_seconds",
        HISTOGRAM,
        "How long a controller's decisions took.",
        labels=("controller",),
    ),
    Metric(
        "controller_runtime_reconcile_total",
        COUNTER,
        "Decisions of a controller by result.",
        labels=("controller", "result"),
    ),
    Metric(
        "controller_runtime_webhook_latency_seconds", HISTOGRAM, "How long reviews took to answer.", labels=("webhook",)
    ),
    Metric(
        "controller_runtime_webhook_requests_in_flight", GAUGE, "Reviews that are being answered.", labels=("webhook",)
    ),
    Metric(
        "controller_runtime_webhook_requests_total",
        COUNTER,
        "Reviews by the code of the answer.",
        labels=("code", "webhook"),
    ),
    Metric(
        "controller_runtime_active_workers",
        GAUGE,
        "Decisions of a controller under way; always 0, because metrics are rendered between two decisions.",
        labels=("controller",),
    ),
    Metric(
        "controller_runtime_max_concurrent_reconciles",
        GAUGE,
        "Decisions that a controller takes at a time; always 1.",
        labels=("controller",),
    ),
    Metric(
        "controller_runtime_reconcile_panics_total",
        COUNTER,
        "Always 0: a decision that fails is counted as an error.",
        labels=("controller",),
    ),
    Metric(
        "controller_runtime_terminal_reconcile_errors_total",
        COUNTER,
        "Always 0: a decision that fails is taken again.",
        labels=("controller",),
    ),
    Metric("haulout_askings_total", COUNTER, "How often decisions were run."),
    Metric(
        "haulout_chronic_nodes",
        GAUGE,
        "Nodes with five or more recorded maintenances in the last 30 days.",
    ),
    Metric(
        "haulout_decision_failures_total", COUNTER, "Decisions that failed instead of answering.", labels=("surface",)
    ),
    Metric("haulout_events_dropped_total", COUNTER, "Events that were dropped because too many were waiting."),
    Metric("haulout_evictions_total", COUNTER, "Evictions by surface and result.", labels=("result", "surface")),
    Metric("haulout_leader", GAUGE, "Whether this process leads."),
    Metric(
        "haulout_budget_overrides_total",
        COUNTER,
        "Nodes that were let out of service although a NodeDisruptionBudget was overridden.",
        labels=("budget",),
    ),
    Metric(
        "haulout_maintenance_seconds",
        HISTOGRAM,
        "How long recorded maintenances took, from their beginning to their end.",
        labels=("surface",),
        buckets=LONG_BUCKETS,
    ),
    Metric(
        "haulout_maintenances_total",
        COUNTER,
        "Maintenances whose records were closed, by outcome.",
        labels=("outcome", "surface"),
    ),
    Metric(
        "haulout_node_budget_allowed",
        GAUGE,
        "How many nodes a NodeDisruptionBudget allows to be unavailable.",
        labels=("budget",),
    ),
    Metric(
        "haulout_node_budget_invalid_total",
        COUNTER,
        "NodeDisruptionBudgets that could not be read, once a generation.",
        labels=("budget",),
    ),
    Metric(
        "haulout_node_budget_used",
        GAUGE,
        "Nodes that a NodeDisruptionBudget counts as unavailable.",
        labels=("budget",),
    ),
    Metric("haulout_node_budget_waiting", GAUGE, "Holds that wait for a NodeDisruptionBudget.", labels=("budget",)),
    Metric(
        "haulout_oversized_objects_total",
        COUNTER,
        "Objects that were too large to be read whole, each time they were seen.",
        labels=("kind",),
    ),
    Metric(
        "haulout_paused_since_timestamp_seconds",
        GAUGE,
        "Since when an object, a Node or a NodeDisruptionBudget pauses nodes; if that is not known, since when this replica has seen it.",
        labels=("kind", "name", "namespace"),
    ),
    Metric(
        "haulout_pod_deletions_total",
        COUNTER,
        "Pods that drains have deleted without an eviction, by surface and result.",
        labels=("result", "surface"),
    ),
    Metric(
        "haulout_refusals_total",
        COUNTER,
        "Writes that an API server refused, by surface and code.",
        labels=("code", "surface"),
    ),
    Metric(
        "haulout_requests_total",
        COUNTER,
        "Requests to API servers by verb, kind and outcome.",
        labels=("kind", "outcome", "verb"),
    ),
    Metric(
        "haulout_restless_keys_total",
        COUNTER,
        "Keys slowed down because they keep writing without an outside cause.",
        labels=("surface",),
    ),
    Metric(
        "haulout_trace_spans_total",
        COUNTER,
        "Spans of maintenances that the collector has taken, or that were dropped, with traces switched on.",
        labels=("result",),
    ),
    Metric(
        "haulout_undecodable_objects_total",
        COUNTER,
        "Objects that could not be read, each time they were seen.",
        labels=("kind",),
    ),
    Metric(
        "haulout_watch_troubles_total", COUNTER, "Interruptions of watches by kind and cause.", labels=("code", "kind")
    ),
    Metric(
        "haulout_webhook_certificate_end_timestamp_seconds", GAUGE, "When the certificate of the webhooks runs out."
    ),
    Metric(
        "leader_election_master_status", GAUGE, "Whether this process holds the lease of this name.", labels=("name",)
    ),
    Metric("process_cpu_seconds_total", COUNTER, "Seconds of processor time that this process has used."),
    Metric("process_max_fds", GAUGE, "How many files this process may have open."),
    Metric("process_open_fds", GAUGE, "How many files this process has open."),
    Metric("process_resident_memory_bytes", GAUGE, "Memory that this process occupies."),
    Metric("process_start_time_seconds", GAUGE, "When this process was started, in seconds since 1970."),
    Metric("process_virtual_memory_bytes", GAUGE, "Addresses that this process has reserved."),
    Metric(
        "rest_client_requests_total",
        COUNTER,
        "Requests to API servers by host, method and code of the answer.",
        labels=("code", "host", "method"),
    ),
    Metric(
        "workqueue_adds_total",
        COUNTER,
        "Objects that have been put into a controller's queue.",
        labels=("controller", "name"),
    ),
    Metric(
        "workqueue_depth",
        GAUGE,
        "Objects that wait for a controller's decision.",
        labels=("controller", "name", "priority"),
    ),
    Metric(
        "workqueue_longest_running_processor_seconds",
        GAUGE,
        "How long the longest decision under way has taken.",
        labels=("controller", "name"),
    ),
    Metric(
        "workqueue_queue_duration_seconds",
        HISTOGRAM,
        "How long objects waited for a controller's decision.",
        labels=("controller", "name"),
        buckets=QUEUE_BUCKETS,
    ),
    Metric(
        "workqueue_retries_total",
        COUNTER,
        "Objects that have been put back into a controller's queue after an error.",
        labels=("controller", "name"),
    ),
    Metric(
        "workqueue_unfinished_work_seconds",
        GAUGE,
        "How long the decisions under way have taken together.",
        labels=("controller", "name"),
    ),
    Metric(
        "workqueue_work_duration_seconds",
        HISTOGRAM,
        "How long what was taken from a controller's queue took.",
        labels=("controller", "name"),
        buckets=QUEUE_BUCKETS,
    ),
)
