"""K6, K8 and K9 of NodeMaintenances and of the decisions that a drain is made of."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import within
from haulout.cluster.rows import LeaseRow, NodeRow, ObjectRow, Row, Taint, Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG, OUTCOME, View
from haulout.core.action import Create, Patch, Refusal
from haulout.core.decision import Decider, Decision
from haulout.core.drain import eviction, pace, plan
from haulout.core.drain.options import DrainOptions, drain_row
from haulout.core.drain.pace import PERMITS_OF_BUDGET, Permit, permit_key
from haulout.core.drain.plan import EvictionRow, eviction_key, outcome_name
from haulout.model.lease import LeaseSpec
from haulout.model.meta import OwnerReference
from haulout.surfaces.nodemaintenance.options import REPORT_EVERY_FOR, Options
from haulout.surfaces.nodemaintenance.surface import DECIDERS
from haulout.surfaces.nodemaintenance.wire import FINALIZER, DrainSpec, MaintenanceRow, Status
from tests.build.examples import examples
from tests.build.honesty import FAR, MOMENT, assert_claims_ignore_grants, assert_quiescent, assert_until_is_honest
from tests.build.maintenances import maintenance_key
from tests.build.podrows import budget, budget_key, owner, pod, pod_key
from tests.build.rows import START, at, node

(_MAINTENANCE, *_) = DECIDERS
NAME, N0 = maintenance_key("a"), node_key("n0")
LEASES = within("Lease", "medik8s-leases")
LEASE = Key("", LEASES, "medik8s-leases", "node-n0")
KINDS = ("Node", "Pod", "PodDisruptionBudget", "DaemonSet", "NodeMaintenance", LEASES)

seconds = st.integers(-200, 60).map(float)
instants = st.integers(-60_000, 60_000).map(lambda milliseconds: START + timedelta(milliseconds=milliseconds))
samples = st.lists(instants, max_size=4)


def store_of(*rows: Row) -> Store:
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


# Of maintenances

drains = st.builds(
    DrainSpec,
    timeout_seconds=st.sampled_from([None, 0, 10]),
    deadline_seconds=st.sampled_from([None, 20]),
    deadline_action=st.sampled_from([None, "ForceDelete"]),
    skip_wait_for_delete_timeout_seconds=st.sampled_from([None, 5]),
    dry_run=st.sampled_from([None, None, None, True]),
    pod_selector=st.sampled_from([None, None, "app=web", "=="]),
    force=st.sampled_from([None, False]),
)
statuses = st.builds(
    Status,
    phase=st.sampled_from(["", "Running", "Running", "Succeeded", "Failed"]),
    last_update=st.none() | st.integers(-60, 0).map(at),
    last_error=st.sampled_from(["", "old"]),
    error_on_lease_count=st.sampled_from([0, 0, 1, 4]),
    eviction_pods=st.integers(0, 3),
)
options = st.builds(
    Options,
    restore_node_state=st.booleans(),
    alone=st.booleans(),
    lease_duration=st.sampled_from([timedelta(seconds=30), timedelta(hours=1)]),
    max_concurrent_maintenances=st.sampled_from([0, 1]),
)


@st.composite
def maintenances(draw: st.DrawFn) -> MaintenanceRow:
    uid = draw(st.sampled_from(["uid-n0", "uid-old"]))
    return MaintenanceRow(
        key=NAME,
        uid="uid-a",
        version=1,
        node=draw(st.sampled_from(["n0", "n0", "n0", "n0", "gone", ""])),
        drain=draw(drains),
        status=draw(statuses),
        finalizers=draw(st.sampled_from([(), (FINALIZER,), (FINALIZER,), (FINALIZER,)])),
        deleting_at=draw(st.sampled_from([None, None, None, START])),
        created_at=at(-100),
        owners=draw(st.sampled_from([(), (OwnerReference("v1", "Node", "n0", uid),)])),
        seen="seen",
    )


@st.composite
def nodes(draw: st.DrawFn) -> NodeRow:
    made = node("n0", cordoned=draw(st.booleans()))
    taints = (Taint("medik8s.io/drain", "NoSchedule"), Taint("node.kubernetes.io/unschedulable", "NoSchedule"))
    label = {"remediation.medik8s.io/exclude-from-remediation": draw(st.sampled_from(["true", "no"]))}
    return msgspec.structs.replace(
        made,
        taints=draw(st.sampled_from([(), taints, taints, taints[:1]])),
        labels=draw(st.sampled_from([{}, label, label])),
        conditions=(("Ready", draw(st.sampled_from(["True", "Unknown"]))),),
    )


@st.composite
def leases(draw: st.DrawFn) -> LeaseRow:
    renewed_at = at(draw(seconds))
    return LeaseRow(
        key=LEASE,
        uid="uid-lease",
        version=1,
        holder=draw(st.sampled_from(["node-maintenance", "node-maintenance", "other", None])),
        duration_for=draw(st.sampled_from([30, 3600])),
        renewed_at=renewed_at,
        acquired_at=draw(st.sampled_from([None, renewed_at, at(-150)])),
        annotations=draw(st.sampled_from([{}, {"haulout.dev/seen": "seen"}])),
    )


@st.composite
def pods(draw: st.DrawFn, name: str) -> list[Row]:
    """Draw a pod and what is known of its eviction."""
    made = pod(
        name,
        *draw(st.sampled_from([(), (owner(),), (owner("DaemonSet", "agent"),)])),
        labels={"app": "web"},
        phase=draw(st.sampled_from(["Running", "Running", "Pending", "Succeeded"])),
        ready=draw(st.booleans()),
        deleting_at=draw(st.none() | seconds.map(at)),
        deletion_grace_for=30,
        local_data=draw(st.booleans()),
    )
    rows: list[Row] = [made]
    if draw(st.booleans()):
        rows.append(permit(name, granted=draw(st.booleans())))
    if draw(st.booleans()):
        code, cause = draw(st.sampled_from([(429, "DisruptionBudget"), (500, ""), (403, "NamespaceTerminating")]))
        rows.append(refusal(name, Refusal(code, "no", cause, at(draw(st.integers(-40, 0))))))
    return rows


def permit(name: str, *, granted: bool, **fields: Any) -> Permit:
    who = {"pod": pod_key(name), "pod_uid": f"uid-{name}", "budget": budget_key("web")}
    given = {"granted": granted, "charged": granted, "waiting_since": at(-10), **who, **fields}
    return Permit(key=permit_key(budget_key("web"), pod_key(name)), **given)


def refusal(name: str, value: Refusal) -> Value:
    key = Key("", OUTCOME, "", outcome_name(pod_key(name), f"uid-{name}"))
    return Value(key=key, state="failed", value=value)


def created(action: Create) -> Row:
    """Return the lease that a maintenance creates."""
    spec, metadata = action.body["spec"], action.body["metadata"]
    renewed_at = datetime.fromisoformat(spec["renewTime"])
    return LeaseRow(
        key=action.target,
        uid="uid-new",
        version=2**40,
        holder=spec["holderIdentity"],
        duration_for=spec["leaseDurationSeconds"],
        renewed_at=renewed_at,
        acquired_at=renewed_at,
        annotations=metadata["annotations"],
    )


def carried_out(key: Key, view: View, now: datetime) -> Decision:
    """Return the decision, with the effects that a server would give to its patches."""
    decision = _MAINTENANCE.decide(key, view, now)
    steps = tuple(tuple(_with_effect(action, view) for action in step) for step in decision.actions)
    return msgspec.structs.replace(decision, actions=steps)


def _with_effect(action: Any, view: View) -> Any:
    if not isinstance(action, Patch) or action.becomes is not None:
        return action
    metadata, spec = action.body.get("metadata", {}), action.body.get("spec", {})
    row = view.recall(action.target, ObjectRow)
    becomes: Row
    if isinstance(row, MaintenanceRow):
        owners = msgspec.convert(metadata["ownerReferences"], tuple[OwnerReference, ...])
        becomes = msgspec.structs.replace(row, owners=owners)
    else:
        assert isinstance(row, LeaseRow)
        told = msgspec.convert(spec, LeaseSpec)
        becomes = msgspec.structs.replace(
            row,
            holder=told.holder_identity,
            duration_for=told.lease_duration_seconds,
            renewed_at=told.renew_time,
            acquired_at=told.acquire_time or row.acquired_at,
            annotations=metadata["annotations"],
        )
    return msgspec.structs.replace(action, becomes=becomes)


MAINTENANCE = msgspec.structs.replace(_MAINTENANCE, decide=carried_out)


@settings(max_examples=examples(250), deadline=None, derandomize=True)
@given(
    row=maintenances(),
    found=st.none() | nodes(),
    lease=st.none() | leases(),
    there=st.tuples(pods("p"), pods("q")),
    given_options=options,
    at_instants=samples,
)
def test_k6_k8_k9_of_maintenances(
    row: MaintenanceRow,
    found: NodeRow | None,
    lease: LeaseRow | None,
    there: tuple[list[Row], list[Row]],
    given_options: Options,
    at_instants: list[datetime],
) -> None:
    rows = [each for each in (row, found, lease) if each is not None]
    setting = Value(key=Key("", CONFIG, "", MAINTENANCE.name), value=given_options)
    store = store_of(*rows, setting, *there[0], *there[1])
    now = START + timedelta(microseconds=7)
    store.pass_time(now)
    assert_until_is_honest(MAINTENANCE, store, NAME, now, at_instants)
    assert_claims_ignore_grants(MAINTENANCE, store, NAME, now)
    assert_quiescent(MAINTENANCE, store, NAME, now, create=created)


@settings(max_examples=examples(250), deadline=None, derandomize=True)
@given(
    drain=drains,
    status=statuses,
    ready=st.sampled_from(["True", "Unknown"]),
    there=st.tuples(pods("p"), pods("q")),
    skip_for=st.sampled_from([timedelta(), timedelta(seconds=9)]),
    at_instants=samples,
)
def test_k6_k8_k9_of_maintenances_whose_nodes_are_prepared(
    drain: DrainSpec,
    status: Status,
    ready: str,
    there: tuple[list[Row], list[Row]],
    skip_for: timedelta,
    at_instants: list[datetime],
) -> None:
    """Most of what the draws above make does not get as far as its pods."""
    row = MaintenanceRow(
        key=NAME,
        uid="uid-a",
        version=1,
        node="n0",
        drain=drain,
        status=status,
        finalizers=(FINALIZER,),
        created_at=at(-100),
        owners=(OwnerReference("v1", "Node", "n0", "uid-n0"),),
        seen="seen",
    )
    found = msgspec.structs.replace(
        node("n0", cordoned=True),
        taints=(Taint("node.kubernetes.io/unschedulable", "NoSchedule"), Taint("medik8s.io/drain", "NoSchedule")),
        labels={"remediation.medik8s.io/exclude-from-remediation": "true"},
        conditions=(("Ready", ready),),
    )
    lease = LeaseRow(
        key=LEASE,
        uid="uid-lease",
        version=1,
        holder="node-maintenance",
        duration_for=3600,
        renewed_at=at(-30),
        acquired_at=at(-30),
        annotations={"haulout.dev/seen": "seen"},
    )
    setting = Value(key=Key("", CONFIG, "", MAINTENANCE.name), value=Options(skip_unreachable_after=skip_for))
    store = store_of(row, found, lease, setting, *there[0], *there[1])
    now = START + timedelta(microseconds=7)
    store.pass_time(now)
    assert_until_is_honest(MAINTENANCE, store, NAME, now, at_instants)
    assert_claims_ignore_grants(MAINTENANCE, store, NAME, now)
    assert_quiescent(MAINTENANCE, store, NAME, now, create=created)
    # Only what has reported everything waits for nothing but its pods.
    reported_at = now + REPORT_EVERY_FOR
    store.pass_time(reported_at)
    assert_quiescent(MAINTENANCE, store, NAME, reported_at, create=created)
    assert_until_is_honest(MAINTENANCE, store, NAME, reported_at, at_instants)


# Of the drain's own decisions: their answers are rows


def assert_answers_are_honest(
    decider: Decider, store: Store, key: Key, now: datetime, essence: Any, at_instants: list[datetime]
) -> None:
    """On unchanged rows the answer stays what it is until `until`; given again as its own memory it stays, too."""
    first = decider.decide(key, View(store), now)
    near = [now + MOMENT, *((now + (first.until - now) / 2, first.until - MOMENT) if first.until else ())]
    for instant in sorted({*at_instants, *near, *(now + span for span in FAR)}):
        if now <= instant and (first.until is None or instant < first.until):
            later = decider.decide(key, View(store), instant)
            assert essence(later) == essence(first), f"at {instant}, although not before {first.until}"
    assert first.until is None or first.until > now, "hurrying in place"


def evictions_of(decision: Decision) -> Hashable:
    return tuple(mark for mark in decision.marks if isinstance(mark, EvictionRow))


def grants_of(decision: Decision) -> Hashable:
    permits = (mark for mark in decision.marks if isinstance(mark, Permit))
    return tuple((each.pod, each.granted, each.charged, each.gone_at is None) for each in permits)


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(
    there=st.tuples(pods("p"), pods("q")),
    found=nodes(),
    given_options=st.builds(
        DrainOptions,
        force=st.booleans(),
        ignore_daemonsets=st.booleans(),
        delete_local_data=st.booleans(),
        skip_ending_for=st.sampled_from([0, 5]),
        skip_lost_for=st.sampled_from([0, 9]),
    ),
    deadline_at=st.none() | instants,
    force_after=st.booleans(),
    at_instants=samples,
)
def test_k6_of_what_is_to_go(
    there: tuple[list[Row], list[Row]],
    found: NodeRow,
    given_options: DrainOptions,
    deadline_at: datetime | None,
    force_after: bool,
    at_instants: list[datetime],
) -> None:
    wish = drain_row("toy", N0, N0, options=given_options, deadline_at=deadline_at, force_after=force_after)
    store = store_of(found, wish, *there[0], *there[1])
    assert_answers_are_honest(plan.DECIDER, store, N0, START, evictions_of, at_instants)


@st.composite
def wishes(draw: st.DrawFn, name: str) -> list[Row]:
    made = pod(name, labels={"app": "web"}, ready=draw(st.booleans()), version=draw(st.integers(1, 9)))
    rows: list[Row] = [made]
    if draw(st.booleans()):
        given = {"healthy": made.ready, "labels": {"app": "web"}, "since": at(draw(st.integers(-9, 0)))}
        rows.append(EvictionRow(key=eviction_key(made.key), uid=made.uid, pod=made.key, node=N0, **given))  # type: ignore[arg-type]
    if draw(st.booleans()):
        tried_at = draw(st.none() | st.integers(-40, 0).map(at))
        gone_at = draw(st.none() | st.integers(-9, 0).map(at))
        granted, charged = draw(st.booleans()), draw(st.booleans())
        rows.append(permit(name, granted=granted, charged=charged, tried_at=tried_at, tried_version=1, gone_at=gone_at))
    if draw(st.booleans()):
        code, cause = draw(st.sampled_from([(429, "DisruptionBudget"), (500, "")]))
        rows.append(refusal(name, Refusal(code, "no", cause, at(draw(st.integers(-40, 0))))))
    return rows


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(
    there=st.tuples(wishes("p"), wishes("q"), wishes("r")),
    allowed=st.integers(0, 3),
    healthy=st.integers(0, 3),
    version=st.integers(1, 5),
    disrupted=st.frozensets(st.sampled_from("pqr")),
    quiet=st.none() | st.integers(-40, 0).map(at),
    at_instants=samples,
)
def test_k6_and_k9_of_who_may_go(
    there: tuple[list[Row], ...],
    allowed: int,
    healthy: int,
    version: int,
    disrupted: frozenset[str],
    quiet: datetime | None,
    at_instants: list[datetime],
) -> None:
    row = budget("web", allowed=allowed, current_healthy=healthy, version=version, disrupted=disrupted)
    known = [pace.Quiet(key=Key("", "Permit", "default", "web"), since=quiet, version_seen=version)] if quiet else []
    store = store_of(row, *known, *(each for rows in there for each in rows))
    remember(store, START)
    settled = pace.decide(row.key, View(store), START)
    remember(store, START)
    again = pace.decide(row.key, View(store), START)
    assert grants_of(again) == grants_of(settled), "asked again on its own answer, it says the same"
    assert_answers_are_honest(pace.DECIDER, store, row.key, START, grants_of, at_instants)


def remember(store: Store, now: datetime) -> None:
    """Store the decision's marks, which it reads when it is asked again."""
    decision = pace.decide(budget_key("web"), View(store), now)
    kept = {mark.key for mark in decision.marks}
    for row in store.bucket(PERMITS_OF_BUDGET, "", budget_key("web")):
        if row.key not in kept:
            store.erase(row.key)
    for mark in decision.marks:
        store.write(mark)


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(there=wishes("p"), allowed=st.integers(0, 1), at_instants=samples)
def test_k6_of_one_eviction(there: list[Row], allowed: int, at_instants: list[datetime]) -> None:
    store = store_of(budget("web", allowed=allowed), *there)
    key = eviction_key(pod_key("p"))
    assert_until_is_honest(eviction.DECIDER, store, key, START, at_instants)


@pytest.mark.parametrize("decider", [plan.DECIDER, pace.DECIDER, eviction.DECIDER], ids=lambda each: each.name)
def test_k8_they_claim_nothing(decider: Decider) -> None:
    store = store_of(budget("web"), node("n0"))
    assert_claims_ignore_grants(decider, store, budget_key("web"), START)
