"""Turns the kernel's reports about decisions and requests into metrics and log lines with the names of surfaces."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from haulout.app.controllers import count_error, count_refusal
from haulout.cluster.key import Key
from haulout.cluster.view import NotListed
from haulout.core.action import Evict
from haulout.kernel.requests import Body, Refused
from haulout.kernel.rooms import Subject
from haulout.kernel.wakes import Reports
from haulout.runtime.metrics import Metrics

log = logging.getLogger("haulout.process")

# The label of decisions that all surfaces share; `haulout rbac` uses the same word.
KERNEL = "kernel"
FAILURES, RESTLESS = "haulout_decision_failures_total", "haulout_restless_keys_total"


class Reporting(Reports):
    """A receiver of the kernel's reports that counts and logs failed decisions and refused requests.

    `controllers`: for each decider, the name of the controller under which it is counted.
    `surfaces`: for each decider, its surface. Deciders of the kernel itself are not in it.
    """

    def __init__(self, metrics: Metrics, controllers: Mapping[str, str], surfaces: Mapping[str, str]) -> None:
        self._metrics = metrics
        self._controllers = controllers
        self._surfaces = surfaces
        for surface in {KERNEL, *surfaces.values()}:
            # Prometheus sees no increase in a series that begins above 0, so that the first failure would raise no alert.
            for name in (FAILURES, RESTLESS):
                metrics.count(name, 0, surface=surface)

    def on_refusal(self, subject: Subject, body: Body, answer: Refused) -> None:
        # Evictions are sent by the drain engine for the surface that wants the node drained.
        wanted_by = body.surface if isinstance(body, Evict) else subject.decider
        self._metrics.count("haulout_refusals_total", surface=self._surface(wanted_by), code=str(answer.code))
        if subject.decider in self._controllers:
            count_refusal(self._metrics, self._controllers[subject.decider], answer)

    def on_lost_answer(self, subject: Subject) -> None:
        if subject.decider in self._controllers:
            count_error(self._metrics, self._controllers[subject.decider])

    def on_restless(self, subject: Subject, target: Key) -> None:
        self._metrics.count(RESTLESS, surface=self._surface(subject.decider))
        log.warning("slowed down: it keeps writing", extra=self._fields(subject, target))

    def decision_failed(self, subject: Subject, error: Exception) -> None:
        self._metrics.count(FAILURES, surface=self._surface(subject.decider))
        # A table that cannot be read is logged once by its watch, not by every decision that needs it.
        if not isinstance(error, NotListed):
            log.error("decision failed", exc_info=error, extra=self._fields(subject, subject.key))

    def _fields(self, subject: Subject, key: Key) -> dict[str, str]:
        return {"surface": self._surface(subject.decider), "decision": subject.decider, "object": str(key)}

    def _surface(self, decider: str) -> str:
        return self._surfaces.get(decider, KERNEL)
