"""K20 for packages and notify: whatever tenants, kubelets and authors write, no decision raises and good objects go on.

The world has one node of which everything is hostile, and a good one beside it. Objects enter by the rules of an API server, so
that what it refuses is not tried.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from haulout.cluster.rows import Value
from haulout.cluster.view import FactDemand
from haulout.embedded import JOBS, NODES, PODS, Json
from haulout.kernel.kernel import Kernel
from haulout.kube.errors import KubeError
from haulout.surfaces.notify.scheduler.estimate import EXPECTED_END, POD_ANNOTATIONS
from haulout.surfaces.notify.scheduler.recording import PROBE, READ_EVERY_FOR
from haulout.surfaces.notify.wire import ANNOTATIONS, NODE_ANNOTATIONS, NOT_BEFORE, OBJECTS_DRAINED, STARTED
from haulout.surfaces.packages.node.reruns import RERUN
from tests.build.examples import examples
from tests.build.notices import HOME, OWN, Notices, options
from tests.build.skyhooks import CONFIG_MAPS, POLICIES, SKYHOOKS, P, Skyhooks, pkg
from tests.build.workloads import pod
from tests.property.kernel.test_k20_extremes import ANY_TIMES, DURATIONS, NUMBERS, TIMES
from tests.property.kernel.test_k20_wires import EXTREMES

Draw = Any
SMALL = st.sampled_from([-(2**31), -1, 0, 1, 100, 2**31 - 1])
DEEP = "[" * 20_000
NUMBER_TEXTS = st.sampled_from(["9" * 5000, "-" + "9" * 5000, "1e999", "NaN", "0x10", "1_0", "٣", str(2**63)])
WORDS = st.sampled_from(
    ["", "true", "complete", "inprogress", "failed", "in-box", "x" * 5000, "a,b,,c/", "%s{}", "\x7f"]
)
JSONS = st.sampled_from(
    [
        DEEP,
        "{",
        "null",
        '{"a": {"b": 1e400}}',
        '{"base|1.0.0": {"name": "base", "stage": "apply", "restarts": 99999999999999999999}}',
        '{"base|1.0.0": {"name": "base", "version": "1.0.0", "stage": "apply", "state": "complete", "restarts": -5}}',
        '{"base|1.0.0": {"name": "base", "version": "1.0.0", "stage": "interrupt", "state": "in_progress"}}',
        '{"base": {"apply": 9223372036854775807, "config": -9223372036854775808}}',
        '{"nodeUID": 7, "capacity": {"x": null}}',
    ]
)
TEXTS = ANY_TIMES | DURATIONS | NUMBER_TEXTS | WORDS | JSONS


def notes(draw: Draw, names: frozenset[str] | list[str], most: int = 6) -> dict[str, str]:
    found: dict[str, str] = draw(st.dictionaries(st.sampled_from(sorted(names)), TEXTS, max_size=most))
    return found


def tried(act: Any) -> None:
    """Write an object, unless the API server refuses it."""
    with contextlib.suppress(KubeError):
        act()


def watched(kernel: Kernel) -> list[str]:
    """Return the list of decisions that raise from now on."""
    failures: list[str] = []
    kernel.loop._on_failure = lambda subject, error: failures.append(f"{subject}: {error!r}")
    return failures


def hostile_pod(draw: Draw, name: str, node: str, annotations: dict[str, str]) -> tuple[Json, Json]:
    body = pod(
        name,
        nodeName=node,
        restartPolicy=draw(st.sampled_from(["Never", "Always"])),
        terminationGracePeriodSeconds=max(0, draw(NUMBERS)),
        activeDeadlineSeconds=max(1, min(draw(NUMBERS), 2**31 - 1)),
    )
    body["metadata"]["annotations"] = annotations
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": draw(TIMES)}]
    return body, {"status": {"phase": "Running", "startTime": draw(TIMES), "conditions": conditions}}


def written(ops: Notices | Skyhooks, made: tuple[Json, Json]) -> None:
    body, status = made
    meta = body["metadata"]
    objects = ops.world.objects
    tried(lambda: objects.create(PODS, body))
    tried(lambda: objects.patch(PODS, meta.get("namespace", "default"), meta["name"], status, subresource="status"))


TEMPLATE = "{spec: {template: {spec: {containers: [{name: c, image: x}]}}}}"
RECIPE = f"{{name: rec, type: job, timeout: 5m, retries: 1, retryBackoff: 5s, template: {TEMPLATE}}}"
RUNNER = f"runner: {{enabled: true, defaultClient: rec, recipes: [{RECIPE}]}}"
VALIDATOR = "validator: {enabled: true, default: smoke, recipes: [{name: smoke, type: builtin}]}"
REST = "drainer: {enabled: true, unmanagedPods: Evict}, returner: {enabled: true, uncordon: Always}"
WINDOW = "windows: [{start: '00:00', end: '23:59'}], requireFit: true"
SCHEDULER = f"scheduler: {{enabled: true, {WINDOW}, budgets: [{{name: all, maxUnavailable: 2}}]}}"
ALL = options(
    f"slaPeriod: 10m\ncore: {{allowRetry: true}}\noperators: {{{SCHEDULER}, {RUNNER}, {VALIDATOR}, {REST}}}\n"
)


def notice_status(draw: Draw) -> Json:
    words = [
        *("MaintenanceScheduled", "MaintenanceStarted", "SLAExpired", "ObjectsDrained", "Validating"),
        *("MaintenanceIncomplete", "x"),
    ]
    kinds = ["maintenanceRun", "validation", "drain", "schedule", "retry", "readyForMaintenance", "maintenanceClient"]
    texts = ["attempt 999999/999999", "attempt 0/0: x", "7 of 9999999 pods left", f"drain={'9' * 50}h", "score=1.0 x"]
    conditions = [
        {
            "type": kind,
            "status": draw(st.sampled_from(["running", "failed", "succeeded", "True"])),
            "reason": draw(st.sampled_from(["Checking", "CreateFailed", "Waiting", "Selected"])),
            "message": draw(st.sampled_from(texts)),
            "lastTransitionTime": draw(TIMES),
        }
        for kind in draw(st.lists(st.sampled_from(kinds), unique=True, max_size=4))
    ]
    stamps = [{"maintenanceStatus": draw(st.sampled_from(words)), "transitionTimestamp": draw(TIMES)} for _ in range(3)]
    return {
        "maintenanceStatus": draw(st.sampled_from(words)),
        "slaExpires": draw(TIMES),
        "conditions": conditions,
        "transitionTimestamps": stamps,
    }


def hostile_job(draw: Draw, uid: str) -> Json:
    labels = {
        "haulout.dev/nm-uid": uid,
        "haulout.dev/role": draw(st.sampled_from(["runner", "validator", "x"])),
        "haulout.dev/recipe": "rec",
        "haulout.dev/attempt": draw(st.sampled_from(["0", "1", "99999999", "9" * 60, "x"])),
    }
    metadata = {"name": "theirs", "namespace": OWN, "labels": labels, "annotations": {"haulout.dev/nm": f"{HOME}/bad"}}
    containers = [{"name": "c", "image": "i"}]
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


@settings(max_examples=examples(60), phases=[Phase.generate], deadline=None, derandomize=True)
@given(st.data())
def test_k20_notify(data: st.DataObject) -> None:
    draw = data.draw
    ops = Notices(ALL, nodes=2)
    failures = watched(ops.kernel)
    objects = ops.world.objects
    history = draw(
        st.sampled_from(["", DEEP, '{"a": [1e308, -1e308]}', '{"default/Pod/p": [1e308, 1e308, 1e308, 1e308, 1e308]}'])
    )
    fact = FactDemand(PROBE, OWN, READ_EVERY_FOR)
    ops.kernel.store.write(Value(key=fact.key, value=history, state="fresh"))
    tried(lambda: ops.make("bad", "n0", mid="bad", annotations=notes(draw, ANNOTATIONS)))
    written(ops, hostile_pod(draw, "p", "n0", notes(draw, POD_ANNOTATIONS | {"haulout.dev/drain"})))
    ops.run(1)
    if ops.found("bad") is not None and draw(st.booleans()):
        tried(lambda: ops.patch("bad", {"status": notice_status(draw)}, "status"))
        tried(lambda: objects.create(JOBS, hostile_job(draw, ops.get("bad")["metadata"]["uid"])))
    tried(lambda: objects.patch(NODES, "", "n0", {"metadata": {"annotations": notes(draw, NODE_ANNOTATIONS)}}))
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": draw(TIMES), "reason": "x", "message": "x"}
    info = {"status": {"nodeInfo": {"bootID": draw(TEXTS)}, "conditions": [ready]}}
    tried(lambda: objects.patch(NODES, "", "n0", info, subresource="status"))
    ops.make("good", "n1", mid="good").run(120)
    if ops.found("bad") is not None:
        tried(lambda: ops.patch("bad", {"metadata": {"annotations": notes(draw, ANNOTATIONS)}}))
    ops.run(draw(st.sampled_from([60, 4000])))
    assert failures == []
    # It is deleted once it is validated.
    assert ops.found("good") is None or {STARTED, OBJECTS_DRAINED} <= set(ops.path("good"))


# Nothing ends a drain by force, so that a pod is waited for as long as its owner says.
PATIENT = options(f"slaPeriod: 10m\noperators: {{{SCHEDULER}, drainer: {{enabled: true, afterSLA: Keep}}}}\n")


@pytest.mark.parametrize("at", EXTREMES)
@pytest.mark.parametrize("restarts", ["Never", "Always"])
def test_k20_no_time_of_an_annotation_stops_the_scheduler(restarts: str, at: str) -> None:
    ops = Notices(PATIENT, nodes=2)
    failures = watched(ops.kernel)
    body = pod("p", nodeName="n0", restartPolicy=restarts)
    body["metadata"]["annotations"] = {EXPECTED_END: at}
    ops.world.objects.create(PODS, body)
    ops.make("bad", "n0", mid="bad").make("late", "n1", mid="late", annotations={NOT_BEFORE: at}).run(60)
    assert failures == []
    assert [name for name in ("bad", "late") if "schedulerDecision" not in ops.conditions(name)] == []


@pytest.mark.parametrize("at", EXTREMES)
def test_k20_a_maintenance_that_began_at_any_time_gets_a_deadline(at: str) -> None:
    ops = Notices(options("slaPeriod: 10m"), nodes=1)
    failures = watched(ops.kernel)
    ops.started("bad")
    stamps = [{"maintenanceStatus": STARTED, "transitionTimestamp": at}]
    ops.patch("bad", {"status": {"slaExpires": None, "transitionTimestamps": stamps}}, "status").run(60)
    assert failures == []
    assert ops.get("bad")["status"]["slaExpires"]


def skyhook_status(draw: Draw) -> Json:
    state = {name: draw(NUMBERS) for name in ("currentBatch", "consecutiveFailures", "completedNodes", "lastBatchSize")}
    gate = {"wave": draw(NUMBERS), "nodes": ["n0", "gone"], "since": draw(ANY_TIMES), "generation": draw(NUMBERS)}
    compartment = {
        **{name: draw(NUMBERS) for name in ("matched", "ceiling", "inProgress", "completed", "progressPercent")},
        "batchState": {
            **state,
            "failedNodes": draw(NUMBERS),
            "shouldStop": False,
            "lastBatchFailed": draw(st.booleans()),
        },
        "batchNodes": ["n0", "gone"],
        "gate": gate,
    }
    halt = {"generation": draw(NUMBERS), "wave": draw(NUMBERS), "at": draw(ANY_TIMES), "rollback": draw(WORDS)}
    kept = {"generation": 1, "packages": {"base": draw(st.sampled_from([{}, {"version": 7}, {"env": [{"x": [1]}]}]))}}
    status = {
        "observedGeneration": abs(draw(NUMBERS)) % 2**63,
        "nodeOrderOffset": draw(NUMBERS),
        "nodePriority": {"n0": draw(TIMES), "gone": draw(TIMES)},
        "nodeBootIds": {"n0": draw(TEXTS)},
        "configUpdates": {"base": ["x"], "gone": []},
        "compartmentStatuses": {"__default__": compartment, "gone": compartment},
        "halt": halt,
        "lastComplete": kept,
        "conditions": [
            {"type": "x", "status": "True", "reason": "x", "message": "x", "lastTransitionTime": draw(TIMES)},
        ],
    }
    kept_names = draw(st.lists(st.sampled_from(sorted(status)), unique=True, max_size=4))
    return {name: status[name] for name in kept_names}


def hostile_package(draw: Draw) -> Json:
    optional = {
        "stageTimeout": draw(DURATIONS),
        "gracefulShutdown": draw(DURATIONS),
        "interrupt": {"type": draw(st.sampled_from(["reboot", "noop", "service"])), "services": ["x"] * 3},
        "configMap": {"a": draw(TEXTS)},
        "configInterrupts": {"a*[": {"type": "noop"}},
        "dependsOn": draw(st.sampled_from([{"base": "1.0.0"}, {"gone": "1.0.0"}, {"top": "1.0.0"}])),
        "env": [{"name": "X", "value": draw(WORDS)}],
    }
    kept = draw(st.lists(st.sampled_from(sorted(optional)), unique=True, max_size=3))
    versions = st.sampled_from(["1.0.0", "9" * 60, "0.0.0-" + "9" * 50, "v1"])
    return {"version": draw(versions), "image": "reg.test/x", **{name: optional[name] for name in kept}}


def hostile_skyhook(draw: Draw) -> Json:
    budget = draw(st.sampled_from([{"percent": 100}, {"count": 2**31 - 1}, {"count": 1}]))
    drain = {"gracePeriodSeconds": draw(SMALL), "timeout": draw(DURATIONS)}
    spec: Json = {
        "priority": draw(st.sampled_from([1, 100, 2**31 - 1])),
        "interruptionBudget": budget,
        "nodeSelectors": {"matchLabels": {"bad": "true"}},
        "drainConfig": drain,
        "packages": {"base": hostile_package(draw), "top": hostile_package(draw)},
        "deploymentPolicy": draw(st.sampled_from(["", "policy", "gone"])),
    }
    dropped = draw(st.lists(st.sampled_from(["priority", "interruptionBudget", "drainConfig", "deploymentPolicy"])))
    kept = {name: value for name, value in spec.items() if name not in dropped}
    return {"apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook", "metadata": {"name": "bad"}, "spec": kept}


def hostile_policy(draw: Draw) -> Json:
    parameters = {
        name: max(1, draw(SMALL))
        for name in ("initialBatch", "batchThreshold", "failureThreshold", "safetyLimit", "delta", "growthFactor")
    }
    kind = draw(st.sampled_from(["fixed", "linear", "exponential"]))
    known = {"fixed": (0, 1, 2, 3), "linear": (0, 1, 2, 3, 4), "exponential": (0, 1, 2, 3, 5)}[kind]
    chosen = {name: min(parameters[name], 100) for name in [list(parameters)[place] for place in known]}
    gate = {"soak": draw(DURATIONS), "errorThreshold": 0, "rollback": draw(st.booleans())}
    spec = {"default": {"budget": {"percent": 50}, "strategy": {kind: chosen}}, "gate": gate}
    metadata = {"name": "policy"}
    return {"apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "DeploymentPolicy", "metadata": metadata, "spec": spec}


NODE_NOTES = [
    *(f"{P}{name}_{skyhook}" for skyhook in ("good", "bad") for name in ("nodeState", "status", "stageTime", "picked")),
    *(f"{P}{name}_bad" for name in ("cordon", "cordonPre", "copyDir", "lastError", "version")),
    RERUN,
]


@settings(max_examples=examples(60), phases=[Phase.generate], deadline=None, derandomize=True)
@given(st.data())
def test_k20_packages(data: st.DataObject) -> None:
    draw = data.draw
    ops = Skyhooks(nodes=2)
    failures = watched(ops.kernel)
    objects, home = ops.world.objects, ops.options.namespace
    ops.fate = lambda about: "ok" if about.skyhook == "good" else draw(st.sampled_from(["ok", "fail", "hang"]))
    labels = {"metadata": {"labels": {"bad": "true"}, "annotations": notes(draw, NODE_NOTES)}}
    tried(lambda: objects.patch(NODES, "", "n0", labels))
    info = {"status": {"nodeInfo": {"bootID": draw(TEXTS)}}}
    tried(lambda: objects.patch(NODES, "", "n0", info, subresource="status"))
    tried(lambda: objects.create(POLICIES, hostile_policy(draw)))
    tried(lambda: objects.create(SKYHOOKS, hostile_skyhook(draw)))
    written(ops, hostile_pod(draw, "p", "n0", notes(draw, ["haulout.dev/drain"])))
    about = hostile_pod(draw, "q", "n0", {})
    about[0]["metadata"] |= {"namespace": home, "labels": {f"{P}name": "bad", f"{P}package": "base-1.0.0"}}
    written(ops, about)
    tells = {"metadata": {"annotations": {f"{P}package": draw(JSONS | WORDS)}}}
    tried(lambda: objects.patch(PODS, home, "q", tells))
    record = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"base-1.0.0": draw(JSONS), "x": draw(TEXTS)}}
    record["metadata"] = {
        "name": "record",
        "namespace": home,
        "labels": {"haulout.dev/applied": "bad", f"{P}name": "bad"},
    }
    tried(lambda: objects.create(CONFIG_MAPS, record))
    ops.run(20)
    if objects.get(SKYHOOKS, "", "bad") is not None:
        body = {"status": skyhook_status(draw)}
        tried(lambda: objects.patch(SKYHOOKS, "", "bad", body, subresource="status"))
    ops.make("good", {"base": pkg()}, sequencing="node", priority=1).run(draw(st.sampled_from([120, 4000])))
    assert failures == []
    assert ops.shows("good", "n1") == ["complete"]
