"""Skyhooks and DeploymentPolicies: what their definitions fill in, keep and refuse, and the columns that people see."""

from __future__ import annotations

from typing import Any

from tests.contract.registry import case, each
from tests.contract.world import POLICIES, SKYHOOKS, World

Json = dict[str, Any]
ROWS = "application/json;as=Table;g=meta.k8s.io;v=v1"


def skyhook(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "skyhook.nvidia.com/v1alpha1",
        "kind": "Skyhook",
        "metadata": {"name": name},
        "spec": spec,
    }


def package(**fields: Any) -> Json:
    return {"packages": {"aa": {"version": "1.0.0", "image": "x/y", **fields}}}


@each(
    {
        "empty": {},
        "package": package(),
        "no image": {"packages": {"aa": {"version": "1"}}},
        "no version": {"packages": {"aa": {"image": "x"}}},
        "name": package(name="a1"),
        "long name": package(name="a" * 44),
        "longest name": package(name="a" * 43),
        "interrupt": package(interrupt={"type": "restart_all_services"}),
        "services": package(interrupt={"type": "service", "services": ["a", "b"]}),
        "config interrupt": package(configInterrupts={"*.conf": {"type": "foo"}}),
        "config interrupts": package(configInterrupts={"*.conf": {"type": "noop"}}, configMap={"a.conf": "1"}),
        "priority": {"priority": 0},
        "text priority": {"priority": "1"},
        "percent": {"interruptionBudget": {"percent": 101}},
        "count": {"interruptionBudget": {"count": -1}},
        "budget of nulls": {"interruptionBudget": {"count": None, "percent": None}},
        "budget of zeros": {"interruptionBudget": {"count": 0}},
        "sequencing": {"sequencing": "fleet"},
        "sequencing of all": {"sequencing": "all"},
        "options": {"deploymentPolicyOptions": {}},
        "drain": {"drainConfig": {}},
        "drain options": {"drainConfig": {"gracePeriodSeconds": -1}},
        "uninstall": package(uninstall={}),
        "quantities": package(resources={"cpuRequest": 1, "cpuLimit": "500m", "memoryLimit": "1Gi"}),
        "quantity": package(resources={"cpuRequest": "much"}),
        "environment": package(
            env=[
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"key": "k"}}},
                {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": 1}}},
            ]
        ),
        "nameless variable": package(env=[{"value": "1"}]),
        "tolerations": {"additionalTolerations": [{"operator": "Exists", "tolerationSeconds": 5}]},
        "unknown": package(flavour="sour"),
    }
)
def skyhook_spec(w: World, spec: Json) -> None:
    w.create(SKYHOOKS, skyhook(w.ns, **spec), dryRun="All", show="spec")


@each(
    {
        "empty": {},
        "no strategy": {"default": {"budget": {"count": 1}}},
        "smallest": {"default": {"budget": {"count": 1}, "strategy": {"fixed": {}}}},
        "percent": {"default": {"budget": {"percent": 0}, "strategy": {"fixed": {}}}},
        "count": {"default": {"budget": {"count": 0}, "strategy": {"fixed": {}}}},
        "batch": {"default": {"strategy": {"linear": {"initialBatch": 0}}}},
        "delta": {"default": {"strategy": {"linear": {"delta": 0}}}},
        "factor": {"default": {"strategy": {"exponential": {"growthFactor": 1}}}},
        "threshold": {"default": {"strategy": {"exponential": {"batchThreshold": 101}}}},
        "compartment": {"default": {"strategy": {}}, "compartments": [{"name": "x"}]},
        "nameless compartment": {
            "default": {"strategy": {}},
            "compartments": [{"name": "", "selector": {}, "budget": {}}],
        },
        "compartments": {
            "default": {"strategy": {"fixed": {}}},
            "compartments": [{"name": "x", "selector": {"matchLabels": {"a": "b"}}, "budget": {"percent": 5}}],
        },
        "gate": {"default": {"strategy": {}}, "gate": {"soak": "5m", "prometheus": {"url": "http://p", "query": "q"}}},
        "gate without a query": {"default": {"strategy": {}}, "gate": {"prometheus": {"url": "http://p"}}},
    }
)
def policy_spec(w: World, spec: Json) -> None:
    body = {**skyhook(w.ns), "kind": "DeploymentPolicy", "spec": spec}
    w.create(POLICIES, body, dryRun="All", show="spec")


@case
def skyhook_status_and_columns(w: World) -> None:
    w.create(SKYHOOKS, skyhook(w.ns, deploymentPolicy="careful", **package()), show="spec status")
    w.patch(
        SKYHOOKS, w.ns, {"spec": {"serial": True}, "status": {"status": "complete"}}, show="metadata.generation status"
    )
    status = {"status": "complete", "completeNodes": "1/1", "packageList": "aa:1.0.0", "unknown": 1}
    w.patch(SKYHOOKS, w.ns, {"status": status, "spec": {"serial": False}}, "status", show="spec.serial status")
    w.patch(SKYHOOKS, w.ns, {"status": {"status": "happy"}}, "status")
    entry = {"name": "aa", "version": "1.0.0", "image": "x/y", "stage": "apply", "state": "happy"}
    w.patch(SKYHOOKS, w.ns, {"status": {"nodeState": {"n": {"aa|1.0.0": entry}}}}, "status")
    answer = w.ask("GET", w.path(SKYHOOKS, w.ns), accept=ROWS, show="columnDefinitions[].name")
    # The fourth is the age, which runs.
    w.note("cells", [cell for number, cell in enumerate(answer.body["rows"][0]["cells"]) if number != 3])
