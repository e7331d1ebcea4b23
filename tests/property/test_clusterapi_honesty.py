"""The four decisions of the clusterapi surface keep the kernel's rules: K6, K8 and K9."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key
from haulout.cluster.rows import Connection, Row
from haulout.cluster.store import Store
from haulout.core.decision import Decider
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.surface import DECIDERS
from haulout.surfaces.clusterapi.wire import (
    CLEANUP,
    MACHINE,
    ORIGINAL,
    PAUSED,
    REBOOT_MODE,
    REQUESTED_BY,
    SKIP_OWNED,
    SKIP_REMEDIATION,
    Workload,
)
from tests.build.examples import examples
from tests.build.honesty import assert_claims_ignore_grants, assert_quiescent, assert_until_is_honest
from tests.build.machines import (
    ALPHA,
    FAR,
    HOSTS,
    KUBECONFIG,
    MACHINES,
    ORPHANS,
    RELEASE,
    H,
    M,
    ask,
    cluster,
    connection,
    host,
    machine,
    node,
    picture,
    secret,
    seen_gone,
)
from tests.build.rows import START, at

T = TypeVar("T")
ABOUT = {MACHINES: M, RELEASE: M, ORPHANS: Key(FAR, Connection.KIND, "", ""), HOSTS: H}
values = st.sampled_from((None, "true", "foreign"))
instants = st.integers(-7200, 2 * 86_400).map(lambda seconds: START + timedelta(seconds=seconds + 0.5))
seconds = st.integers(-7200, 7200)
providers = st.sampled_from(("", "metal3://fleet/h/m3", "metal3://fleet/h"))
notes = st.fixed_dictionaries(
    {},
    optional={
        CLEANUP: st.sampled_from(("2026-03-01T09:55:00Z", "2026-03-01T10:05:00Z", "broken")),
        SKIP_REMEDIATION: st.just(""),
        SKIP_OWNED: st.just("true"),
        REQUESTED_BY: st.just("workload"),
        REBOOT_MODE: st.just("hard"),
    },
)


def rarely(value: T, otherwise: T) -> st.SearchStrategy[T]:
    """Draw a value only rarely, because it ends most decisions at once and would hide the rest of them."""
    return st.sampled_from((*(otherwise,) * 7, value))


@st.composite
def machines(draw: st.DrawFn, name: str) -> Row:
    return machine(
        name,
        node=draw(st.sampled_from(("n", "n", "o", ""))) if name == "m" else "o",
        enabled=draw(st.sampled_from(("true", "true", None, "no"))),
        request=draw(st.sampled_from((None, "requested", "approved", "other"))),
        deleting=draw(st.none() | seconds),
        hook=draw(st.sampled_from((None, ORIGINAL, "foreign"))),
        provider=draw(providers),
        notes={**draw(notes), **draw(rarely({PAUSED: ""}, {}))},
    )


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Row:
    return node(
        name,
        state=draw(rarely(None, "operational")),
        deleted=draw(values),
        maintenance=draw(values),
        approve_deletion=draw(values),
        approve_maintenance=draw(values),
        wish=draw(values),
        claims=draw(st.sampled_from((None, ALPHA, ALPHA, Workload("fleet", "beta")))),
    )


@st.composite
def hosts(draw: st.DrawFn) -> Row:
    return host(
        reboot=draw(st.sampled_from((None, "", '{"mode":"hard"}', "foreign"))),
        consumer=draw(st.sampled_from(("", "m3", "another"))),
        consumer_namespace=draw(st.sampled_from(("", "fleet", "other"))),
        stays_on=draw(st.booleans()),
    )


states = st.sampled_from((*(Connection.FINE,) * 4, Connection.CONNECTING, Connection.REJECTED, "unreachable"))
flags = st.builds(
    Options,
    enable_metal3_maintenance=st.just(True),
    guard_remediation=st.booleans(),
    approval_hygiene=st.booleans(),
    deletion_approval_timeout=st.sampled_from((timedelta(), timedelta(minutes=5), timedelta(hours=2))),
    reboot_mode_annotation=st.booleans(),
    workload_requests=st.booleans(),
)


@st.composite
def stores(draw: st.DrawFn) -> Store:
    rows = [
        draw(machines("m")),
        *draw(st.lists(machines("other"), max_size=1)),
        *draw(rarely([], [draw(nodes("n"))])),
        *draw(st.lists(nodes("o"), max_size=1)),
        draw(hosts()),
        *draw(st.lists(st.builds(cluster, paused=rarely(True, False)), max_size=1)),
        *draw(st.lists(st.builds(secret, rarely(None, b"kubeconfig")), max_size=1)),
        draw(st.builds(connection, states, since=seconds)),
        *draw(st.lists(st.builds(seen_gone, state=st.sampled_from(("fresh", "stale"))), max_size=1)),
    ]
    places = st.sets(st.sampled_from((("", KUBECONFIG), (FAR, "Node"))), max_size=1)
    return picture(*rows, options=draw(flags), waiting=draw(rarely(draw(places), set())))


@pytest.mark.parametrize("decider", DECIDERS, ids=lambda decider: decider.name)
@settings(max_examples=examples(120), deadline=None)
@given(store=stores(), now=instants, before=st.none() | seconds, samples=st.lists(instants, max_size=4))
def test_k6_k8_k9(decider: Decider, store: Store, now: datetime, before: float | None, samples: list[datetime]) -> None:
    key = ABOUT[decider]
    if before is not None:
        # It remembers an earlier time.
        ask(decider, store, min(now, at(before)), key)
    # The loop stores what it wants to remember before it asks again.
    ask(decider, store, now, key)
    assert_until_is_honest(decider, store, key, now, samples)
    assert_claims_ignore_grants(decider, store, key, now)
    assert_quiescent(decider, store, key, now)


def test_no_decision_is_left_out() -> None:
    assert set(ABOUT) == set(DECIDERS)
    assert {decider.kind for decider in DECIDERS} == {MACHINE, Connection.KIND, H.kind}
