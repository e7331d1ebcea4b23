"""How fast the bare kernel is: in memory, no I/O, every write answered at once."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from benchmarks.harness import OURS, Cell, Peer, Report, load_average, median, options
from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import Count, Membership
from haulout.cluster.rows import NodeRow, ObjectRow, PodRow, Row, Value
from haulout.cluster.view import CONFIG, View
from haulout.core.action import Measure, Say
from haulout.core.arbiter import Rules, arbiter
from haulout.core.budgets.quorum import KEEPER
from haulout.core.budgets.rule import RULER
from haulout.core.budgets.wire import KIND
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.drain.deciders import DRAIN_DECIDERS
from haulout.core.drain.options import DrainOptions, drain_row
from haulout.core.holds import Claim, Want
from haulout.kernel.kernel import Kernel
from haulout.kernel.requests import Request, Telling
from haulout.kernel.rooms import Subject
from haulout.surfaces.profiles.decide import decide
from haulout.surfaces.profiles.load import known_plugins, load
from haulout.surfaces.profiles.surface import DECIDER
from haulout.surfaces.profiles.wire import SURFACE
from tests.build.budgets import budget
from tests.build.rows import START, node
from tests.build.toy import roll
from tests.build.world import Feed, World, copy
from tests.real.profiles import DATA, GO, PROFILE, STATE, roll_config

MOST = 3


class Zones(Count, frozen=True):
    """A count of nodes by zone, which decisions only read."""

    def groups(self, row: Row) -> Iterable[Membership]:
        assert isinstance(row, NodeRow)
        yield Membership(row.labels.get("zone", ""))


def look(key: Key, view: View, now: datetime) -> Decision:
    row = view.get(key, NodeRow)
    if row is not None and "want" in row.labels and view.count(Zones(), "z0") > 10**6:
        return Decision(until=now)
    return NOTHING


class Bench:
    """A kernel on a world in memory, which carries out and answers its requests at once."""

    def __init__(self, rows: Iterable[ObjectRow], *deciders: Decider, kinds: tuple[str, ...] = ("Node",)) -> None:
        self.world = World()
        for row in rows:
            self.world.put(row)
        self.now = START
        self.kernel = Kernel(deciders, on_failure=fail)
        self.feed = Feed(self.world, self.kernel.store, kinds)

    def list(self) -> None:
        self.feed.list()

    def run(self) -> None:
        while True:
            self.kernel.run(self.now)
            requests = self.kernel.take_requests()
            if not requests:
                return
            for request in requests:
                if not isinstance(request.body, Telling | Measure | Say):
                    self.kernel.on_answer(request.id, self.world.carry_out(request.body), self.now)
            # The echo of our own writes arrives, too. Finding it equal is part of the cost.
            self.feed.watch()

    def run_to_the_end(self) -> None:
        self.run()
        while (instant := self.kernel.next_instant()) is not None:
            self.now = max(self.now, instant)
            self.run()

    @property
    def askings(self) -> int:
        return self.kernel.loop.askings

    @property
    def writes(self) -> int:
        return len(self.world.writes)


def fail(subject: Subject, error: Exception) -> None:
    raise AssertionError(f"{subject} failed") from error


def cpu_seconds(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def changed(rows: Iterable[Row], number: int) -> Iterator[NodeRow]:
    """Yield the nodes with a changed label that no decision reads."""
    for row in rows:
        assert isinstance(row, NodeRow)
        labels = {**row.labels, "number": str(number)}
        yield msgspec.structs.replace(row, version=row.version + 1, labels=labels)


def heartbeats(count: int) -> dict[str, Cell]:
    bench = Bench((node(f"n{i}", want="yes", zone=f"z{i % 3}") for i in range(count)), Decider("look", "Node", look))
    bench.list()
    bench.run()
    store, before = bench.kernel.store, bench.askings
    rows = [copy(row) for row in bench.world.objects.values()]
    for row in rows:
        msgspec.structs.force_setattr(row, "version", row.version + count)

    def work() -> None:
        for row in rows:
            store.put(row)
            bench.kernel.run(bench.now)

    spent = cpu_seconds(work)
    return line("heartbeat: an equal row comes in", count, spent, bench.askings - before, 0)


def wake_ups(count: int) -> dict[str, Cell]:
    bench = Bench((node(f"n{i}", want="yes", zone=f"z{i % 3}") for i in range(count)), Decider("look", "Node", look))
    bench.list()
    bench.run()
    store, before = bench.kernel.store, bench.askings
    rows = list(changed(bench.world.objects.values(), 1))

    def work() -> None:
        for row in rows:
            store.put(row)
            bench.kernel.run(bench.now)

    spent = cpu_seconds(work)
    return line("(a) wake-up that decides nothing", count, spent, bench.askings - before, 0)


def toy_cycles(count: int) -> dict[str, Cell]:
    bench = Bench((node(f"n{i:05}", want="yes") for i in range(count)), roll(MOST), arbiter(Rules(("toy",))))
    bench.list()
    spent = cpu_seconds(bench.run_to_the_end)
    return line(f"(b) cycle of a toy: hold, grant, patch; {MOST} at a time", count, spent, bench.askings, bench.writes)


def profile_nodes(count: int, **labels: str) -> Iterator[NodeRow]:
    for i in range(count):
        yield node(f"n{i:05}", labels={PROFILE: "roll", **labels})


def profiles(count: int, **labels: str) -> Bench:
    bench = Bench(profile_nodes(count, **labels), DECIDER, arbiter(Rules((SURFACE,), turns=False)))
    content = roll_config(MOST).encode()
    config = load(content, known_plugins(), source="maintenance.yaml", environment={})
    bench.kernel.store.write(Value(key=Key("", CONFIG, "", SURFACE), value=config))
    return bench


def profile_cycles(count: int) -> dict[str, Cell]:
    bench = profiles(count, **{GO: "true"})
    bench.list()
    spent = cpu_seconds(bench.run_to_the_end)
    return line(f"(c) profiles: three transitions a node, {MOST} at a time", count, spent, bench.askings, bench.writes)


def profile_wake_ups(count: int) -> dict[str, Cell]:
    bench = profiles(count)
    bench.list()
    bench.run()
    store, before, written = bench.kernel.store, bench.askings, bench.writes
    rows = list(changed(bench.world.objects.values(), 1))

    def work() -> None:
        for row in rows:
            store.put(row)
            bench.kernel.run(bench.now)

    spent = cpu_seconds(work)
    return line(
        "(c) profiles: wake-up that decides nothing", count, spent, bench.askings - before, bench.writes - written
    )


def profile_decisions(count: int) -> dict[str, Cell]:
    """Measure calls of the decision function without the kernel, for nodes that wait for a turn."""
    bench = profiles(count, **{GO: "true"})
    bench.list()
    bench.run()
    store = bench.kernel.store
    keys = store.keys("", "Node")
    for key in keys:
        row = bench.world.objects[key]
        entry = '{"Profiles":{"roll":{"Transition":"2026-03-01T09:00:00Z","Current":"maintenance-required"}}}'
        data = row.annotations.get(DATA, entry)
        labels = {**row.labels, GO: "true", STATE: "maintenance-required"}
        store.put(copy(bench.world.put(msgspec.structs.replace(row, labels=labels, annotations={DATA: data}))))

    def work() -> None:
        for key in keys:
            decide(key, View(store), bench.now)

    spent = cpu_seconds(work)
    return line("(c) profiles: decide() alone", count, spent, count, 0)


def takes(key: Key, view: View, now: datetime) -> Decision:
    """Claim each node for a drain, and do nothing once it is granted, so that only the arbiter is measured."""
    return Decision(claims=(Claim(key, key, frozenset({Want.DRAIN})),)) if view.get(key, NodeRow) else NOTHING


def budgets(nodes: int, number: int) -> dict[str, Cell]:
    """Measure one decision of the arbiter under so many budgets over the same nodes, each by zone."""
    specs = ({"matchExpressions": [{"key": f"x{i}", "operator": "DoesNotExist"}]} for i in range(number))
    rows = (budget(f"b{i:03}", selector=spec, topologyKey="zone") for i, spec in enumerate(specs))
    judge = arbiter(Rules(("toy",), budgets=True))
    fleet = (node(f"n{i:03}", zone=f"z{i % 3}") for i in range(nodes))
    bench = Bench([*fleet, *rows], RULER, KEEPER, Decider("toy", "Node", takes), judge, kinds=("Node", KIND))
    bench.list()
    bench.run()
    before = bench.askings
    subjects = [Subject(judge.name, node_key(f"n{i:03}")) for i in range(nodes)]

    def work() -> None:
        for subject in subjects:
            bench.kernel.loop.wake(subject)
            bench.kernel.run(bench.now)

    spent = cpu_seconds(work)
    return line(f"(d) arbiter under {number} budgets with domains", nodes, spent, bench.askings - before, 0)


def eighteen_budgets(count: int) -> dict[str, Cell]:
    return budgets(count // 10, 18)


def many_budgets(count: int) -> dict[str, Cell]:
    return budgets(count // 10, 500)


def drained(key: Key, view: View, now: datetime) -> Decision:
    row = view.get(key, NodeRow)
    options = DrainOptions(force=True, delete_local_data=True)
    return Decision(marks=(drain_row("toy", key, key, options=options),)) if row is not None else NOTHING


def drain(pods: int) -> dict[str, Cell]:
    """Measure the drain of one node with so many pods. Ten requests are answered at a time, every 10 ms."""
    bare = (PodRow(key=Key("", "Pod", "ns", f"p{i:05}"), uid=f"u{i}", node="a", phase="Running") for i in range(pods))
    cordoned = msgspec.structs.replace(node("a"), unschedulable=True)
    kinds = ("Node", "Pod", "PodDisruptionBudget", "DaemonSet")
    bench = Bench([cordoned, *bare], Decider("toy", "Node", drained), *DRAIN_DECIDERS, kinds=kinds)
    bench.list()

    def work() -> None:
        waiting: list[Request] = []
        bench.kernel.run(bench.now)
        waiting += bench.kernel.take_requests()
        while waiting:
            gone, waiting = waiting[:10], waiting[10:]
            bench.now += timedelta(milliseconds=10)
            for request in gone:
                if not isinstance(request.body, Telling | Measure | Say):
                    bench.kernel.on_answer(request.id, bench.world.carry_out(request.body), bench.now)
            bench.feed.watch()
            bench.kernel.run(bench.now)
            waiting += bench.kernel.take_requests()

    spent = cpu_seconds(work)
    return line(f"(e) drain of one node with {pods:,} pods", 1, spent, bench.askings, bench.writes)


def small_drain(count: int) -> dict[str, Cell]:
    return drain(count)


def large_drain(count: int) -> dict[str, Cell]:
    return drain(10 * count)


def line(what: str, nodes: int, spent: float, askings: int, writes: int) -> dict[str, Cell]:
    steps = askings or nodes
    return {
        "what": what,
        "nodes": nodes,
        "askings": askings,
        "writes": writes,
        "CPU, s": spent,
        "askings/s": askings / spent if askings else None,
        "writes/s": writes / spent if writes else None,
        "us each": spent / steps * 1e6,
    }


CASES = (
    heartbeats,
    wake_ups,
    toy_cycles,
    profile_wake_ups,
    profile_decisions,
    profile_cycles,
    eighteen_budgets,
    many_budgets,
    small_drain,
    large_drain,
)


def in_turn(peers: Sequence[Peer], runs: int, nodes: int) -> list[dict[str, Cell]]:
    """Run all cases in processes of ours and of each peer, in turn. Return the median CPU time of each case.

    Other programs on the same cores only ever add to it. So the ratio of the least times says more than that of the medians.
    """
    programs = [Peer(OURS, (sys.executable, "-m", "benchmarks.kernel")), *peers]
    spent: dict[str, dict[str, list[float]]] = {program.name: {} for program in programs}
    for run in range(runs):
        for program in programs if run % 2 else reversed(programs):
            for what, seconds in _cases_of(program, nodes):
                spent[program.name].setdefault(what, []).append(seconds)
    rows: list[dict[str, Cell]] = []
    for what, ours in spent[OURS].items():
        rows.append({"what": what, f"{OURS}, ms": median(ours) * 1e3})
        for peer in peers:
            theirs = spent[peer.name].get(what)
            rows[-1] |= {
                f"{peer.name}, ms": median(theirs) * 1e3 if theirs else None,
                f"{OURS} / {peer.name}": median(ours) / median(theirs) if theirs else None,
                "of the least": min(ours) / min(theirs) if theirs else None,
            }
        rows[-1]["load"] = load_average()
    return rows


def _cases_of(program: Peer, nodes: int) -> Iterator[tuple[str, float]]:
    """Run a program in a process of its own. Yield each case with its CPU seconds, the median of three."""
    with tempfile.NamedTemporaryFile() as figures:
        command = [*program.argv, "--runs", "3", "--nodes", str(nodes), "--json", figures.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = json.loads(Path(figures.name).read_text())
    for row in next(each for each in found.values() if isinstance(each, list)):
        yield row["what"], row["CPU, s"]


def main() -> None:
    parser = options("kernel", __doc__, runs=5)
    parser.add_argument("--nodes", type=int, default=1000)
    chosen = parser.parse_args()
    report = Report("kernel: decisions of the bare kernel, in memory", chosen)
    if chosen.peers:
        title = f"CPU of the same work, in processes that run in turn: medians of {chosen.runs}"
        report.table(title, in_turn(chosen.peers, chosen.runs, chosen.nodes))
        report.finish()
        return
    rows: list[dict[str, Cell]] = []
    for case in CASES:
        runs = [case(chosen.nodes) for _ in range(chosen.runs)]
        spent = median(number(run["CPU, s"]) for run in runs)
        middle = min(runs, key=lambda run: abs(number(run["CPU, s"]) - spent))
        rows.append({**middle, "load": load_average()})
    report.table(f"The median of {chosen.runs} runs by CPU time", rows)
    report.say(
        "us each: for one asking, or for one row that came in without an asking. A write counts all askings\nthat led to it: of the surface, of the arbiter, and those that found nothing to do any more."
    )
    report.finish()


def number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return cell


if __name__ == "__main__":
    main()
