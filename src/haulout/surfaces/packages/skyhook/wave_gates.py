"""The gate after a wave: soak time, share of erroring nodes, and a Prometheus query."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from haulout.base import bounds
from haulout.base.arithmetic import FormulaError, truth
from haulout.cluster.view import FactDemand, View
from haulout.model.meta import wire_time
from haulout.plugins.checks.prometheus_instant import Sample
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.wire import ERRORING
from haulout.surfaces.packages.wire_policy import PrometheusGate, WaveGate
from haulout.surfaces.packages.wire_status import AwaitedGate

PROBE = "packages-gate"
# How long to wait before a Prometheus server that gave no answer is asked again.
PACE_FOR = timedelta(seconds=15)

SOAKING, QUERY_AWAITED, UNREACHABLE, INVALID = "Soaking", "QueryAwaited", "PrometheusUnreachable", "GateInvalid"
TOO_MANY_ERRORS, NOT_FULFILLED = "ErrorThresholdExceeded", "QueryNotFulfilled"


class GateQuestion(msgspec.Struct, frozen=True):
    """A question to Prometheus.

    `since`: when the wave ended, so that an answer for an earlier wave does not count for this one.
    """

    url: str
    query: str
    since: str


class GatePassed(msgspec.Struct, frozen=True):
    """The outcome of a gate that lets the next wave begin."""


class GatePending(msgspec.Struct, frozen=True):
    """The outcome of a gate that has neither passed nor failed.

    `until`: when to judge it again; None if time alone does not change it.
    """

    reason: str
    text: str
    until: datetime | None = None


class GateFailed(msgspec.Struct, frozen=True):
    """The outcome of a gate that the wave has failed."""

    reason: str
    text: str


GateVerdict = GatePassed | GatePending | GateFailed


def begin_gate(wave: int, nodes: tuple[str, ...], generation: int, now: datetime) -> AwaitedGate:
    return AwaitedGate(wave, nodes, wire_time(now), generation)


def judge_gate(
    gate: WaveGate, wave: AwaitedGate, members: Sequence[NodeStanding], now: datetime, view: View, *, is_stored: bool
) -> GateVerdict:
    """Return the outcome of a wave's gate.

    `is_stored`: the end of the wave is stored. Prometheus is not asked before.
    """
    if gate.problem:
        return GatePending(INVALID, gate.problem)
    failing = _too_many_errors(gate, wave, members)
    if failing is not None:
        return failing
    soaked_at = (instant_of(wave.since) or now) + gate.soak_for
    if now < soaked_at:
        return GatePending(SOAKING, f"it soaks until {wire_time(soaked_at)}", soaked_at)
    if gate.prometheus is None:
        return GatePassed()
    if not is_stored:
        return GatePending(QUERY_AWAITED, _AWAITS_ANSWER)
    return _query_outcome(gate.prometheus, wave, view)


_AWAITS_ANSWER = "the answer of Prometheus is awaited"


def _too_many_errors(gate: WaveGate, wave: AwaitedGate, members: Sequence[NodeStanding]) -> GateFailed | None:
    names = frozenset(wave.nodes)
    ours = [node for node in members if node.node in names]
    erroring = sum(node.status == ERRORING and not node.is_complete for node in ours)
    allowed = gate.error_threshold
    if allowed is None or not ours or erroring * 100 <= allowed * len(ours):
        return None
    text = f"{erroring} of its {len(ours)} nodes are erroring, and at most {allowed} % may be"
    return GateFailed(TOO_MANY_ERRORS, text)


def _query_outcome(asks: PrometheusGate, wave: AwaitedGate, view: View) -> GateVerdict:
    fact = view.fact(FactDemand(PROBE, GateQuestion(asks.url, asks.query, wave.since), PACE_FOR))
    if fact.error:
        return GatePending(UNREACHABLE, f"Prometheus gave no answer that can be used: {fact.error}")
    if not isinstance(fact.value, Sample):
        return GatePending(QUERY_AWAITED, _AWAITS_ANSWER)
    value = float(fact.value.value)
    try:
        if truth(asks.expr, {"value": value}):
            return GatePassed()
    except FormulaError as error:
        return GatePending(INVALID, f"gate: prometheus: expr: {error}")
    return GateFailed(NOT_FULFILLED, f"Prometheus answers {value:g}, which does not fulfil {asks.expr!r}")


def instant_of(text: str) -> datetime | None:
    """Return a stored time; None if the text is not one. People can write the status."""
    try:
        return bounds.instant(datetime.fromisoformat(text))
    except ValueError:
        return None
