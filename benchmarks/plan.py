"""A simulated month of maintenance: node-days per second of one core, with and without pods."""

from __future__ import annotations

import gc
import time
from datetime import timedelta

from benchmarks.harness import Cell, Report, load_average, options, shown
from tests.build.fleet import MONTH, START, Fleet

DAYS = MONTH // timedelta(days=1)
# At 1,000 nodes; at 10,000 half of it.
GOALS = {0: 250_000, 30: 25_000}


def month(nodes: int, pods: int) -> dict[str, Cell]:
    began = time.process_time()
    fleet = Fleet(nodes, pods=pods)
    made = time.process_time()
    gc.collect()
    askings, revision = fleet.kernel.loop.askings, fleet.world.storage.revision
    start = time.process_time()
    fleet.run()
    spent = time.process_time() - start
    askings, writes = fleet.kernel.loop.askings - askings, fleet.world.storage.revision - revision
    assert fleet.done == nodes, f"{nodes - fleet.done} nodes have not had their turn"
    start = time.process_time()
    fleet.driver.run(START + 2 * MONTH)
    quiet = time.process_time() - start
    return {
        "nodes": nodes,
        "pods/node": pods,
        "at once": fleet.most * fleet.zones,
        "set-up, CPU s": made - began,
        "month, CPU s": spent,
        "node-days/s": nodes * DAYS / spent,
        "ms/maintenance": spent / nodes * 1e3,
        "askings/node": askings / nodes,
        "writes/node": writes / nodes,
        "quiet month, CPU s": quiet,
        "load": load_average(),
    }


def main() -> None:
    parser = options("plan", __doc__, runs=3, peers=False)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--pods", type=int, nargs="+", default=[0, 30], help="on each node")
    parser.add_argument("--most-pods", type=int, default=30_000, help="fleets with more in all are left out")
    chosen = parser.parse_args()
    report = Report("plan: a month of maintenance in virtual time", chosen)
    rows = []
    for nodes, pods in [(nodes, pods) for pods in chosen.pods for nodes in chosen.nodes]:
        if nodes * pods <= chosen.most_pods:
            # What takes long varies less.
            runs = chosen.runs if nodes * (1 + pods) <= 10_000 else 1
            rows.append(min((month(nodes, pods) for _ in range(runs)), key=lambda run: number(run["month, CPU s"])))
    report.table(f"Of {chosen.runs} runs the fastest; where a run takes long, one", rows)
    report.say(
        "A node-day: each node goes once in the 30 days through a maintenance of 25 to 35 minutes. On the first day all\n"
        "want a new image; profiles let them in from Tuesday 22:00 to Wednesday 04:00, so many of a zone at a time; the host\n"
        "boots, is not ready meanwhile, and is tainted and untainted by the node controller. Where there are pods, they\n"
        "belong to Deployments of as many replicas with budgets of 10 %; a NodeMaintenance drains the node by evictions, and\n"
        "every pod is created, scheduled and started elsewhere. All controllers of the embedded cluster are at work.\n"
        "A quiet month follows in which nobody wants anything: what sleeping nodes cost."
    )
    for row in rows:
        goal(report, row)
    report.finish()


def goal(report: Report, row: dict[str, Cell]) -> None:
    nodes, pods = number(row["nodes"]), int(number(row["pods/node"]))
    if nodes < 1_000 or pods not in GOALS:
        return
    least = GOALS[pods] if nodes < 10_000 else GOALS[pods] / 2
    reached = number(row["node-days/s"])
    verdict = "met" if reached >= least else "MISSED"
    what = f"{shown(row['nodes'])} nodes, {pods} pods each"
    report.say(f"goal {verdict}: {what}: {shown(reached)} node-days/s, at least {shown(least)}")


def number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return cell


if __name__ == "__main__":
    main()
