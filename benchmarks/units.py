"""Packages in both groups: what a roll costs a Skyhook and a NodeWright, in pods and in Jobs, what a settled pair writes, and the
memory of many idle nodes with the objects of both groups.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator

from benchmarks.fixture import control_plane, fresh_directory
from benchmarks.harness import Cell, Report, load_average, options, until_quiet, usage
from benchmarks.packages import GROUP, NAMESPACE, PROGRESS, TOLD_AFTER, WITHIN, carried_out, fleet
from haulout.surfaces.packages.groups import NODEWRIGHT, SKYHOOK, Group
from tests.rig.api import Api, Json
from tests.rig.kwok import Kwok
from tests.rig.operator import SkyhookOperator
from tests.rig.plane import ControlPlane
from tests.rig.process import Process
from tests.rig.units import PATHS, define
from tests.rig.wait import eventually

# Jobs end their pods, and collect those of deleted Jobs.
CONTROLLERS = ("job-controller", "garbage-collector-controller")
# What is measured: the group, and what runs the stages.
ROLLS = ((SKYHOOK, "pods"), (NODEWRIGHT, "pods"), (NODEWRIGHT, "jobs"))


@contextlib.contextmanager
def operator(plane: ControlPlane, executor: str) -> Iterator[Process]:
    """Run `haulout as skyhook-operator` with this executor. Yield the process once it is at rest."""
    with SkyhookOperator(plane, fresh_directory(plane, executor), NAMESPACE, EXECUTOR=executor) as made:
        until_quiet(made.process.pid, quiet_for=1)
        yield made.process


def create(api: Api, group: Group, name: str) -> None:
    packages = {"base": {"version": "1.0.0", "image": "reg.test/base"}}
    spec = {
        "nodeSelectors": {"matchLabels": {GROUP: name}},
        "interruptionBudget": {"percent": 100},
        "packages": packages,
    }
    body = {"apiVersion": group.api_version, "kind": group.kind, "metadata": {"name": name}}
    api.create(PATHS[group], {**body, "spec": spec})


def delete(api: Api, group: Group, name: str) -> None:
    api.delete(PATHS[group], name)
    eventually(lambda: api.find(PATHS[group], name) is None, f"the {group.kind} is gone", WITHIN)


def await_complete(api: Api, group: Group, name: str) -> None:
    def is_complete() -> bool:
        found = api.get(PATHS[group], name)
        status: Json = found.get("status", {})
        is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return is_seen and status.get("status") == "complete"

    eventually(is_complete, f"the {group.kind} is complete", WITHIN)


def roll(plane: ControlPlane, kwok: Kwok, group: Group, executor: str, nodes: int) -> dict[str, Cell]:
    """Return what the operator writes and costs while a package comes to all nodes at once."""
    PROGRESS.say(f"{group.kind} in {executor}: {nodes} nodes")
    api = plane.api()
    with fleet(plane, kwok, nodes, "-n") as name, operator(plane, executor) as process:
        before, since, began = usage(process.pid).cpu, plane.audit.mark(), time.perf_counter()
        create(api, group, name)
        await_complete(api, group, name)
        seconds = time.perf_counter() - began
        until_quiet(process.pid, quiet_for=TOLD_AFTER, spare=0.05)
        spent = usage(process.pid)
        done = Counter(entry.what for entry in carried_out(plane.audit.entries(since=since, user="operator")))
        delete(api, group, name)
        kinds = ("nodes", "nodes/status", "pods", "jobs", "configmaps", f"{group.plural}/status", "events")
        return {
            "object": group.kind,
            "executor": executor,
            "nodes": nodes,
            **{what.replace(group.plural, "objects"): done[what] for what in kinds},
            "writes but pods and Jobs": done.total() - done["pods"] - done["jobs"],
            "all writes": done.total(),
            "roll, s": seconds,
            "CPU, s": spent.cpu - before,
            "peak RSS, MiB": spent.peak,
            "load": load_average(),
        }


def pair(plane: ControlPlane, kwok: Kwok, nodes: int, window: float) -> dict[str, Cell]:
    """Return what the objects of both groups write on idle nodes, and the memory that they take."""
    PROGRESS.say(f"objects of both groups: {nodes} nodes, at rest for {window:g} s")
    api = plane.api()
    with fleet(plane, kwok, nodes, "-n") as name, operator(plane, "pods") as process:
        create(api, SKYHOOK, name)
        await_complete(api, SKYHOOK, name)
        until_quiet(process.pid, quiet_for=TOLD_AFTER, spare=0.05)
        alone, since = usage(process.pid).rss, plane.audit.mark()
        create(api, NODEWRIGHT, name)
        await_complete(api, NODEWRIGHT, name)
        until_quiet(process.pid, quiet_for=TOLD_AFTER, spare=0.05)
        joining = carried_out(plane.audit.entries(since=since, user="operator"))
        since, before = plane.audit.mark(), usage(process.pid).cpu
        time.sleep(window)
        at_rest, spent = carried_out(plane.audit.entries(since=since, user="operator")), usage(process.pid)
        for group in (SKYHOOK, NODEWRIGHT):
            delete(api, group, name)
        return {
            "nodes": nodes,
            "writes to join": len(joining),
            "pods and Jobs to join": sum(entry.what in ("pods", "jobs") for entry in joining),
            "at rest, s": window,
            "writes at rest": len(at_rest),
            "CPU at rest, s": spent.cpu - before,
            "RSS with a Skyhook, MiB": alone,
            "RSS with both, MiB": spent.rss,
            "peak RSS, MiB": spent.peak,
            "load": load_average(),
        }


def main() -> None:
    parser = options("units", __doc__, runs=1, peers=False)
    parser.add_argument("--nodes", type=int, default=100, help="nodes of the rolls (default %(default)s)")
    parser.add_argument("--idle", type=int, default=1000, help="idle nodes with both objects (default %(default)s)")
    parser.add_argument("--window", type=float, default=60, help="seconds at rest (default %(default)s)")
    chosen = parser.parse_args()
    report = Report("packages in both groups: rolls, a settled pair, memory", chosen)
    rolls, pairs = list[dict[str, Cell]](), list[dict[str, Cell]]()
    with control_plane("units", ()) as plane, Kwok(plane) as kwok:
        plane.start_controllers(CONTROLLERS)
        plane.api().create("namespaces", {"metadata": {"name": NAMESPACE}})
        define(plane.api())
        for _ in range(chosen.runs):
            rolls += [roll(plane, kwok, group, executor, chosen.nodes) for group, executor in ROLLS]
            pairs.append(pair(plane, kwok, chosen.idle, chosen.window))
    report.table("A package without an interrupt on all nodes at once", rolls)
    report.table("A Skyhook that a NodeWright of its name joins", pairs)
    column = "writes but pods and Jobs"
    skyhook, nodewright = (float(row[column] or 0) for row in rolls[:2])
    report.goal(f"{column}, a NodeWright by a Skyhook", nodewright / skyhook, 1.02)
    report.goal("writes of a settled pair", max(float(row["writes at rest"] or 0) for row in pairs), 0)
    report.goal("pods and Jobs because of a rename", max(float(row["pods and Jobs to join"] or 0) for row in pairs), 0)
    report.finish()


if __name__ == "__main__":
    main()
