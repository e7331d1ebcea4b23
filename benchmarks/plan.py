"""Measures simulated maintenances, with and without pods, in small and large fleets, and a month of `haulout plan`."""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.harness import OURS, Cell, Peer, Report, load_average, median, options, shown
from haulout.base.collector import without_collector
from haulout.embedded import NODES, Change
from tests.build.fleet import MONTH, START, ZONE, Fleet, is_done

Json = dict[str, Any]
# The most milliseconds of CPU for one maintenance, by the number of pods on a node.
GOALS = {0: 3.0, 30: 60.0}
MONTH_GOAL = 60.0
# By this time, before the first window opens, all nodes want maintenance.
WANTED_AT = START + timedelta(days=6)


class Done:
    """Counts the nodes whose maintenance is over."""

    def __init__(self, fleet: Fleet) -> None:
        self.nodes = 0
        fleet.world.subscribe(NODES, self._changed)

    def _changed(self, change: Change) -> None:
        self.nodes += change.type == "MODIFIED" and is_done(change.object) and not is_done(change.old or {})


def fleet_of(nodes: int, pods: int, most: int) -> dict[str, Cell]:
    """Measure up to `most` maintenances of a fleet that is set up and run as by `haulout plan`."""
    began = time.process_time()
    fleet = Fleet(nodes, pods=pods, brief=True)
    made = time.process_time() - began
    gc.collect()
    done, loop, storage = Done(fleet), fleet.kernel.loop, fleet.world.storage
    start = time.process_time()
    fleet.driver.run(WANTED_AT)
    wanted = (time.process_time() - start) / nodes
    if nodes > most:
        # At first nodes only leave. The measurement begins when each node that returns makes room for the next.
        fleet.driver.run(START + MONTH, lambda: done.nodes >= fleet.most * fleet.zones)
    first, askings, writes, start = done.nodes, loop.askings, storage.revision, time.process_time()
    fleet.driver.run(START + MONTH, lambda: done.nodes >= min(nodes, first + most))
    spent = time.process_time() - start
    count = done.nodes - first
    return {
        "nodes": nodes,
        "pods/node": pods,
        "at once": fleet.most * fleet.zones,
        "set-up, CPU s": made,
        "maintenances": count,
        "CPU ms/maintenance": (wanted + spent / count) * 1e3,
        "askings": (loop.askings - askings) / count,
        "writes": (storage.revision - writes) / count,
        "load": load_average(),
    }


def snapshot(nodes: int, pods: int) -> Json:
    """Return a snapshot with nodes and as many Deployments, each with `pods` replicas and a budget of 10 %.

    A NodeDisruptionBudget allows 3 % of the nodes to be out at once.
    """
    items: list[Json] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number:05}", "labels": {ZONE: f"z{number % 3}"}}}
        for number in range(nodes)
    ]
    for number in range(nodes):
        meta = {"name": f"app{number:05}", "namespace": f"team{number // 10:04}"}
        labels = {"app": meta["name"]}
        container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "100m"}}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": pods, "selector": {"matchLabels": labels}, "template": template}
        guard = {"maxUnavailable": "10%", "selector": {"matchLabels": labels}}
        items += [
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec},
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": guard},
        ]
    limit = {"name": "few"}
    items.append({"apiVersion": "haulout.dev/v1alpha1", "kind": "NodeDisruptionBudget", "metadata": limit})
    items[-1]["spec"] = {"maxUnavailable": "3%"}
    return {"apiVersion": "v1", "kind": "List", "items": items}


