"""Every built-in check keeps the kernel's rules: K6, K8 and K9, alone and negated."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import within
from haulout.cluster.rows import LeaseRow, Row, Value
from haulout.cluster.view import FactDemand
from haulout.core.action import Create
from haulout.plugins.checks.kubernikus_count import PROBE as POOL_SIZE
from haulout.plugins.checks.prometheus_instant import PROBE, Sample
from haulout.surfaces.profiles.load import known_plugins, load
from haulout.surfaces.profiles.surface import DECIDER
from haulout.surfaces.profiles.wire import DATA_ANNOTATION, PROFILE_LABEL
from tests.build.checks import fleet, hypervisor, member, pod
from tests.build.honesty import assert_claims_ignore_grants, assert_quiescent, assert_until_is_honest
from tests.build.rows import START, at, node

A = node_key("a")
CHECKS = {
    "hasLabel": "{key: v}",
    "hasAnnotation": "{key: note}",
    "anyLabel": "{key: v, value: 1.0.0}",
    "condition": '{type: Ready, status: "True"}',
    "nodeCount": "{count: 2}",
    "kubernikusCount": "{cluster: mine}",
    "clusterSemver": "{key: v}",
    "maxMaintenance": "{max: 1}",
    "wait": "{duration: 5m}",
    "waitExclude": "{duration: 30h, exclude: [mon, wed]}",
    "timeWindow": '{start: "10:10", end: "11:00", weekdays: [sun, mon], timezone: Europe/Lisbon}',
    "affinity": "{minOperational: 2}",
    "prometheusInstant": "{url: http://p, query: up, expr: value > 1}",
    "stagger": "{duration: 90s, leaseName: l, leaseNamespace: ns, parallel: 2}",
    "checkHypervisor": "{evicted: true}",
    "hypervisorCondition": '{type: Ready, status: "True"}',
}


def config(check: str, expression: str) -> str:
    step = f"{{transitions: [{{check: '{expression}', next: in-maintenance}}]}}"
    return f"""
intervals: {{requeue: 30s}}
instances: {{check: [{{type: {check}, name: x, config: {CHECKS[check]}}}]}}
profiles: [{{name: p, operational: {step}, maintenance-required: {step}}}]
"""


def lease(number: int, seconds: int) -> LeaseRow:
    key = Key("", within("Lease", "ns"), "ns", f"l-{number}")
    return LeaseRow(key=key, uid=key.name, version=1, duration_for=60, renewed_at=at(seconds), acquired_at=at(seconds))


def made(create: Create) -> Row:
    """Return a lease as a server would make it."""
    renewed = datetime.fromisoformat(create.body["spec"]["renewTime"])
    seconds = create.body["spec"]["leaseDurationSeconds"]
    return LeaseRow(key=create.target, uid="new", version=1, duration_for=seconds, renewed_at=renewed)


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    state = draw(st.sampled_from(("operational", "maintenance-required")))
    own = member("a", p=state)
    labels = {PROFILE_LABEL: "p", **draw(st.fixed_dictionaries({}, optional={"v": st.just("1.0.0")}))}
    notes = {DATA_ANNOTATION: own.annotations[DATA_ANNOTATION]}
    notes |= draw(st.fixed_dictionaries({}, optional={"note": st.just("x")}))
    found: list[Row] = [msgspec.structs.replace(own, labels=labels, annotations=notes)]
    others = [member("b", p=draw(st.sampled_from(("operational", "maintenance-required")))), node("c", v="2.0.0")]
    answer = Value(key=FactDemand(PROBE, ("http://p", "up"), timedelta(0)).key, value=Sample("2"), state="fresh")
    size = Value(key=FactDemand(POOL_SIZE, ("mine", "", ""), timedelta(0)).key, value=2, state="fresh")
    more = [
        *others,
        size,
        pod("w", "a"),
        hypervisor("a", status={"evicted": True}),
        answer,
        lease(0, -10),
        lease(1, -100),
    ]
    return found + [row for row in more if draw(st.booleans())]


# Never the very instant of a transition: a claim since then and a claim since now would look alike.
instants = st.integers(-86_400, 5 * 86_400).map(lambda seconds: START + timedelta(seconds=seconds + 0.5))


@pytest.mark.parametrize("expression", ["x", "!x"])
@pytest.mark.parametrize("check", sorted(CHECKS))
@settings(max_examples=6, deadline=None)
@given(rows=rows(), now=instants, samples=st.lists(instants, max_size=3))
def test_k6_k8_k9(check: str, expression: str, rows: list[Row], now: datetime, samples: list[datetime]) -> None:
    loaded = load(config(check, expression), known_plugins(), source="maintenance.yaml", environment={})
    needed = {"Node", "Fact", *loaded.checks["x"].plugin.needs(loaded.checks["x"].config)}
    store = fleet(loaded, *(row for row in rows if row.key.kind in needed), now=now)
    assert_until_is_honest(DECIDER, store, A, now, samples)
    assert_claims_ignore_grants(DECIDER, store, A, now)
    assert_quiescent(DECIDER, store, A, now, create=made)


def test_no_check_is_left_out() -> None:
    assert set(CHECKS) == set(known_plugins().checks)
