"""Counters and gauges, rendered in Prometheus' text format.

Surfaces promise the names of their metrics to users, so no suffix is added to them.
"""

from __future__ import annotations

import bisect
import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from haulout.base.bounds import text
from haulout.base.number import format_float
from haulout.core.metric import BUCKETS, COUNTER, GAUGE, HISTOGRAM, KERNEL_METRICS, RENAMED
from haulout.core.metric import Metric as Declared

if TYPE_CHECKING:
    # Importing it brings a web server, which takes 2 MiB. A process that is not scraped does without.
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]
# A histogram, the labels of a series of it, and the number of a bucket.
ExemplarKey = tuple[str, Labels, int]
# The id of a trace, the value that it shows, and when that was observed.
NewestTrace = tuple[str, float, float]
# The longest value of a label. It has room for every name of an object; texts of users may be longer.
LONGEST_VALUE = 256
# The most series of a metric that declares no limit of its own: more than ten for each node of a large cluster.
MOST_SERIES = 100_000


def bounded(labels: Labels) -> Labels:
    """Return labels whose values have bounded lengths. Every series of a scrape has such labels."""
    if all(len(value) <= LONGEST_VALUE for _, value in labels):
        return labels
    return tuple((name, text(value, LONGEST_VALUE)) for name, value in labels)


def process_samples() -> Iterable[Sample]:
    """Yield the resources that this process uses. This reads files, so it must not run on the event loop."""
    from prometheus_client import PROCESS_COLLECTOR

    for metric in PROCESS_COLLECTOR.collect():
        for sample in metric.samples:
            yield sample.name, (), sample.value


def buckets(declared: Mapping[str, Declared], name: str) -> tuple[float, ...]:
    """Return the upper edges of a histogram's buckets."""
    return declared[name].buckets if name in declared else BUCKETS


def most_series(declared: Mapping[str, Declared], name: str) -> int:
    """Return how many series a metric may have."""
    return (declared[name].most if name in declared else None) or MOST_SERIES


# A value at the end of a line, or the upper bound of a bucket.
WHOLE = re.compile(rb'(?m)( -?[0-9]+|,le="[0-9]+|\{le="[0-9]+)\.0($|")')