def month(nodes: int, pods: int) -> dict[str, Cell]:
    """Measure `haulout plan` for a month, with a NodeMaintenance for every node."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "snapshot.json").write_text(json.dumps(snapshot(nodes, pods)))
        (place / "haulout.yaml").write_text("surfaces: {nodemaintenance: {}}\n")
        command = [sys.executable, "-c", "import sys; from haulout.app.main import main; sys.exit(main())", "plan"]
        command += ["--config", "haulout.yaml", "--snapshot", "snapshot.json", "--maintain", ZONE, "--days", "30"]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        printed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert f"{nodes} of {nodes} nodes go and come back" in printed, printed[-500:]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "nodes": nodes,
        "pods/node": pods,
        "wall s": wall,
        "CPU s": cpu,
        "peak RSS MiB": after.ru_maxrss / 1024,
        "load": load_average(),
    }


def in_turn(peers: Sequence[Peer], chosen: argparse.Namespace) -> list[dict[str, Cell]]:
    """Measure simulated maintenances in processes of ours and of each peer, in turn. Return the medians."""
    programs = [Peer(OURS, (sys.executable, "-m", "benchmarks.plan", "--month", "0")), *peers]
    spent: dict[tuple[int, int], dict[str, list[float]]] = {}
    for run in range(chosen.runs):
        for program in programs if run % 2 else reversed(programs):
            for fleet, milliseconds in _maintenances_of(program, chosen):
                spent.setdefault(fleet, {}).setdefault(program.name, []).append(milliseconds)
    rows: list[dict[str, Cell]] = []
    for (nodes, pods), found in spent.items():
        rows.append({"nodes": nodes, "pods/node": pods, f"{OURS}, ms": median(found[OURS])})
        for peer in peers:
            theirs = median(found[peer.name])
            rows[-1] |= {f"{peer.name}, ms": theirs, f"{OURS} / {peer.name}": median(found[OURS]) / theirs}
        rows[-1]["load"] = load_average()
    return rows


def _maintenances_of(program: Peer, chosen: argparse.Namespace) -> Iterator[tuple[tuple[int, int], float]]:
    """Run a program in a process of its own. Yield the nodes and pods of each fleet, with the cost of a maintenance."""
    with tempfile.NamedTemporaryFile() as figures:
        command = [*program.argv, "--runs", "1", "--json", figures.name, "--most-pods", str(chosen.most_pods)]
        for name in ("nodes", "pods"):
            command += [f"--{name}", *map(str, getattr(chosen, name))]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        tables = json.loads(Path(figures.name).read_text())
    for row in next(each for each in tables.values() if isinstance(each, list)):
        cost = next(value for column, value in row.items() if column.endswith("ms/maintenance"))
        yield (row["nodes"], row["pods/node"]), cost


def main() -> None:
    parser = options("plan", __doc__, runs=3)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--pods", type=int, nargs="+", default=[0, 30], help="on each node")
    parser.add_argument("--most", type=int, default=1_000, help="maintenances that are measured in a fleet")
    parser.add_argument("--most-pods", type=int, default=300_000, help="fleets with more in all are left out")
    parser.add_argument("--month", type=int, default=1_000, metavar="NODES", help="for `haulout plan`; 0: not at all")
    chosen = parser.parse_args()
    report = Report("plan: maintenance in virtual time", chosen)
    if chosen.peers:
        title = f"CPU of a simulated maintenance, in processes that run in turn: medians of {chosen.runs}"
        report.table(title, in_turn(chosen.peers, chosen))
        report.finish()
        return
    rows = []
    for nodes, pods in [(nodes, pods) for pods in chosen.pods for nodes in chosen.nodes]:
        if nodes * pods <= chosen.most_pods:
            runs = chosen.runs if nodes * (1 + pods) <= 10_000 else 1
            with without_collector():
                measured = [fleet_of(nodes, pods, chosen.most) for _ in range(runs)]
            rows.append(min(measured, key=lambda run: number(run["CPU ms/maintenance"])))
    report.table(f"A simulated maintenance. Of {chosen.runs} runs the fastest; where a run takes long, one", rows)
    report.say(
        "On the first day all nodes want a new image; profiles let them in from Tuesday 22:00 to Wednesday 04:00, so many\n"
        "of a zone at a time; the host boots, is not ready meanwhile, and is tainted and untainted by the node controller.\n"
        "Where there are pods, they belong to Deployments of as many replicas with budgets of 10 %; a NodeMaintenance drains\n"
        "the node by evictions, and every pod is created, scheduled and started elsewhere."
    )
    for row in rows:
        goal(report, row)
    for pods in chosen.pods:
        costs = [number(row["CPU ms/maintenance"]) for row in rows if row["pods/node"] == pods]
        if len(costs) > 1:
            report.say(f"{pods} pods a node: the largest fleet costs {costs[-1] / costs[0]:.2f} times the smallest")
    if chosen.month:
        whole = month(chosen.month, 30)
        report.table("`haulout plan`, a month ahead: a NodeMaintenance for every node", [whole])
        report.goal(f"a month of {shown(chosen.month)} nodes", number(whole["wall s"]), MONTH_GOAL, " s")
    report.finish()


def goal(report: Report, row: dict[str, Cell]) -> None:
    pods = int(number(row["pods/node"]))
    if pods in GOALS:
        what = f"{shown(row['nodes'])} nodes, {pods} pods each"
        report.goal(what, number(row["CPU ms/maintenance"]), GOALS[pods], " ms")


def number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return cell


if __name__ == "__main__":
    main()
