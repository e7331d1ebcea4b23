"""Compares the labels of every metric that a test makes with its declaration, whichever test makes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from haulout.runtime import metrics
from haulout.surfaces.registry import all_declarations


def watch_labels() -> set[str]:
    """Return the set to which each metric with other labels than the declared ones is added, as text."""
    labels = {metric.name: metric.labels for each in all_declarations() for metric in each.metrics}
    wrong: set[str] = set()
    add, histogram, gauge = metrics.Metrics.add, metrics.Metrics._histogram, metrics.Metrics.gauge
    from_source = metrics.Metrics.from_source

    def see(name: str, names: Iterable[str]) -> None:
        found = tuple(sorted(names))
        if name in labels and found != labels[name]:
            wrong.add(f"{name}: {found}, declared are {labels[name]}")

    def seen_add(self: Any, name: str, given: metrics.Labels, amount: float = 1.0) -> None:
        see(name, (label for label, _ in given))
        add(self, name, given, amount)

    def seen_histogram(self: Any, name: str, given: dict[str, str]) -> list[float]:
        see(name, given)
        return histogram(self, name, given)

    def seen_gauge(self: Any, name: str, value: float, /, **given: str) -> None:
        see(name, given)
        gauge(self, name, value, **given)

    def seen_source(self: Any, source: Any) -> None:
        def samples() -> Iterable[metrics.Sample]:
            for name, given, value in source():
                see(name, (label for label, _ in given))
                yield name, given, value

        from_source(self, lambda: list(samples()))

    changed: Any = metrics.Metrics
    changed.add, changed._histogram, changed.gauge, changed.from_source = (
        seen_add,
        seen_histogram,
        seen_gauge,
        seen_source,
    )
    return wrong
