"""The scheduler of notify: what its order of starts saves, in virtual time, and what a change costs it in a large fleet."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime, timedelta

import msgspec

from benchmarks.harness import Cell, Report, median, options
from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, PodDetails, PodRow
from haulout.core.declaration import Enabled
from haulout.kernel.assemble import assemble
from haulout.kernel.kernel import Kernel
from haulout.model.meta import Condition, wire_time
from haulout.surfaces.notify.scheduler.show import CONDITION, WAITING
from haulout.surfaces.notify.surface import NOTIFY
from haulout.surfaces.notify.wire import FINALIZER, SCHEDULED, NoticeRow, Status, Transition, notice_key
from tests.build.campaign import MIXES, PATIENT, POLICIES, Campaign, Result
from tests.build.notices import options as notify_options

HOUR = timedelta(hours=1)
START = datetime(2026, 3, 2, 12, tzinfo=UTC)
# At least so much less work is lost on the mixed fleet than first come, first served; and it is not done later.
SAVED, FLEETS = 0.3, ((2_500, 500), (5_000, 250), (5_000, 500), (5_000, 1_000), (10_000, 500))
PODS = 5


def campaign(mix: str, policy: str, nodes: int, seed: int) -> Result:
    began = time.process_time()
    result = Campaign(mix, policy, nodes=nodes, at_once=max(1, nodes // 20), seed=seed).run()
    print(f"{mix}, {policy}: {result} in {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
    return result


def row_of(mix: str, policy: str, result: Result) -> dict[str, Cell]:
    return {
        "mix": mix,
        "order": policy,
        "total h": result.total_for / HOUR,
        "longest wait h": result.longest_wait_for / HOUR,
        "lost GPU h": result.lost_hours,
        "runs cut off": result.cut_off,
        "idle GPU h": result.idle_hours,
        "most out": result.most_out,
    }


class Fleet:
    """A kernel with nodes and candidates in memory. The budget is full: one node is cordoned by a person."""

    def __init__(self, nodes: int, candidates: int) -> None:
        scheduler = {"enabled": True, "budgets": [{"name": "all", "maxUnavailable": 1}]}
        given = notify_options(json.dumps({"slaPeriod": "8h", "operators": {"scheduler": scheduler}}))
        assembly = assemble([Enabled(NOTIFY, given)], together=False)
        self.kernel: Kernel = assembly.kernel
        self.now, self.version = START, 1
        kinds = {source.kind for source in assembly.sources()}
        for kind in kinds:
            self.kernel.store.begin_list("", kind)
        for number in range(nodes):
            self.kernel.store.put(self.node(number, cordoned=number == nodes - 1))
        for number in range(candidates):
            self.kernel.store.put(self.notice(number))
            for pod in range(PODS):
                self.kernel.store.put(self.pod(number, pod))
        for kind in kinds:
            self.kernel.store.end_list("", kind, 1)
        self.last = nodes - 1
        self.settle(10)

    def node(self, number: int, *, cordoned: bool = False) -> NodeRow:
        key = node_key(f"n{number}")
        return NodeRow(
            key=key, uid=key.name, version=self.version, unschedulable=cordoned, conditions=(("Ready", "True"),)
        )

    def notice(self, number: int) -> NoticeRow:
        waits = Condition(CONDITION, WAITING, "BudgetExhausted(all)", last_transition_time=START)
        stamps = (Transition(SCHEDULED, START),)
        status = Status(SCHEDULED, conditions=(waits,), transition_timestamps=stamps)
        return NoticeRow(
            key=notice_key("fleet", f"m{number}"),
            uid=f"m{number}",
            version=self.version,
            finalizers=(FINALIZER,),
            node=f"n{number}",
            maintenance=f"id{number % 10}",
            type="planned",
            status=status,
        )

    def pod(self, number: int, pod: int, minutes: int = 30) -> PodRow:
        ends = wire_time(START + timedelta(minutes=minutes + number % 60))
        return PodRow(
            key=Key("", "Pod", "ml", f"p{number}-{pod}"),
            uid=f"p{number}-{pod}",
            version=self.version,
            node=f"n{number}",
            phase="Running",
            restart_policy="Never",
            annotations={"haulout.dev/expected-end": ends, "haulout.dev/drain": "wait"},
            details=PodDetails(started_at=START),
        )

    def settle(self, seconds: float) -> float:
        """Let so much time pass. Return the CPU seconds that the kernel took."""
        until, began = self.now + timedelta(seconds=seconds), time.process_time()
        while self.now < until:
            self.kernel.run(self.now)
            upcoming = self.kernel.loop.next_instant()
            self.now = min(until, upcoming) if upcoming is not None and upcoming > self.now else until
        self.kernel.run(self.now)
        return time.process_time() - began

    def pod_change(self, number: int) -> float:
        self.version += 1
        self.kernel.store.put(self.pod(number, 0, minutes=31 + self.version % 7))
        return self.settle(3)

    def node_change(self, number: int) -> float:
        self.version += 1
        labels = {"note": str(self.version)}
        self.kernel.store.put(msgspec.structs.replace(self.node(number), labels=labels))
        return self.settle(3)

    def place_freed(self) -> float:
        """A person uncordons the node that has filled the budget."""
        self.version += 1
        self.kernel.store.put(self.node(self.last))
        return self.settle(3)


def cost(nodes: int, candidates: int, runs: int) -> dict[str, Cell]:
    fleet = Fleet(nodes, candidates)
    pods = median([fleet.pod_change(number) for number in range(runs)])
    others = median([fleet.node_change(candidates + number) for number in range(runs)])
    before = fleet.kernel.loop.askings
    freed = fleet.place_freed()
    return {
        "nodes": nodes,
        "candidates": candidates,
        "pod changes, CPU ms": pods * 1e3,
        "other node changes, CPU ms": others * 1e3,
        "place comes free, CPU ms": freed * 1e3,
        "askings then": fleet.kernel.loop.askings - before,
    }


def main() -> None:
    parser = options("notify_scheduler", __doc__, runs=21, peers=False)
    parser.add_argument("--nodes", type=int, default=200, help="of a simulated fleet")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mixes", nargs="*", default=list(MIXES), choices=[*MIXES])
    chosen = parser.parse_args()
    report = Report("notify_scheduler: which node first", chosen)
    results = {
        (mix, policy): campaign(mix, policy, chosen.nodes, chosen.seed) for mix in chosen.mixes for policy in POLICIES
    }
    if results:
        title = f"A maintenance for each of {chosen.nodes} nodes, 5 % of them at once, SLA 4 h, 20 min of work, seed {chosen.seed}"
        report.table(title, [row_of(mix, policy, result) for (mix, policy), result in results.items()])
        report.say(
            "Virtual time on the embedded cluster. 30 % of the nodes have services under PodDisruptionBudgets; the rest has gaming\n"
            "sessions (about 25 min), training runs (2 to 14 h in the middle; half announce their end, wrong by up to a fifth) or,\n"
            "mixed, 30 % and 40 % of these. All orders are configurations of the same scheduler: all weights but that of age, or of\n"
            "a random priority, are 0. Lost is work that the SLA has cut off: age times devices."
        )
    for policy in (POLICIES[0], PATIENT) if "mixed" in chosen.mixes else ():
        ours, theirs = results["mixed", policy], results["mixed", "first come"]
        most = (1 - SAVED) * theirs.lost_hours
        report.goal(f"mixed, {policy}: lost GPU hours, against first come", ours.lost_hours, most, " h")
        report.goal(f"mixed, {policy}: total time", ours.total_for / HOUR, theirs.total_for / HOUR, " h")
    report.table(f"One change, in memory, median of {chosen.runs}", [cost(*fleet, chosen.runs) for fleet in FLEETS])
    report.finish()


if __name__ == "__main__":
    main()
