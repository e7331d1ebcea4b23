"""Counters and gauges in Prometheus' text format, under exactly the names that were given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pytest
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from haulout.core.metric import KERNEL_METRICS, LONG_BUCKETS, Metric
from haulout.runtime.metrics import MOST_SERIES, Metrics, Sample
from haulout.surfaces.registry import surfaces


def series(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return a series as a scraper reads it, without the suffix that this library's reader gives to counters."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name.removesuffix("_total"), frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_counters_add_up_by_their_labels_in_any_order() -> None:
    metrics = Metrics()
    metrics.count("requests", verb="patch", kind="Node")
    metrics.count("requests", 2, kind="Node", verb="patch")
    metrics.count("requests", verb="evict", kind="Pod")
    assert series(metrics) == {
        ("requests", frozenset({("verb", "patch"), ("kind", "Node")})): 3,
        ("requests", frozenset({("verb", "evict"), ("kind", "Pod")})): 1,
    }


def test_names_stand_as_given_also_in_their_announcement() -> None:
    metrics = Metrics()
    metrics.count("failure_count")
    metrics.count("refusals_total")
    metrics.gauge("valid", 1)
    lines = metrics.render().decode().splitlines()
    assert [line for line in lines if line.startswith("# TYPE")] == [
        "# TYPE failure_count counter",
        "# TYPE refusals_total counter",
        "# TYPE valid gauge",
    ]
    assert [line for line in lines if not line.startswith("#")] == [
        "failure_count 1",
        "refusals_total 1",
        "valid 1",
    ]


def test_a_gauge_is_what_was_last_said() -> None:
    metrics = Metrics()
    metrics.gauge("leader", 1)
    metrics.gauge("leader", 0)
    assert series(metrics) == {("leader", frozenset()): 0}


def test_what_is_worked_out_leaves_no_series_of_what_is_gone() -> None:
    nodes = ["a", "b"]

    def states() -> Iterable[Sample]:
        return [("state", (("node", name),), 1.0) for name in nodes]

    metrics = Metrics()
    metrics.from_source(states)
    assert len(series(metrics)) == 2
    nodes.remove("a")
    assert series(metrics) == {("state", frozenset({("node", "b")})): 1}


def test_label_values_may_hold_anything() -> None:
    metrics = Metrics()
    text = 'quote " slash \\ line\nend'
    metrics.count("odd", note=text)
    assert series(metrics) == {("odd", frozenset({("note", text)})): 1}


def buckets(metrics: Metrics, name: str) -> dict[str, float]:
    return {
        dict(labels)["le"]: value
        for (series_name, labels), value in series(metrics).items()
        if series_name == f"{name}_bucket"
    }


def test_a_histogram_counts_what_is_not_above_its_edges() -> None:
    metrics = Metrics()
    for value in (0.004, 0.005, 0.006, 61.0):
        metrics.observe("times", value)
    found = buckets(metrics, "times")
    assert (found["0.005"], found["0.01"], found["60"], found["+Inf"]) == (2, 3, 3, 4)
    assert series(metrics)["times_count", frozenset()] == 4
    assert series(metrics)["times_sum", frozenset()] == pytest.approx(61.015)


def test_a_declared_histogram_has_its_own_edges() -> None:
    metrics = Metrics([Metric("approval_seconds", "histogram", "How long.", buckets=LONG_BUCKETS)])
    for seconds in (0.5, 3600, 3601, 8 * 86_400):
        metrics.observe("approval_seconds", seconds, flow="deletion")
    assert b"# HELP approval_seconds How long.\n" in metrics.render()
    found = buckets(metrics, "approval_seconds")
    assert list(found.values()) == sorted(found.values())
    assert (found["1"], found["3600"], found["14400"], found["604800"], found["+Inf"]) == (1, 2, 3, 3, 4)


def test_edges_are_written_with_all_of_their_digits_as_go_writes_them() -> None:
    metrics = Metrics([Metric("times", "histogram", "How long.", buckets=(1 / 60, 0.5, 7200.0, 2.5e6))])
    metrics.observe("times", 1)
    assert list(buckets(metrics, "times")) == ["0.016666666666666666", "0.5", "7200", "2.5e+06", "+Inf"]


def test_a_metric_whose_labels_users_choose_keeps_its_newest_series() -> None:
    metrics = Metrics([Metric("done", "gauge", "Done.", most=2), Metric("times", "histogram", "How long.", most=2)])
    for name in ("a", "b", "a", "c"):
        metrics.count("done", id=name)
        metrics.observe("times", 1, id=name)
    assert {dict(labels)["id"] for labels in metrics.series("done")} == {"b", "c"}
    counts = {dict(labels)["id"] for (name, labels), _ in series(metrics).items() if name == "times_count"}
    assert counts == {"b", "c"}


def test_a_histogram_can_be_there_before_anything_was_observed() -> None:
    metrics = Metrics()
    metrics.begin("times", kind="a")
    metrics.begin("times", kind="a")
    assert set(buckets(metrics, "times").values()) == {0}
    metrics.observe("times", 1, kind="a")
    metrics.begin("times", kind="a")
    assert series(metrics)["times_count", frozenset({("kind", "a")})] == 1


def test_nothing_counted_is_nothing_rendered() -> None:
    assert Metrics().render() == b""


def test_a_renamed_counter_is_exported_under_its_old_name_too() -> None:
    metrics = Metrics()
    metrics.count("haulout_evictions_total", result="accepted", surface="s")
    lines = metrics.render().decode().splitlines()
    assert 'haulout_evictions_total{result="accepted",surface="s"} 1' in lines
    assert 'haulout_evictions{result="accepted",surface="s"} 1' in lines
    assert "# TYPE haulout_evictions counter" in lines


LONG = "x" * 2**20


def test_every_value_of_a_label_is_short() -> None:
    metrics = Metrics()
    metrics.from_source(lambda: [("sourced", (("owner", LONG),), 1.0)])
    metrics.add("counted", (("owner", LONG),))
    metrics.count("named", owner=LONG)
    metrics.gauge("level", 1, owner=LONG)
    metrics.observe("took", 1.0, owner=LONG)
    assert max(map(len, metrics.render().splitlines())) < 1024


def test_a_counter_of_a_long_label_is_forgotten_by_it() -> None:
    metrics = Metrics()
    metrics.count("named", owner=LONG)
    metrics.forget("named", owner=LONG)
    assert metrics.series("named") == {}


def test_a_source_has_no_more_series_than_its_metric_may_have() -> None:
    metrics = Metrics([Metric("gauge", "gauge", "help", labels=("owner",), most=3)])
    metrics.from_source(lambda: [("gauge", (("owner", str(number)),), 1.0) for number in range(10)])
    assert len(series(metrics)) == 3


def test_a_metric_that_declares_no_limit_has_one() -> None:
    metrics = Metrics()
    metrics.from_source(lambda: (("gauge", (("owner", str(number)),), 1.0) for number in range(MOST_SERIES + 10)))
    assert metrics.render().count(b"gauge{") == MOST_SERIES


def parsed(metrics: Metrics) -> dict[str, Family]:
    """Return the families of a scrape in OpenMetrics, as a strict parser reads it."""
    page = metrics.snapshot().render_openmetrics().decode()
    families: Iterable[Family] = read_openmetrics(page)  # type: ignore[no-untyped-call]
    return {each.name: each for each in families}


def test_an_exemplar_is_beside_the_bucket_that_its_value_fell_into() -> None:
    metrics = Metrics()
    for seconds, trace in ((20.0, "aa"), (30.0, "bb"), (4000.0, ""), (10**7, "cc")):
        metrics.observe("haulout_maintenance_seconds", seconds, trace, surface="notify")
    family = parsed(metrics)["haulout_maintenance_seconds"]
    exemplars = {
        each.labels["le"]: (each.exemplar.labels, each.exemplar.value)
        for each in family.samples
        if each.exemplar is not None
    }
    assert exemplars == {"60.0": ({"trace_id": "bb"}, 30.0), "+Inf": ({"trace_id": "cc"}, 10**7)}
    assert b"# {" not in metrics.render()


def test_every_declared_metric_is_valid_in_openmetrics() -> None:
    declared = [*KERNEL_METRICS, *(metric for each in surfaces() for metric in each.metrics)]
    metrics = Metrics(declared)
    for each in declared:
        labels = dict.fromkeys(each.labels, 'a "b"')
        acts: dict[str, Callable[[], None]] = {
            "counter": partial(metrics.count, each.name, **labels),
            "gauge": partial(metrics.gauge, each.name, 1.0, **labels),
            "histogram": partial(metrics.observe, each.name, 1.0, "ab" * 16, **labels),
        }
        acts[each.kind]()
    found = {sample.name for family in parsed(metrics).values() for sample in family.samples}
    names = {each.name if each.kind != "histogram" else f"{each.name}_bucket" for each in declared}
    assert names <= found


def test_a_counter_without_the_suffix_keeps_its_name_in_openmetrics() -> None:
    metrics = Metrics([Metric("evictions", "counter", "help")])
    metrics.count("evictions")
    metrics.count("haulout_evictions_total", result="evicted", surface="s")
    found = parsed(metrics)
    assert (found["evictions"].type, found["haulout_evictions"].type) == ("unknown", "counter")
    assert [each.name for each in found["haulout_evictions"].samples] == ["haulout_evictions_total"]
