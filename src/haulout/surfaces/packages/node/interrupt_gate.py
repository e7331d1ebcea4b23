"""The gate before an interrupt. It opens when the node is cordoned, protected pods have ended, and it is drained."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from haulout.base import bounds, duration
from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.rows import NodeRow, PodRow, Row
from haulout.cluster.view import View
from haulout.core.decision import earliest
from haulout.core.drain.options import DrainOptions, DrainRow, drain_row
from haulout.core.drain.progress import Progress, Standing, conclusion, drain_reasons
from haulout.core.reason import Reason
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.skyhook.intent import Intent
from haulout.surfaces.packages.wire import REPORTER, SURFACE, DrainConfig

NON_INTERRUPT, EVICTION_BLOCKED = "NonInterruptPodsRunning", "EvictionBlocked"
# A cause in the condition DrainBlocked.
BUDGET = "PodDisruptionBudget"


class InterruptGate(msgspec.Struct, frozen=True):
    """The state of the gate before an interrupt on one node.

    `is_open`: the interrupt may run.
    `is_cordoned`: the Skyhook's cordon is stored.
    `blocked_by`: why the gate waits (`NON_INTERRUPT` or `EVICTION_BLOCKED`), each with a pod.
    `drains`: the rows that ask for the drain.
    `refused`: why nothing can be evicted at all.
    `is_late`: the drain took longer than its timeout, and evicts nothing more.
    `drain_blocks`: what the drain itself is blocked by, each as a cause and a text that names the pod.
    """

    is_open: bool = False
    is_cordoned: bool = False
    blocked_by: tuple[tuple[str, str], ...] = ()
    drains: tuple[Row, ...] = ()
    until: datetime | None = None
    reasons: tuple[Reason, ...] = ()
    refused: str = ""
    is_late: bool = False
    drain_blocks: tuple[tuple[str, str], ...] = ()


def is_cordoned(node: NodeRow, skyhook: str) -> bool:
    return node.unschedulable and node.annotations.get(node_names.cordon(skyhook)) == "true"


def gate_of(
    view: View, node: NodeRow, intent: Intent, options: Options, now: datetime, picked_at: datetime | None
) -> InterruptGate:
    """Return the state of the gate. Eviction begins only after the cordon is stored and protected pods have ended."""
    if not is_cordoned(node, intent.skyhook):
        return InterruptGate()
    pods = view.rows(PODS_OF_NODE, node.key.name, PodRow)
    protected = [pod for pod in pods if _is_protected(pod, intent)]
    if protected:
        blocked = tuple((NON_INTERRUPT, _named(pod)) for pod in protected)
        reasons = tuple(
            Reason("pod-not-interruptible", pod.key, f"{_named(pod)} runs and must not be interrupted", act=_END)
            for pod in protected
        )
        return InterruptGate(is_cordoned=True, blocked_by=blocked, reasons=reasons)
    drain = drain_of(node, intent, options)
    state = conclusion(view, drain, now)
    blocked = tuple((EVICTION_BLOCKED, _named(each.pod)) for each in state.pods if _is_held_up(each.standing))
    late_at = _late_at(intent, picked_at)
    is_late = late_at is not None and now >= late_at and not state.cleared
    return InterruptGate(
        is_open=state.done,
        is_cordoned=True,
        is_late=is_late,
        blocked_by=blocked,
        drains=() if is_late else (drain,),
        until=earliest(state.changes_at, late_at if late_at is not None and late_at > now else None),
        reasons=drain_reasons(view, drain, state, now) if view.explaining else (),
        refused=_refused(state),
        drain_blocks=tuple(_drain_blocks(state, node.key.name)),
    )


_END = "wait until it has ended, or end it yourself"


def drain_of(node: NodeRow, intent: Intent, options: Options) -> DrainRow:
    return drain_row(
        SURFACE,
        intent.owner,
        node.key,
        options=drain_options(intent.spec.drain_config or DrainConfig()),
        rules=options.rules,
        since=intent.created_at or bounds.EARLIEST,
        reporter="" if options.alone else REPORTER,
    )


def drain_options(config: DrainConfig) -> DrainOptions:
    """Return the drain options of a Skyhook.

    The default drain evicts every pod but those of DaemonSets, of kube-system, and those that tolerate the cordon.
    """
    return DrainOptions(
        force=config.force is not False,
        ignore_daemonsets=config.ignore_daemon_sets is not False,
        delete_local_data=config.delete_empty_dir_data is not False,
        grace_for=bounds.seconds(grace_of(config)),
        disable_eviction=bool(config.disable_eviction),
        any_daemonset=config.ignore_daemon_sets is not False,
        keep_namespaces=frozenset({"kube-system"}),
        keep_tolerant=True,
        keep_ended=True,
    )


def grace_of(config: DrainConfig) -> int | None:
    """Return how many seconds pods get to end; None for each pod's own time."""
    if config.grace_period is None:
        return config.grace_period_seconds
    try:
        span = duration.parse(config.grace_period)
    except duration.DurationError:
        return None
    # The original takes 0 as none, so that each pod has its own time.
    return int(span.total_seconds()) or None


def _late_at(intent: Intent, picked_at: datetime | None) -> datetime | None:
    """Return when the drain exceeds its timeout, counted from the pick of the node; None if it has no timeout."""
    config = intent.spec.drain_config
    if config is None or config.timeout is None or picked_at is None:
        return None
    try:
        span = duration.parse(config.timeout)
    except duration.DurationError:
        return None
    return picked_at + span if span else None


def _drain_blocks(state: Progress, node: str) -> Iterator[tuple[str, str]]:
    for each in state.pods:
        if each.standing in (Standing.BUDGET, Standing.SEVERAL_BUDGETS):
            yield BUDGET, f"{_named(each.pod)} on {node}: {_REFUSED_BY_BUDGET}"
    for cause, words in _CAUSES.items():
        if words in state.errors:
            yield cause, f"{node}: {state.errors}"


# The API server's answer to an eviction that a PodDisruptionBudget does not allow.
_REFUSED_BY_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


# Causes for which a drain cannot begin, by words of kubectl's error.
_CAUSES = {"EmptyDirData": "local storage", "UnmanagedPod": "no controller"}


def _is_protected(pod: PodRow, intent: Intent) -> bool:
    return intent.protected is not None and not pod.ended and intent.protected.matches(pod.labels)


def _is_held_up(standing: Standing) -> bool:
    return standing not in (Standing.EVICTING, Standing.TERMINATING)


def _refused(state: Progress) -> str:
    return state.errors or state.proof_error


def _named(pod: PodRow) -> str:
    return f"{pod.key.namespace}/{pod.key.name}"
