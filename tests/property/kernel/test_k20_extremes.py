"""K20: whatever numbers and times objects, annotations and configurations hold, no decision raises."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.base import bounds
from haulout.cluster.key import Key
from haulout.cluster.project import RESOURCES, Projector, Resource
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG, View
from haulout.core.budgets.wire import NODE_BUDGETS
from haulout.core.declaration import Enabled
from haulout.core.drain.options import DrainRow
from haulout.core.drain.progress import progress
from haulout.core.drain.progress import reasons as drain_reasons
from haulout.core.drain.start_times import ANNOTATION as STARTED
from haulout.core.holds import PRIORITY_ANNOTATION
from haulout.kernel.assemble import assemble
from haulout.kernel.requests import Answer, Done, Refused
from haulout.kernel.rooms import Subject
from haulout.kube.errors import error_from_reply, one_line
from haulout.surfaces.clusterapi.options import Options as MachineOptions
from haulout.surfaces.clusterapi.surface import CLUSTERAPI
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.settings import DrainDefaults
from haulout.surfaces.nodemaintenance.surface import NODEMAINTENANCE
from haulout.surfaces.nodemaintenance.wire import DRAIN_TAINT, LEASE_NAMESPACE
from haulout.surfaces.profiles.load import known_plugins, load
from haulout.surfaces.profiles.surface import PROFILES
from haulout.surfaces.profiles.wire import DATA_ANNOTATION, PROFILE_LABEL, SURFACE
from tests.build.examples import examples
from tests.build.rows import START

NUMBERS = st.sampled_from([-(2**63), -(2**31), -1, 0, 1, 30, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1])
# As an API server writes them, that is in UTC.
TIMES = st.sampled_from(
    [
        "0001-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "2026-03-01T09:59:59Z",
        "2026-03-01T10:00:00Z",
        "2038-01-19T03:14:08Z",
        "9999-12-31T23:59:59Z",
    ]
)
# The same values as texts, as any user may write them into an annotation.
ANY_TIMES = (
    TIMES
    | st.sampled_from(
        ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "2016-12-31T23:59:60Z", "0000-01-01T00:00:00Z"]
    )
    | st.sampled_from(["2026-03-01T10:00:00", "2026-03-01", "+292277026596-12-04T15:30:08Z", "never", ""])
)
DURATIONS = st.sampled_from(["0s", "1ns", "1s", "2562047h47m16.854775807s", "-1s", "-2562047h"])
CONFIG_TEXT = """
intervals: {{requeue: 30s}}
instances:
  check:
  - {{type: wait, name: wait, config: {{duration: {0}}}}}
  - {{type: waitExclude, name: weekdays, config: {{duration: {0}, exclude: [Sat, Sun]}}}}
  - {{type: maxMaintenance, name: few, config: {{max: 3, skipAfter: {0}}}}}
  trigger:
  - {{type: eviction, name: out, config: {{action: drain, deletionTimeout: {1}, evictionTimeout: {1}, forceEviction: true}}}}
profiles:
- name: p
  operational: {{transitions: [{{check: "wait || weekdays || few", next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: few, trigger: out, next: in-maintenance}}]}}
  in-maintenance: {{transitions: [{{check: wait, next: operational}}]}}