class Snapshot:
    """The metrics at one moment. Rendering them as text takes long, so it runs off the event loop."""

    def __init__(
        self,
        families: Iterable[tuple[str, str, dict[Labels, float]]],
        histograms: Mapping[str, Mapping[Labels, Sequence[float]]],
        sourced: Iterable[Sample],
        declared: Mapping[str, Declared],
        exemplars: Mapping[ExemplarKey, NewestTrace] | None = None,
    ) -> None:
        self._declared = declared
        self._exemplars = exemplars or {}
        self._families = list(families)
        self._histograms = histograms
        self._sourced = sourced

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import Exemplar, HistogramMetricFamily, Metric

        worked_out: dict[str, dict[Labels, float]] = {}
        for name, labels, value in self._sourced:
            series = worked_out.setdefault(name, {})
            # The series of a source are those of objects that exist, so the first ones stay from scrape to scrape.
            if len(series) < most_series(self._declared, name):
                series[bounded(labels)] = value
        counted = {name: series for _, name, series in self._families}
        for name, series in counted.items():
            # For a counter, a source returns zeros, which are exported until something is counted.
            for labels, value in worked_out.pop(name, {}).items():
                series.setdefault(labels, value)
        more = [(self._kind(name), name, series) for name, series in worked_out.items()]
        for kind, name, series in sorted((*self._families, *more), key=lambda family: family[:2]):
            metric = Metric(name, self._help(name), kind)
            for labels, value in sorted(series.items()):
                metric.add_sample(name, dict(labels), value)
            yield metric

        for name, known in sorted(self._histograms.items()):
            histogram = HistogramMetricFamily(name, self._help(name))
            for labels, counts in sorted(known.items()):
                edges = [*(format_float(edge) for edge in buckets(self._declared, name)), "+Inf"]
                sums = itertools.accumulate(counts[:-1])
                for number, (edge, total) in enumerate(zip(edges, sums, strict=True)):
                    newest = self._exemplars.get((name, labels, number))
                    exemplar = Exemplar({"trace_id": newest[0]}, *newest[1:]) if newest is not None else None
                    histogram.add_sample(f"{name}_bucket", {**dict(labels), "le": edge}, total, exemplar=exemplar)
                histogram.add_sample(f"{name}_count", dict(labels), sum(counts[:-1]))
                histogram.add_sample(f"{name}_sum", dict(labels), counts[-1])
            yield histogram

    def _kind(self, name: str) -> str:
        """Return the kind of a metric that comes from a source: a gauge, unless it is declared as a counter."""
        return COUNTER if name in self._declared and self._declared[name].kind == COUNTER else GAUGE

    def _help(self, name: str) -> str:
        return self._declared[name].help if name in self._declared else name.replace("_", " ")

    def render(self) -> bytes:
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(cast("Collector", self))
        page = generate_latest(registry)
        names = [name for kind, name, _ in self._families if kind == "counter"]
        for name in (*names, *(name for name in self._declared if self._kind(name) == COUNTER)):
            # The library adds the suffix of OpenMetrics to the name of a counter in its HELP and TYPE lines.
            page = page.replace(f" {name}_total ".encode(), f" {name} ".encode())
        # Whole numbers are printed as Go prints them: people search for them with grep.
        return WHOLE.sub(rb"\1\2", page + b"".join(_under_old_names(page)))

    def render_openmetrics(self) -> bytes:
        """Return the metrics with their exemplars, in OpenMetrics. It has no room for the old names of counters."""
        import prometheus_client.openmetrics.exposition as openmetrics
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry(auto_describe=False)
        registry.register(cast("Collector", OpenMetricsView(self)))
        page: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return page


