"""A plan made at any instant of a roll agrees with the end of that roll: which nodes finish, which never, and why."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cli.root import main
from haulout.core.budgets.wire import NODE_BUDGETS
from haulout.embedded import DEPLOYMENTS, DISRUPTION_BUDGETS, NODES, PODS, REPLICA_SETS, STATEFUL_SETS
from haulout.plan.command import plan
from haulout.plan.forecast import planned_resource
from haulout.settings.settings import PlanSettings
from tests.build.drains import QUICK
from tests.build.examples import examples
from tests.build.maintenances import MAINTENANCES, Maintenances
from tests.build.workloads import World, budget, deployment, stateful_set, template

BUDGETS = planned_resource(NODE_BUDGETS)
KINDS = {
    "Node": NODES,
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
    "PodDisruptionBudget": DISRUPTION_BUDGETS,
    "Pod": PODS,
    "NodeMaintenance": MAINTENANCES,
    "NodeDisruptionBudget": BUDGETS,
}
APPS = "ab"
BUDGET = "few"
LONG = 1800.0

bounds = st.sampled_from(
    [None, {"maxUnavailable": 0}, {"maxUnavailable": 1}, {"minAvailable": 1}, {"minAvailable": "100%"}]
)
apps = st.tuples(st.sampled_from([deployment, stateful_set]), st.integers(1, 3), bounds)


def planned(ops: Maintenances) -> tuple[set[str], dict[str, str], list[str]]:
    """Return what a plan of the world as it is says: the nodes that finish, why others do not, and what it left out."""
    items = [{**obj, "kind": kind} for kind, resource in KINDS.items() for obj in ops.world.objects.list(resource)]
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()) as out,
    ):
        Path("haulout.yaml").write_text(yaml.safe_dump({"surfaces": {"nodemaintenance": {}}}))
        Path("world.json").write_text(json.dumps({"kind": "List", "items": items}))
        at = f"{ops.now:%Y-%m-%dT%H:%M:%SZ}"
        made = main(
            ["plan", "--snapshot", "world.json", "--days", "0.03", "--work-for", "100h", "--at", at, "-o", "json"]
        )
        assert isinstance(made, PlanSettings)
        assert plan(made) == 0
    found = json.loads(out.getvalue())
    nodes = [each for each in found["nodes"] if each["states"]]
    finish = {each["name"] for each in nodes if each["states"][-1]["state"] == "in-maintenance"}
    return (
        finish,
        {each["name"]: each["waitsFor"] for each in nodes if each["name"] not in finish},
        found["incomplete"],
    )


def outcome(ops: Maintenances) -> tuple[set[str], dict[str, set[str]]]:
    """Return the nodes whose maintenance has succeeded, and for the others the budgets that kept their pods."""
    found = ops.world.objects.list(MAINTENANCES)
    done = {each["spec"]["nodeName"] for each in found if (each.get("status") or {}).get("phase") == "Succeeded"}
    budgets = {each["metadata"]["name"] for each in ops.world.objects.list(DISRUPTION_BUDGETS)}
    kept: dict[str, set[str]] = {}
    for each in ops.world.pods():
        where = each["spec"].get("nodeName", "")
        kept.setdefault(where, set()).update({each["metadata"]["labels"]["app"]} & budgets)
    never = {each["spec"]["nodeName"] for each in found} - done
    return done, {name: kept.get(name, set()) for name in never}


def node_budget(most: int, *, is_closed: bool) -> dict[str, Any]:
    # Worlds begin in January.
    windows = {"windows": [{"schedule": "0 0 1 6 *", "duration": "1h"}]} if is_closed else {}
    return {
        "apiVersion": NODE_BUDGETS.api_version,
        "kind": "NodeDisruptionBudget",
        "metadata": {"name": BUDGET},
        "spec": {"maxUnavailable": most, **windows},
    }


@settings(max_examples=examples(12), deadline=None, derandomize=True)
@given(
    app=apps,
    most=st.integers(0, 2),
    is_closed=st.booleans(),
    deadlines=st.lists(st.sampled_from([None, 600]), min_size=1, max_size=2),
    instants=st.lists(st.floats(0.0, 900.0), min_size=1, max_size=2),
)
def test_it_agrees_under_budgets_of_nodes_windows_and_deadlines(
    app: tuple[Any, int, Any], most: int, is_closed: bool, deadlines: list[int | None], instants: list[float]
) -> None:
    ops = Maintenances(World(QUICK, nodes=3), together=True)
    kind, replicas, bound = app
    ops.world.make(kind("a", replicas, template("a")))
    if bound is not None:
        ops.world.make(budget("a", **bound))
    ops.world.objects.create(BUDGETS, node_budget(most, is_closed=is_closed))
    ops.run(60)
    for number, deadline in enumerate(deadlines):
        drain = {"deadlineSeconds": deadline, "deadlineAction": "Fail"} if deadline else {}
        ops.make(f"m{number}", f"n{number}", **drain)
    told, passed = [planned(ops)], 0.0
    for instant in sorted(instants):
        ops.run(instant - passed)
        passed = instant
        told.append(planned(ops))
    ops.run(LONG)
    done, kept = outcome(ops)
    for finish, waits, left_out in told:
        assert left_out == []
        assert finish == done
        assert set(waits) == set(kept)
        for name, text in waits.items():
            begun = ops.world.get(NODES, name)["spec"].get("unschedulable", False)
            wanted = {f"default/{each}" for each in kept[name]} if begun else {f"budget {BUDGET}: "}
            assert any(each in text for each in wanted), (name, text, wanted)


@settings(max_examples=examples(12), deadline=None, derandomize=True)
@given(
    fleet=st.fixed_dictionaries(dict.fromkeys(APPS, apps)),
    maintained=st.sets(st.integers(0, 1), min_size=1, max_size=2),
    instants=st.lists(st.floats(0.0, 90.0), min_size=1, max_size=2),
)
def test_a_plan_at_any_instant_agrees_with_the_end(
    fleet: dict[str, tuple[Any, int, Any]], maintained: set[int], instants: list[float]
) -> None:
    ops = Maintenances(World(QUICK, nodes=3))
    for name, (kind, replicas, bound) in fleet.items():
        ops.world.make(kind(name, replicas, template(name)))
        if bound is not None:
            ops.world.make(budget(name, **bound))
    ops.run(60)
    for number in sorted(maintained):
        ops.make(f"m{number}", f"n{number}")
    told, passed = [planned(ops)], 0.0
    for instant in sorted(instants):
        ops.run(instant - passed)
        passed = instant
        told.append(planned(ops))
    ops.run(LONG)
    done, kept = outcome(ops)
    for finish, waits, left_out in told:
        assert left_out == []
        assert finish == done
        assert set(waits) == set(kept)
        for name, text in waits.items():
            assert any(f"default/{each}" in text for each in kept[name]), (name, text, kept[name])