"""
Draw = Any


def metadata(draw: Draw, name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    made = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": draw(TIMES)}
    return {**made, **({"namespace": namespace} if namespace else {}), **more}


def ending(draw: Draw) -> dict[str, Any]:
    return (
        {"deletionTimestamp": draw(TIMES), "deletionGracePeriodSeconds": draw(NUMBERS)} if draw(st.booleans()) else {}
    )


def node_of(draw: Draw) -> dict[str, Any]:
    state = draw(st.sampled_from(["operational", "maintenance-required", "in-maintenance"]))
    entry = {"Transition": draw(ANY_TIMES), "Current": state}
    data = {"Profiles": {"p": entry}, "Notifications": {"n": draw(ANY_TIMES)}}
    annotations = {
        DATA_ANNOTATION: msgspec.json.encode(data).decode(),
        STARTED: msgspec.json.encode({"p": draw(ANY_TIMES)}).decode(),
        PRIORITY_ANNOTATION: str(draw(NUMBERS) ** draw(st.sampled_from([1, 3]))),
    }
    taint = {"key": DRAIN_TAINT.key, "effect": DRAIN_TAINT.effect, "timeAdded": draw(TIMES)}
    taints = [taint] if draw(st.booleans()) else []
    conditions = [{"type": "Ready", "status": draw(st.sampled_from(["True", "Unknown"])), "lastTransitionTime": "x"}]
    return {
        "metadata": metadata(draw, "a", labels={PROFILE_LABEL: "p"}, annotations=annotations, **ending(draw)),
        "spec": {"unschedulable": draw(st.booleans()), "taints": taints},
        "status": {"conditions": conditions},
    }


def pod_of(draw: Draw, name: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": draw(ANY_TIMES)}]
    return {
        "metadata": metadata(draw, name, "default", labels={"app": "x"}, **ending(draw)),
        "spec": {"nodeName": "a", "terminationGracePeriodSeconds": draw(NUMBERS), "priority": draw(NUMBERS)},
        "status": {"phase": "Running", "conditions": conditions},
    }


def maintenance_of(draw: Draw) -> dict[str, Any]:
    numbers = ("gracePeriodSeconds", "timeoutSeconds", "skipWaitForDeleteTimeoutSeconds", "retryIntervalSeconds")
    drain = {name: draw(NUMBERS) for name in (*numbers, "deadlineSeconds")}
    drain["deadlineAction"] = draw(st.sampled_from(["Fail", "ForceDelete"]))
    cordoned = {"type": "Cordoned", "status": "True", "lastTransitionTime": draw(TIMES)}
    status = {
        "phase": draw(st.sampled_from(["", "Running", "Succeeded", "Failed"])),
        "lastUpdate": draw(TIMES),
        "drainProgress": draw(NUMBERS),
        "totalpods": draw(NUMBERS),
        "evictionPods": draw(NUMBERS),
        "errorOnLeaseCount": draw(NUMBERS),
        "conditions": [cordoned],
        "blockedPods": [{"namespace": "default", "name": "p0", "since": draw(TIMES)}],
    }
    annotations = {PRIORITY_ANNOTATION: str(draw(NUMBERS))}
    finalizers = ["foregroundDeleteNodeMaintenance"]
    made = metadata(draw, "m", annotations=annotations, finalizers=finalizers, **ending(draw))
    return {"metadata": made, "spec": {"nodeName": "a", "drain": drain}, "status": status}


def lease_of(draw: Draw) -> dict[str, Any]:
    holder = draw(st.sampled_from(["node-maintenance", "another", None]))
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": draw(NUMBERS),
        "acquireTime": draw(TIMES),
        "renewTime": draw(TIMES),
        "leaseTransitions": draw(NUMBERS),
    }
    return {"metadata": metadata(draw, "node-a", LEASE_NAMESPACE), "spec": spec}


def pdb_of(draw: Draw) -> dict[str, Any]:
    names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods", "observedGeneration")
    status = {name: draw(NUMBERS) for name in names} | {"disruptedPods": {"p0": draw(TIMES)}}
    return {
        "metadata": metadata(draw, "b", "default", generation=draw(NUMBERS)),
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "maxUnavailable": draw(NUMBERS)},
        "status": status,
    }


def budget_of(draw: Draw) -> dict[str, Any]:
    window = {"schedule": "* * * * *", "duration": draw(DURATIONS), "type": draw(st.sampled_from(["Allow", "Deny"]))}
    spec = {"maxUnavailable": draw(NUMBERS | st.just("10%")), "topologyKey": "zone", "maxDomains": draw(NUMBERS)}
    conditions = [{"type": "Valid", "status": "True", "lastTransitionTime": draw(ANY_TIMES)}]
    return {
        "metadata": metadata(draw, "ndb", generation=draw(NUMBERS)),
        "spec": {**spec, "windows": [window] if draw(st.booleans()) else []},
        "status": {"conditions": conditions, "used": draw(NUMBERS)},
    }


def machine_of(draw: Draw) -> dict[str, Any]:
    annotations = {"haulout.dev/node-cleanup": draw(ANY_TIMES)}
    labels = {"runtime-extension-maintenance-controller.cloud.sap/enabled": "true"}
    made = metadata(draw, "machine", "default", labels=labels, annotations=annotations, **ending(draw))
    return {"metadata": made, "spec": {"clusterName": "w"}, "status": {"nodeRef": {"name": "a"}}}


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(st.data())
def test_k20_no_number_and_no_time_makes_a_decision_raise(data: st.DataObject) -> None:
    draw = data.draw
    failures: list[tuple[Subject, Exception]] = []
    numbers = {name: draw(NUMBERS) for name in DrainDefaults.__struct_fields__ if name.endswith("_seconds")}
    lease_for = draw(st.sampled_from([timedelta(seconds=1), timedelta(days=292 * 365)]))
    maintenances = Options(
        lease_duration=lease_for,
        drain=msgspec.structs.replace(DrainDefaults(), **numbers),
        skip_unreachable_after=lease_for,
    )
    machines = MachineOptions(deletion_approval_timeout=bounds.span(draw(NUMBERS)))
    surfaces = (Enabled(PROFILES), Enabled(NODEMAINTENANCE, maintenances), Enabled(CLUSTERAPI, machines))
    assembly = assemble(surfaces, together=True, on_failure=lambda subject, error: failures.append((subject, error)))
    kernel = assembly.kernel
    texts = CONFIG_TEXT.format(draw(DURATIONS), draw(DURATIONS))
    config = load(texts, known_plugins(), source="maintenance.yaml", environment={})
    kernel.store.write(Value(key=Key("", CONFIG, "", SURFACE), value=config))
    resources = {**RESOURCES, **{each.kind: each for each in (*assembly.kinds, NODE_BUDGETS)}}
    made = {
        "Node": [node_of(draw)],
        "Pod": [pod_of(draw, f"p{number}") for number in range(2)],
        "NodeMaintenance": [maintenance_of(draw)],
        "Lease": [lease_of(draw)],
        "PodDisruptionBudget": [pdb_of(draw)],
        NODE_BUDGETS.kind: [budget_of(draw)],
        "Machine": [machine_of(draw)],
    }
    now = draw(st.sampled_from([START, datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)]))
    kinds = {source.kind: source.keep for source in (*assembly.sources(), *kernel.loop.sources())}
    for kind, keep in kinds.items():
        base = kind.partition("/")[0]
        projector = Projector(_resource(resources, kind), "", keep)
        kernel.store.begin_list("", kind)
        for obj in made.get(base, []):
            decoded = msgspec.json.decode(msgspec.json.encode(obj), type=resources[base].model)
            kernel.store.put(projector.row(decoded))
        kernel.store.end_list("", kind, 1)
    for _ in range(20):
        kernel.run(now)
        for request in kernel.take_requests():
            if request.id:
                kernel.on_answer(request.id, draw(st.sampled_from(ANSWERS)), now)
        _explain_drains(kernel.store, now)
        instant = kernel.next_instant()
        now = max(now, min(instant or now, now + timedelta(days=3650)))
    assert not failures


ANSWERS: list[Answer] = [Done(), Refused(429, "slow down", retry_after=10**12), Refused(500, "no"), Refused(404, "no")]


def _explain_drains(store: Any, now: datetime) -> None:
    view = View(store, explaining=True)
    for row in store.rows("", "Drain"):
        assert isinstance(row, DrainRow)
        progress(view, row, now)
        drain_reasons(view, row, now)


def _resource(resources: dict[str, Resource], kind: str) -> Resource:
    base, _, place = kind.partition("/")
    namespace, _, name = place.partition("/")
    return resources[base].within(namespace, name) if namespace else resources[base]


@pytest.mark.parametrize("at", [datetime.min, datetime.max, datetime(2026, 1, 1)], ids=str)  # noqa: DTZ901, DTZ001
def test_k20_an_instant_within_bounds_takes_any_span_within_bounds(at: datetime) -> None:
    for span in (bounds.span(2**63), bounds.span(-(2**63))):
        assert (bounds.instant(at) + 2 * span).tzinfo is UTC
        assert (bounds.instant(at) - 2 * span).tzinfo is UTC


# With halves of characters, which bytes that are no text leave behind.
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
MANY = st.integers(1, 2000)


@given(ANY_TEXT, MANY)
def test_k20_what_a_server_says_is_one_line_that_json_can_hold(text: str, times: int) -> None:
    line = one_line(text * times)
    assert (line.isprintable(), len(line) <= 1000) == (True, True)
    assert msgspec.json.decode(msgspec.json.encode(line)) == line


STATUSES = st.builds(
    lambda start, middle, end: b'{"kind":"Status",' + start + middle + end,
    st.sampled_from([b"", b'"code":', b'"message":"', b'"details":{"retryAfterSeconds":', b'"x":' + b"[" * 50_000]),
    st.binary(max_size=20) | NUMBERS.map(lambda number: str(number).encode()) | st.just(b"9" * 400),
    st.sampled_from([b"", b"}", b'"}', b"}}"]),
)


@given(st.integers(400, 599), st.binary(max_size=30) | STATUSES, st.none() | ANY_TEXT | st.just("9" * 400))
def test_k20_any_refusal_of_a_server_can_be_told_and_waited_for(code: int, body: bytes, header: str | None) -> None:
    error = error_from_reply(code, body, header)
    assert error.status.code == code
    assert (str(error).isprintable(), error.retry_after is None or 0 <= error.retry_after <= 3600) == (True, True)
