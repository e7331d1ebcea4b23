"""The metrics of NotifyMaintenances under the original's names, and those of the in-box operators."""

from __future__ import annotations

from haulout.core.metric import COUNTER, GAUGE, HISTOGRAM, LONG_BUCKETS, SIGNED_BUCKETS, Metric

# In minutes, like the original's.
STATE_BUCKETS: tuple[float, ...] = (
    *(1 / 60, 10 / 60, 30 / 60, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 8.0, 10.0, 12.0, 15.0, 20.0, 22.0, 25.0, 30.0, 35.0),
    *(40.0, 50.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 720.0, 1080.0, 1440.0, 2880.0, 4320.0, 7200.0),
)
# The original keeps a series for every ID and never removes one. These limits hold those of the last campaigns of a
# large fleet.
MOST_COMPLETIONS, MOST_TIMES = 20_000, 1000
STATUS_GAUGE = "pika_maintenance_status"
TIMES = "pika_maintenance_status_transition_time_minutes"
SUCCESSES, FAILURES = "pika_notification_success_total", "pika_notification_fail_total"
RELOAD_ERRORS = "nm_config_reload_errors_total"
REMOVED_PODS = "nm_drain_pods_total"
# The counters of the drain engine, by the action that they count.
REMOVALS = {"evict": "haulout_evictions_total", "delete": "haulout_pod_deletions_total"}

METRICS = (
    Metric(SUCCESSES, COUNTER, "Messages that were delivered, by notifier.", labels=("notifier",)),
    Metric(FAILURES, COUNTER, "Messages that could not be delivered, by notifier.", labels=("notifier",)),
    Metric(
        STATUS_GAUGE,
        GAUGE,
        "1 for the status of each NotifyMaintenance; completions add up.",
        labels=("maintenance_id", "maintenance_status", "maintenance_type", "node", "owner"),
        most=MOST_COMPLETIONS,
    ),
    Metric(
        "pika_orphaned_maintenance_objects",
        GAUGE,
        "1 for each NotifyMaintenance that is older than a week.",
        labels=("nm_name", "nm_namespace"),
    ),
    Metric(
        TIMES,
        HISTOGRAM,
        "How long NotifyMaintenances were in a status.",
        labels=("maintenance_id", "status"),
        buckets=STATE_BUCKETS,
        most=MOST_TIMES,
    ),
    Metric("pika_planned_maintenance_state", GAUGE, "Always 0, as in the original."),
    Metric(RELOAD_ERRORS, COUNTER, "Edits of the configuration of notify that were refused."),
    Metric(
        "nm_scheduler_candidates",
        GAUGE,
        "NotifyMaintenances that wait for their start, by what they wait for.",
        labels=("reason",),
    ),
    Metric(
        "nm_scheduler_started_total",
        COUNTER,
        "NotifyMaintenances that the scheduler has started, by class.",
        labels=("class",),
    ),
    Metric(
        "nm_scheduler_budget_used",
        GAUGE,
        "How many nodes a budget of the scheduler counts as unavailable.",
        labels=("budget",),
    ),
    Metric(
        "nm_scheduler_budget_limit",
        GAUGE,
        "How many nodes a budget of the scheduler allows to be unavailable.",
        labels=("budget",),
    ),
    Metric(
        "nm_scheduler_estimate_error_seconds",
        HISTOGRAM,
        "By how much drains took longer than they were estimated to; below 0: they were faster.",
        buckets=SIGNED_BUCKETS,
    ),
    Metric(
        "nm_drain_duration_seconds",
        HISTOGRAM,
        "How long drains took, by phase.",
        labels=("phase",),
        buckets=LONG_BUCKETS,
    ),
    Metric(
        REMOVED_PODS,
        COUNTER,
        "Pods that drains have evicted or deleted, by action and result.",
        labels=("action", "result"),
    ),
    Metric(
        "nm_run_total",
        COUNTER,
        "Attempts of maintenances and validations by result.",
        labels=("recipe", "result", "role"),
    ),
    Metric(
        "nm_run_duration_seconds",
        HISTOGRAM,
        "How long attempts of maintenances and validations took.",
        labels=("recipe", "role"),
        buckets=LONG_BUCKETS,
    ),
    Metric("nm_return_total", COUNTER, "Nodes that were given back to the cluster, by result.", labels=("result",)),
)
