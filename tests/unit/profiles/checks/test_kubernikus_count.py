"""kubernikusCount: its judgement, without the probe."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.cluster.rows import Value
from haulout.cluster.view import FactDemand
from haulout.plugins.checks.kubernikus_count import PROBE
from tests.build.checks import judged, refusal
from tests.build.rows import node

CONFIG = "{cluster: mine}"


def fact(place: tuple[str, str] = ("", ""), **known: object) -> Value:
    key = FactDemand(PROBE, ("mine", *place), timedelta(seconds=30)).key
    return Value(key=key, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "passes", "reason"),
    [
        (1, True, "found equal or more nodes than specified by nodepool"),
        (2, True, "found equal or more nodes than specified by nodepool"),
        (3, False, "found less nodes than specified by nodepool"),
    ],
)
def test_as_many_nodes_as_the_pools_ask_for(size: int, passes: bool, reason: str) -> None:
    verdict = judged("kubernikusCount", CONFIG, node("n"), node("m"), fact(value=size, state="fresh"))
    assert (verdict.passed, verdict.info) == (passes, {"reason": reason})


def test_nothing_is_said_before_the_first_answer() -> None:
    verdict = judged("kubernikusCount", CONFIG)
    assert (verdict.known, verdict.passed, verdict.error) == (False, False, "")


def test_g17_an_error_is_not_a_small_cluster() -> None:
    verdict = judged("kubernikusCount", CONFIG, node("n"), fact(value=0, state="stale", error="no", failures=2))
    assert (verdict.passed, verdict.error, verdict.times) == (False, "no", 2)


@pytest.mark.parametrize(
    ("secret", "place"),
    [
        ("{name: s, namespace: ns}", ("ns", "s")),
        ("{name: s}", ("", "")),
        ("{namespace: ns}", ("", "")),
        ("null", ("", "")),
    ],
)
def test_a_secret_needs_both_its_names(secret: str, place: tuple[str, str]) -> None:
    config = f"{{cluster: mine, cloudProviderSecret: {secret}}}"
    assert judged("kubernikusCount", config, node("n"), fact(place, value=1, state="fresh")).passed


def test_needs_a_cluster() -> None:
    assert refusal("check", "kubernikusCount", "{}") == "string value is not set"
