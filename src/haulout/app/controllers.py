"""The metrics of controller-runtime for our decisions, so that dashboards made for the originals go on working."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from haulout.base.clock import Clock
from haulout.cluster.key import Key
from haulout.cluster.view import NotListed, View
from haulout.core.decision import Decider, Decision
from haulout.kernel.loop import Loop
from haulout.kernel.requests import Refused
from haulout.kernel.rooms import Subject
from haulout.runtime.metrics import Metrics, Sample

TOTAL = "controller_runtime_reconcile_total"
ERRORS = ("controller_runtime_reconcile_errors_total", "controller_runtime_terminal_reconcile_errors_total")
PANICS = "controller_runtime_reconcile_panics_total"
SECONDS = "controller_runtime_reconcile_time_seconds"
ADDS = "workqueue_adds_total"
WAIT = "workqueue_queue_duration_seconds"
WORK = "workqueue_work_duration_seconds"
RESULTS = ("error", "requeue", "requeue_after", "success")


class Queues:
    """Measures how long subjects are due before their decision runs, as controller-runtime measures its work queue.

    `controllers`: for each decider, the name of the controller under which it is counted.
    """

    def __init__(self, controllers: Mapping[str, str], metrics: Metrics, clock: Clock) -> None:
        self._labels = {decider: (("controller", name), ("name", name)) for decider, name in controllers.items()}
        self._metrics = metrics
        self._clock = clock
        self._since: dict[Subject, float] = {}

    def enter(self, subject: Subject) -> None:
        labels = self._labels.get(subject.decider)
        if labels is not None:
            self._since[subject] = self._clock.monotonic()
            self._metrics.add(ADDS, labels)

    def leave(self, subject: Subject) -> None:
        """Record how long the subject was due. One whose decision runs because a room has a free place was not queued."""
        since = self._since.pop(subject, None)
        if since is not None:
            waited = self._clock.monotonic() - since
            self._metrics.observe(WAIT, waited, **dict(self._labels[subject.decider]))


def observe_decider(decider: Decider, name: str, metrics: Metrics, clock: Clock, queues: Queues) -> Decider:
    """Return the decider with its decisions counted and timed under the name of the controller that it replaces."""
    for result in RESULTS:
        metrics.count(TOTAL, 0, controller=name, result=result)
    for errors in (*ERRORS, PANICS):
        metrics.count(errors, 0, controller=name)
    metrics.begin(SECONDS, controller=name)
    metrics.begin(WAIT, controller=name, name=name)
    metrics.begin(WORK, controller=name, name=name)
    for queued in (ADDS, "workqueue_retries_total"):
        metrics.count(queued, 0, controller=name, name=name)
    metrics.gauge("controller_runtime_max_concurrent_reconciles", 1, controller=name)
    # A snapshot of the metrics is taken between two decisions, so no worker is ever active in it.
    metrics.gauge("controller_runtime_active_workers", 0, controller=name)
    for running in ("workqueue_unfinished_work_seconds", "workqueue_longest_running_processor_seconds"):
        metrics.gauge(running, 0, controller=name, name=name)

    def decide(key: Key, view: View, now: datetime) -> Decision:
        queues.leave(Subject(decider.name, key))
        started = clock.monotonic()
        try:
            decision = decider.decide(key, view, now)
        except NotListed:
            raise
        except Exception:
            metrics.count(TOTAL, controller=name, result="error")
            metrics.count(ERRORS[0], controller=name)
            raise
        finally:
            took = clock.monotonic() - started
            metrics.observe(SECONDS, took, controller=name)
            metrics.observe(WORK, took, controller=name, name=name)
        metrics.count(TOTAL, controller=name, result="requeue_after" if decision.until else "success")
        return decision

    return msgspec.structs.replace(decider, decide=decide)


def count_refusal(metrics: Metrics, name: str, answer: Refused) -> None:
    """Count a refused write as an error, as the original does. A conflict or a closed budget is not an error."""
    if answer.code not in (404, 409) and not answer.by_budget:
        count_error(metrics, name)


def count_error(metrics: Metrics, name: str) -> None:
    metrics.count(TOTAL, controller=name, result="error")
    metrics.count(ERRORS[0], controller=name)
    metrics.count("workqueue_retries_total", controller=name, name=name)


def depths(loop: Loop, controllers: Mapping[str, str]) -> Iterable[Sample]:
    """Yield how many subjects are due for each controller.

    `controllers`: for each decider, the name of the controller under which it is counted.
    """
    due: Counter[str] = Counter()
    for decider, controller in controllers.items():
        due[controller] += loop.due(decider)
    for name, waiting in due.items():
        yield "workqueue_depth", (("controller", name), ("name", name), ("priority", "")), float(waiting)
