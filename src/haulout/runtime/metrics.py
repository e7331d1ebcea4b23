"""Counters and gauges, rendered in Prometheus' text format.

Names are the surfaces' contracts, so that they stand exactly as given: no suffix is added to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]

HELP = {
    "haulout_askings": "How often a decision was asked.",
    "haulout_decision_failures": "Decisions that failed instead of answering.",
    "haulout_leader": "Whether this process leads.",
    "haulout_loop_stall_seconds": "The longest that the loop kept I/O waiting.",
    "haulout_requests": "Requests to API servers by verb, kind and outcome.",
    "haulout_restless_keys": "Keys slowed down because they keep writing what nobody else touches.",
    "haulout_undecodable_objects": "Objects that could not be read, each time they were seen.",
    "haulout_watch_troubles": "Interruptions of watches by kind and cause.",
}


class Metrics(Collector):
    """Cheap to count in; put into text by `render`, which is meant to run off the event loop."""

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, float]] = {}
        self._gauges: dict[str, dict[Labels, float]] = {}
        self._sources: list[Callable[[], Iterable[Sample]]] = []
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        self.add(name, tuple(sorted(labels.items())), amount)

    def add(self, name: str, labels: Labels, amount: float = 1.0) -> None:
        series = self._counters.setdefault(name, {})
        series[labels] = series.get(labels, 0.0) + amount

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self._gauges.setdefault(name, {})[tuple(sorted(labels.items()))] = value

    def from_source(self, gauges: Callable[[], Iterable[Sample]]) -> None:
        """Gauges that are worked out when asked for, so that what is gone leaves no series behind."""
        self._sources.append(gauges)

    def collect(self) -> Iterable[Metric]:
        gauges = {name: dict(series) for name, series in self._gauges.items()}
        for source in self._sources:
            for name, labels, value in source():
                gauges.setdefault(name, {})[labels] = value
        for kind, families in (("counter", dict(self._counters)), ("gauge", gauges)):
            for name, series in sorted(families.items()):
                metric = Metric(name, HELP.get(name, name.replace("_", " ")), kind)
                for labels, value in sorted(series.items()):
                    metric.add_sample(name, dict(labels), value)
                yield metric

    def render(self) -> bytes:
        text = generate_latest(self._registry)
        for name in list(self._counters):
            # The library announces counters under a name with the suffix that OpenMetrics wants.
            text = text.replace(f" {name}_total ".encode(), f" {name} ".encode())
        return text
