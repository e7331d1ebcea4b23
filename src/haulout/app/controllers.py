"""The metrics that dashboards for controller-runtime know, of decisions that stand in for such a controller."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from haulout.base.clock import Clock
from haulout.cluster.key import Key
from haulout.cluster.view import NotListed, View
from haulout.core.decision import Decider, Decision
from haulout.runtime.loop import Loop
from haulout.runtime.metrics import Metrics, Sample
from haulout.runtime.requests import Refused

TOTAL = "controller_runtime_reconcile_total"
ERRORS = ("controller_runtime_reconcile_errors_total", "controller_runtime_terminal_reconcile_errors_total")
PANICS = "controller_runtime_reconcile_panics_total"
SECONDS = "controller_runtime_reconcile_time_seconds"
RESULTS = ("error", "requeue", "requeue_after", "success")


def observed(decider: Decider, metrics: Metrics, clock: Clock) -> Decider:
    """The same decisions, counted and timed under the name of the controller that they replace."""
    name = decider.name
    for result in RESULTS:
        metrics.count(TOTAL, 0, controller=name, result=result)
    for errors in (*ERRORS, PANICS):
        metrics.count(errors, 0, controller=name)
    metrics.begin(SECONDS, controller=name)
    metrics.gauge("controller_runtime_max_concurrent_reconciles", 1, controller=name)
    metrics.gauge("controller_runtime_active_workers", 0, controller=name)

    def decide(key: Key, view: View, now: datetime) -> Decision:
        started = clock.elapsed()
        try:
            decision = decider.decide(key, view, now)
        except NotListed:
            raise
        except Exception:
            metrics.count(TOTAL, controller=name, result="error")
            metrics.count(ERRORS[0], controller=name)
            raise
        finally:
            metrics.observe(SECONDS, clock.elapsed() - started, controller=name)
        metrics.count(TOTAL, controller=name, result="requeue_after" if decision.until else "success")
        return decision

    return msgspec.structs.replace(decider, decide=decide)


def count_refusal(metrics: Metrics, name: str, answer: Refused) -> None:
    """A write that is not taken was an error of the original's; one that is decided anew or waits its turn is none."""
    if answer.code not in (404, 409) and not answer.by_budget:
        metrics.count(TOTAL, controller=name, result="error")
        metrics.count(ERRORS[0], controller=name)


def depths(loop: Loop, names: Iterable[str]) -> Iterable[Sample]:
    for name in names:
        labels = (("controller", name), ("name", name), ("priority", ""))
        yield "workqueue_depth", labels, float(loop.due(name))
