"""K6, K8 and K9 of the decisions that look after the virtual machines under nodes."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG, OUTCOME, FactDemand
from haulout.core import cordon
from haulout.core.decision import Decider
from haulout.surfaces.esx.options import Options as EsxOptions
from haulout.surfaces.esx.surface import DECIDER as ESX_DECIDER
from haulout.surfaces.esx.vcenter import CHANNEL as ESX_CHANNEL
from haulout.surfaces.esx.vcenter import HOST_PROBE as ESX_HOST_PROBE
from haulout.surfaces.esx.vcenter import HostState
from haulout.surfaces.esx.wire import HOST_LABEL as ESX_HOST_LABEL
from haulout.surfaces.esx.wire import INITIATED_ANNOTATION as ESX_INITIATED_ANNOTATION
from haulout.surfaces.esx.wire import NAME as ESX_NAME
from haulout.surfaces.esx.wire import OK_LABEL as ESX_OK_LABEL
from haulout.surfaces.esx.wire import STATE_LABEL as ESX_STATE_LABEL
from haulout.surfaces.esx.wire import ZONE_LABEL as ESX_ZONE_LABEL
from haulout.surfaces.kubernikus.options import Options as KubernikusOptions
from haulout.surfaces.kubernikus.surface import DECIDER as KUBERNIKUS_DECIDER
from haulout.surfaces.kubernikus.wire import CHANNEL as KUBERNIKUS_CHANNEL
from haulout.surfaces.kubernikus.wire import DELETE_LABEL as KUBERNIKUS_DELETE_LABEL
from haulout.surfaces.kubernikus.wire import NAME as KUBERNIKUS_NAME
from haulout.surfaces.kubernikus.wire import UPDATE_LABEL as KUBERNIKUS_UPDATE_LABEL
from haulout.surfaces.kubernikus.wire import VERSION_PROBE as KUBERNIKUS_VERSION_PROBE
from tests.build.examples import examples
from tests.build.honesty import assert_claims_ignore_grants, assert_quiescent, assert_until_is_honest
from tests.build.podrows import owner, pod
from tests.build.rows import START, node

N = node_key("n")
PACE = timedelta(seconds=30)
KINDS = ("Node", "Pod", "PodDisruptionBudget", "DaemonSet")
LEDGERS = ('{"before":false,"by":["kubernikus"]}', '{"before":true,"by":[]}', '{"before":false,"by":["profiles"]}', "?")

instants = st.integers(-90_000, 90_000).map(lambda milliseconds: START + timedelta(milliseconds=milliseconds))
flags = st.booleans()


def store_of(rows: list[Row]) -> Store:
    store = Store()
    for kind in KINDS:
        store.begin_list("", kind)
        for row in rows:
            if row.key.kind == kind:
                store.put(row)
        store.end_list("", kind, 1)
    for row in rows:
        if row.key.kind not in KINDS:
            store.write(row)
    store.pass_time(START)
    return store


def assert_honest(decider: Decider, rows: list[Row], now: datetime, samples: list[datetime]) -> None:
    store = store_of(rows)
    assert_until_is_honest(decider, store, N, now, samples)
    assert_claims_ignore_grants(decider, store, N, now)
    assert_quiescent(decider, store, N, now)


def outcomes(names: tuple[str, ...]) -> st.SearchStrategy[list[Row]]:
    states = st.sampled_from(("done", "failed", "pending"))

    def row(name: str, state: str, at: datetime) -> Row:
        error = "no" if state == "failed" else ""
        return Value(key=Key("", OUTCOME, "", name), state=state, value=at, error=error)

    return st.lists(st.builds(row, st.sampled_from(names), states, instants), max_size=2)


def pods(draw: st.DrawFn) -> list[Row]:
    kinds = draw(st.lists(st.sampled_from(("ReplicaSet", "DaemonSet")), max_size=2))
    return [pod(f"p{number}", owner(kind), node="n") for number, kind in enumerate(kinds)]


@st.composite
def kubernikus_rows(draw: st.DrawFn) -> list[Row]:
    labels = draw(
        st.fixed_dictionaries(
            {},
            optional={
                KUBERNIKUS_DELETE_LABEL: st.sampled_from(("true", "yes")),
                KUBERNIKUS_UPDATE_LABEL: st.sampled_from(("true", "false")),
            },
        )
    )
    notes = draw(st.fixed_dictionaries({}, optional={cordon.ANNOTATION: st.sampled_from(LEDGERS)}))
    version = draw(st.sampled_from(("v1.2.3", "v1.2.4", "")))
    own = _node(labels, notes, unschedulable=draw(flags), kubelet_version=version)
    options = KubernikusOptions(PACE, force=draw(flags), alone=draw(flags))
    config = Value(key=Key("", CONFIG, "", KUBERNIKUS_NAME), value=options)
    known = draw(st.sampled_from(({"value": "v1.2.3", "state": "fresh"}, {"error": "no", "failures": 1}, {})))
    fact = Value(key=FactDemand(KUBERNIKUS_VERSION_PROBE, "", PACE).key, **known)  # type: ignore[arg-type]
    sent = draw(outcomes((f"{KUBERNIKUS_CHANNEL}/n/{own.uid}",)))
    return [own, config, fact, *sent, *pods(draw)]


@st.composite
def esx_rows(draw: st.DrawFn) -> list[Row]:
    labels = {ESX_HOST_LABEL: "h", ESX_ZONE_LABEL: draw(st.sampled_from(("z-a", "")))}
    labels |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                ESX_OK_LABEL: st.sampled_from(("true", "no")),
                ESX_STATE_LABEL: st.sampled_from(("true", "false", "alarm")),
            },
        )
    )
    notes = draw(
        st.fixed_dictionaries(
            {},
            optional={cordon.ANNOTATION: st.sampled_from(LEDGERS), ESX_INITIATED_ANNOTATION: st.just("true")},
        )
    )
    own = _node(labels, notes, unschedulable=draw(flags))
    options = EsxOptions(PACE, 0.0, draw(flags), PACE, PACE, frozenset({"x"}), alone=draw(flags))
    config = Value(key=Key("", CONFIG, "", ESX_NAME), value=options)
    states = (HostState("8"), HostState("8", in_maintenance=True), HostState(alarms=("x",)), None)
    state = draw(st.sampled_from(states))
    key = FactDemand(ESX_HOST_PROBE, ("h", "a"), PACE).key
    fact = Value(key=key, value=state, state="fresh") if state else Value(key=key, error="no", failures=1)
    sent = draw(outcomes(tuple(f"{ESX_CHANNEL}/{what}/n/{own.uid}" for what in ("start", "stop"))))
    return [own, config, fact, *sent, *pods(draw)]


def _node(labels: dict[str, str], notes: dict[str, str], **fields: object) -> NodeRow:
    return msgspec.structs.replace(node("n"), labels=labels, annotations=notes, **fields)


@settings(max_examples=examples(200))
@given(kubernikus_rows(), instants, st.lists(instants, max_size=3))
def test_kubernikus(rows: list[Row], now: datetime, samples: list[datetime]) -> None:
    assert_honest(KUBERNIKUS_DECIDER, rows, now, samples)


@settings(max_examples=examples(200))
@given(esx_rows(), instants, st.lists(instants, max_size=3))
def test_esx(rows: list[Row], now: datetime, samples: list[datetime]) -> None:
    assert_honest(ESX_DECIDER, rows, now, samples)
