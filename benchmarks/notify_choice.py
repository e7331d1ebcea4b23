"""Measures what one change costs the scheduler of notify in a large fleet: a kernel in memory, without a server."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import msgspec

from benchmarks.harness import Cell, median
from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, PodDetails, PodRow, PodTraits
from haulout.core.declaration import Enabled
from haulout.kernel.assemble import assemble
from haulout.kernel.kernel import Kernel
from haulout.model.meta import Condition, wire_time
from haulout.surfaces.notify.scheduler.show import CONDITION, WAITING
from haulout.surfaces.notify.surface import NOTIFY
from haulout.surfaces.notify.wire import FINALIZER, SCHEDULED, NoticeRow, Status, Transition, notice_key
from tests.build.notices import options as notify_options

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
PODS = 5


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
            spec=PodTraits(restart_policy="Never"),
            annotations={"haulout.dev/expected-end": ends, "haulout.dev/drain": "wait"},
            details=PodDetails(started_at=START),
        )

    def settle(self, seconds: float) -> float:
        """Run the kernel for some virtual seconds. Return the CPU seconds that it took."""
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
        """Uncordon the node that has filled the budget, as a person would. Return the CPU seconds."""
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