class OpenMetricsView:
    """The metrics of a snapshot in the terms of OpenMetrics, in which the samples of a counter end with `_total`.

    A counter with another name is of unknown type there, and a histogram of times whose sign counts has buckets alone. Bounds
    of buckets are written as floating-point numbers.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import Metric

        for metric in self._snapshot.collect():
            name, kind = metric.name, metric.type
            if kind == COUNTER:
                is_named = all(sample.name.endswith("_total") for sample in metric.samples)
                name, kind = (name.removesuffix("_total"), kind) if is_named else (name, "unknown")
            view = Metric(name, metric.documentation, kind)
            is_signed = any(sample.labels.get("le", "").startswith("-") for sample in metric.samples)
            for sample in metric.samples:
                if is_signed and "le" not in sample.labels:
                    continue
                edge = sample.labels.get("le") if kind == HISTOGRAM else None
                labels = sample.labels if edge is None else {**sample.labels, "le": _canonical(edge)}
                view.add_sample(sample.name, labels, sample.value, exemplar=sample.exemplar)
            yield view


def _canonical(edge: str) -> str:
    """Return the upper bound of a bucket as OpenMetrics has it, such as 15.0."""
    from prometheus_client.utils import floatToGoString

    text: str = floatToGoString(edge)  # type: ignore[no-untyped-call]
    return text


def _under_old_names(page: bytes) -> Iterator[bytes]:
    """Yield the series of renamed counters under the names that dashboards may still use."""
    for name in RENAMED:
        old = name.removesuffix("_total")
        series = re.findall(rf"^{name}(?=[{{ ])(.*)$".encode(), page, re.MULTILINE)
        if series:
            yield f"# HELP {old} The old name of {name}.\n# TYPE {old} counter\n".encode()
            yield from (f"{old}".encode() + rest + b"\n" for rest in series)


class Metrics:
    """The counters, gauges and histograms of a process. `declared`: the metrics that surfaces declare.

    Counting is cheap. A `snapshot` is rendered as text off the event loop.
    """

    def __init__(self, declared: Iterable[Declared] = ()) -> None:
        self._declared = {metric.name: metric for metric in (*KERNEL_METRICS, *declared)}
        self._counters: dict[str, dict[Labels, float]] = {}
        self._gauges: dict[str, dict[Labels, float]] = {}
        # The count of each bucket, the count above all buckets, and the sum.
        self._histograms: dict[str, dict[Labels, list[float]]] = {}
        # The newest exemplar of each bucket that has one.
        self._exemplars: dict[ExemplarKey, NewestTrace] = {}
        self._sources: list[Callable[[], Iterable[Sample]]] = []
        # Whether scrapers that accept OpenMetrics, in which alone there are exemplars, get it.
        self.offers_openmetrics = False

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        self.add(name, tuple(sorted(labels.items())), amount)

    def add(self, name: str, labels: Labels, amount: float = 1.0) -> None:
        series = self._counters.setdefault(name, {})
        labels = bounded(labels)
        if labels not in series:
            self._make_room(name, series)
        series[labels] = series.get(labels, 0.0) + amount

    def series(self, name: str) -> dict[Labels, float]:
        """Return the values of a counter so far, by labels."""
        return dict(self._counters.get(name, {}))

    def forget(self, name: str, /, **labels: str) -> None:
        """Remove the series of a counter that have these labels, because their object does not exist any more."""
        known, matching = self._counters.get(name, {}), set(bounded(tuple(labels.items())))
        for each in [each for each in known if matching <= set(each)]:
            del known[each]

    def observe(self, name: str, value: float, trace: str = "", /, **labels: str) -> None:
        """Add a value to a histogram. `trace`: the id of the trace that shows it, as the exemplar of its bucket."""
        counts, bucket = self._histogram(name, labels), bisect.bisect_left(buckets(self._declared, name), value)
        counts[bucket] += 1
        counts[-1] += value
        if trace:
            series = bounded(tuple(sorted(labels.items())))
            self._exemplars[name, series, bucket] = (trace, value, time.time())

    def begin(self, name: str, /, **labels: str) -> None:
        """Export a histogram with zeros before anything is observed."""
        self._histogram(name, labels)

    def _histogram(self, name: str, labels: Mapping[str, str]) -> list[float]:
        known, key = self._histograms.setdefault(name, {}), bounded(tuple(sorted(labels.items())))
        if key not in known:
            self._make_room(name, known)
            known[key] = [0.0] * (len(buckets(self._declared, name)) + 2)
        return known[key]

    def _make_room(self, name: str, series: dict[Labels, Any]) -> None:
        """Drop the oldest series of a metric that has reached its limit of series."""
        while len(series) >= most_series(self._declared, name):
            del series[next(iter(series))]

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        self._gauges.setdefault(name, {})[bounded(tuple(sorted(labels.items())))] = value

    def from_source(self, gauges: Callable[[], Iterable[Sample]]) -> None:
        """Add a function that computes gauges for each snapshot, so that removed objects leave no series behind.

        The function is called on the event loop. Its result is iterated off the event loop.
        """
        self._sources.append(gauges)

    def snapshot(self) -> Snapshot:
        # Sources are called first, because some of them also count something.
        sourced = itertools.chain.from_iterable([source() for source in self._sources])
        families = [
            # Some counters are exported as gauges, because dashboards know them as such.
            (GAUGE if self._is_gauge(name) else kind, name, dict(series))
            for kind, known in (("counter", self._counters), ("gauge", self._gauges))
            for name, series in known.items()
        ]
        histograms = {
            name: {labels: list(counts) for labels, counts in known.items()} for name, known in self._histograms.items()
        }
        return Snapshot(families, histograms, sourced, self._declared, dict(self._exemplars))

    def _is_gauge(self, name: str) -> bool:
        return name in self._declared and self._declared[name].kind == GAUGE

    def render(self) -> bytes:
        return self.snapshot().render()
