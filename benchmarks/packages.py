"""Packages over fleets: what a roll writes and costs, one interrupt, a minute at rest, how soon the first pods follow, and
what a change of a Skyhook costs that selects few nodes.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from benchmarks.fixture import Contender, contenders, control_plane, fresh_directory
from benchmarks.harness import OURS, Cell, Peer, Report, load_average, median, options, percentile, until_quiet, usage
from haulout.kernel.rooms import Subject
from haulout.kube.recorder import REPEATED_AFTER
from haulout.surfaces.packages.skyhook.hearing import NODE_DECISION
from tests.build.skyhooks import Skyhooks, pkg
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.audit import Entry
from tests.rig.kwok import PACKAGE_TAKES, Kwok
from tests.rig.operator import SkyhookOperator, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import Process, free_port
from tests.rig.rights import printed
from tests.rig.wait import eventually

SKYHOOKS = "skyhook.nvidia.com/v1alpha1/skyhooks"
NAMESPACE, GROUP = "bench-packages", "bench.test/group"
WITHIN = 900.0
# Repeated events are written only after this time, and are part of the cost of a roll.
TOLD_AFTER = REPEATED_AFTER + 1.0
# The stages of a package without an interrupt.
STAGES = 2
# The end of a node's name decides what its package pods do: see `tests.rig.kwok`.
WORKS, FAILS_ONCE = "-n", "-7"
# Measured figures of the original (v0.13.0), which is not available as a Go module: 100 nodes, and one interrupt. Its
# writes of pods were not counted.
ORIGINAL = {"roll, writes but pods": 2336, "roll, CPU": 4.7, "interrupt, writes but pods": 72}


class Progress:
    """Prints on stderr what is being measured, so that a long run can be followed."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", file=sys.stderr, flush=True)


PROGRESS = Progress()


@contextlib.contextmanager
def operator(plane: ControlPlane, contender: Contender) -> Iterator[Process]:
    """Run `haulout as skyhook-operator`, or a peer with the same variables. Yield the process once it is at rest."""
    directory = fresh_directory(plane, contender.name)
    if contender.ours:
        with SkyhookOperator(plane, directory, NAMESPACE, user=contender.user) as made:
            until_quiet(made.process.pid, quiet_for=1)
            yield made.process
        return
    env = environment(
        KUBECONFIG=str(plane.kubeconfig(contender.user)),
        NAMESPACE=NAMESPACE,
        ENABLE_WEBHOOKS="false",
        METRICS_PORT=f"127.0.0.1:{free_port()}",
        PROBE_PORT=f"127.0.0.1:{free_port()}",
        LOG_LEVEL="info",
        **{name: os.environ[name] for name in ("AGENT_IMAGE", "PAUSE_IMAGE") if name in os.environ},
    )
    with Process(contender.name, contender.argv, directory, env=env, cwd=directory) as process:
        until_quiet(process.pid)
        yield process


@contextlib.contextmanager
def fleet(plane: ControlPlane, kwok: Kwok, nodes: int, suffix: str) -> Iterator[str]:
    """Create nodes without any trace of an operator. Yield the value of their label."""
    group = f"bench{time.monotonic_ns()}"
    kwok.nodes(group, nodes, labels={GROUP: group}, suffix=suffix)
    try:
        yield group
    finally:
        plane.api().delete_all("nodes", labelSelector=f"{GROUP}={group}")


def create(api: Api, name: str, percent: int, packages: int, **package: Json) -> None:
    own = {"version": "1.0.0", "image": "reg.test/base", **package}
    names = [f"base-{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"[:packages]]
    spec = {
        "nodeSelectors": {"matchLabels": {GROUP: name}},
        "interruptionBudget": {"percent": percent},
        "packages": dict.fromkeys(names, own),
    }
    body = {"apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook", "metadata": {"name": name}, "spec": spec}
    api.create(SKYHOOKS, body)


def delete(api: Api, name: str) -> None:
    api.delete(SKYHOOKS, name)
    eventually(lambda: api.find(SKYHOOKS, name) is None, "the Skyhook is gone", WITHIN)


def await_complete(api: Api, process: Process, name: str) -> None:
    """Wait until the Skyhook is complete, and print its progress."""
    said_at = time.monotonic()
    while True:
        process.check()
        found = api.get(SKYHOOKS, name)
        status = found.get("status", {})
        is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
        if is_seen and status.get("status") == "complete":
            return
        if time.monotonic() > said_at + 10:
            said_at = time.monotonic()
            PROGRESS.say(f"  {status.get('status')}, {status.get('completeNodes')} nodes complete")
        time.sleep(0.5 if len(status.get("nodeStatus", ())) > 500 else 0.1)


def carried_out(entries: list[Entry]) -> list[Entry]:
    """Return the successful writes, without those of Leases."""
    return [entry for entry in entries if entry.writes and entry.code < 300 and entry.what != "leases"]


@dataclasses.dataclass(frozen=True)
class Shape:
    """One roll of packages over nodes. `percent`: how many nodes at once. `takes`: the seconds of one pod."""

    nodes: int
    takes: float
    packages: int = 1
    percent: int = 100
    suffix: str = WORKS

    @property
    def words(self) -> str:
        how = "each pod fails once" if self.suffix == FAILS_ONCE else f"{self.percent} % at once"
        return f"{self.nodes} nodes, {self.packages} packages, {how}"

    @property
    def floor(self) -> float:
        """The seconds that budget and pods alone would take. The packages of a node run side by side."""
        waves = -(-100 // self.percent)
        return waves * STAGES * self.takes


@dataclasses.dataclass
class Figures:
    rolls: list[dict[str, Cell]] = dataclasses.field(default_factory=list)
    interrupts: list[dict[str, Cell]] = dataclasses.field(default_factory=list)
    idle: list[dict[str, Cell]] = dataclasses.field(default_factory=list)
    pods: list[dict[str, Cell]] = dataclasses.field(default_factory=list)


def roll(plane: ControlPlane, kwok: Kwok, contender: Contender, shape: Shape, window: float, found: Figures) -> None:
    """Measure a roll of packages without interrupts. `window`: how many seconds at rest are measured after it."""
    api = plane.api()
    PROGRESS.say(f"{contender.name}: {shape.words}")
    with fleet(plane, kwok, shape.nodes, shape.suffix) as name, operator(plane, contender) as process:
        before, since, began = usage(process.pid).cpu, plane.audit.mark(), time.perf_counter()
        create(api, name, shape.percent, shape.packages)
        await_complete(api, process, name)
        seconds = time.perf_counter() - began
        until_quiet(process.pid, quiet_for=TOLD_AFTER, spare=0.05)
        spent, entries = usage(process.pid), plane.audit.entries(since=since)
        ours = carried_out([entry for entry in entries if entry.user == contender.user])
        found.rolls.append(_roll_row(contender, shape, ours, seconds, spent.cpu - before, spent.peak))
        found.pods.append(_pods_row(contender, shape, entries))
        if window:
            PROGRESS.say(f"  at rest for {window:g} s")
            since, before = plane.audit.mark(), usage(process.pid).cpu
            time.sleep(window)
            at_rest = carried_out(plane.audit.entries(since=since, user=contender.user))
            cpu = usage(process.pid).cpu - before
            found.idle.append({"program": contender.name, "seconds": window, "writes": len(at_rest), "CPU, s": cpu})
        delete(api, name)


def _roll_row(
    contender: Contender, shape: Shape, ours: list[Entry], seconds: float, cpu: float, peak: float
) -> dict[str, Cell]:
    done = Counter(entry.what for entry in ours)
    stages = shape.nodes * shape.packages * STAGES
    # ConfigMaps of nodes have `-metadata-` in their names. The others belong to a Skyhook, however many nodes it has.
    of_nodes = sum(entry.what == "configmaps" and "-metadata-" in str(entry.name) for entry in ours)
    return {
        "program": contender.name,
        "nodes": shape.nodes,
        "packages": shape.packages,
        "%": shape.percent,
        "pods": "fail once" if shape.suffix == FAILS_ONCE else "succeed",
        "node writes a stage": (done["nodes"] + done["nodes/status"]) / stages,
        "ConfigMap writes a node and package": of_nodes / shape.nodes / shape.packages,
        "others": done["configmaps"] - of_nodes,
        "events a node": done["events"] / shape.nodes,
        "pod writes a stage": done["pods"] / stages,
        "status writes": done["skyhooks/status"],
        # The first write is at the begin of the roll and the last at its end, so there is one interval less.
        "a second": max(0, done["skyhooks/status"] - 1) / seconds,
        "writes but pods": len(ours) - done["pods"],
        "all writes": len(ours),
        "roll, s": seconds,
        "floor, s": shape.floor,
        "by the floor": seconds / shape.floor,
        "CPU, s": cpu,
        "CPU, ms a node and package": cpu * 1000 / shape.nodes / shape.packages,
        "peak RSS, MiB": peak,
        "load": load_average(),
    }


def _pods_row(contender: Contender, shape: Shape, entries: list[Entry]) -> dict[str, Cell]:
    """Return the times from the creation of a Skyhook to its first pods, one for each node and package."""
    made = next(entry for entry in entries if entry.act == "create skyhooks")
    taken = sorted(
        (entry.received_at - made.received_at).total_seconds() * 1000
        for entry in entries
        if entry.act == "create pods" and entry.code == 201
    )[: shape.nodes * shape.packages]
    return {
        "program": contender.name,
        "nodes": shape.nodes,
        "packages": shape.packages,
        "%": shape.percent,
        "first, ms": taken[0],
        "p50, ms": percentile(taken, 0.5),
        "p99, ms": percentile(taken, 0.99),
    }


def interrupt(plane: ControlPlane, kwok: Kwok, contender: Contender, found: Figures) -> None:
    api = plane.api()
    PROGRESS.say(f"{contender.name}: one interrupt on one node")
    with fleet(plane, kwok, 1, WORKS) as name, operator(plane, contender) as process:
        since = plane.audit.mark()
        create(api, name, 100, 1, interrupt={"type": "noop"})
        await_complete(api, process, name)
        until_quiet(process.pid, quiet_for=TOLD_AFTER, spare=0.05)
        done = Counter(entry.what for entry in carried_out(plane.audit.entries(since=since, user=contender.user)))
        kinds = {what: done[what] for what in ("nodes", "nodes/status", "pods", "configmaps", "skyhooks/status")}
        found.interrupts.append(
            {
                "program": contender.name,
                **kinds,
                "events": done["events"],
                "writes but pods": done.total() - done["pods"],
                "all writes": done.total(),
            }
        )
        delete(api, name)


def changes(nodes: int, selected: int) -> Iterator[dict[str, Cell]]:
    """Yield what each change of a Skyhook costs that selects some of many nodes, in memory.

    The CPU time is that of the operator, and of the embedded cluster that carries out its writes.
    """
    PROGRESS.say(f"changes of a Skyhook of {selected} nodes among {nodes}, in memory")
    ops = Skyhooks(nodes=nodes)
    for number in range(selected):
        ops.change_node(f"n{number}", {"metadata": {"labels": {GROUP: "ours"}}})
    selector = {"matchLabels": {GROUP: "ours"}}
    ops.make("demo", {"base": pkg()}, nodeSelectors=selector, interruptionBudget={"percent": 100}).run(30)
    assert ops.phase("demo") == "complete"
    asked: list[str] = []

    def note(subject: Subject) -> None:
        if subject.decider == NODE_DECISION:
            asked.append(subject.key.name)

    ops.kernel.loop.on_due = note
    edits: dict[str, Json] = {
        "pause": {"pause": True},
        "resume": {"pause": False},
        "another priority": {"priority": 7},
        "another version": {"packages": {"base": pkg("1.1.0")}},
    }
    for what, spec in edits.items():
        asked.clear()
        askings, began = ops.kernel.loop.askings, time.process_time()
        # No time passes, so that no heartbeat of a simulated node is measured.
        ops.edit("demo", {"spec": spec}).run(0)
        cpu = time.process_time() - began
        yield {
            "nodes": nodes,
            "selected": selected,
            "change": what,
            "nodes asked": len(set(asked)),
            "all askings": ops.kernel.loop.askings - askings,
            "CPU, ms": cpu * 1000,
        }
        ops.run(5)


def define(plane: ControlPlane) -> None:
    api = plane.api()
    api.create("namespaces", {"metadata": {"name": NAMESPACE}})
    for crd in printed("crds", "packages"):
        api.create(CRDS, crd)
    eventually(lambda: api.items(SKYHOOKS) is not None, "Skyhooks are served", refused=(ApiError,))


def shapes(chosen: argparse.Namespace) -> Sequence[Shape]:
    """Return the rolls: one package on each size of fleet, pods that fail, and many packages a tenth at a time."""
    takes = chosen.pod_takes
    one = [Shape(nodes, takes) for nodes in chosen.nodes]
    failing = [Shape(chosen.nodes[0], takes, suffix=FAILS_ONCE)] if chosen.failing and one else []
    many = [Shape(chosen.many, takes, packages=chosen.packages, percent=10)] if chosen.many else []
    return [*one[:1], *failing, *one[1:], *many]


def main() -> None:
    parser = options("packages", __doc__, runs=1)
    parser.add_argument(
        "--nodes", type=int, nargs="*", default=[100, 1000, 5000], help="sizes of fleets (default 100 1000 5000)"
    )
    parser.add_argument(
        "--many", type=int, default=1000, help="nodes of the roll of many packages, 0: none (default %(default)s)"
    )
    parser.add_argument("--packages", type=int, default=5, help="how many these are (default %(default)s)")
    parser.add_argument(
        "--pod-takes", type=float, default=PACKAGE_TAKES, help="seconds that a pod runs (default %(default)s)"
    )
    parser.add_argument("--window", type=float, default=60, help="seconds at rest (default %(default)s)")
    switch = argparse.BooleanOptionalAction
    parser.add_argument("--failing", action=switch, default=True, help="a roll in which each pod fails once")
    parser.add_argument("--interrupt", action=switch, default=True, help="one interrupt on one node")
    parser.add_argument("--server", action=switch, default=True, help="what needs an API server")
    parser.add_argument(
        "--among", type=int, nargs="*", default=[100, 5000], help="sizes of fleets of which 100 nodes are selected"
    )
    chosen = parser.parse_args()
    report = Report("packages: rolls over fleets, an interrupt, a minute at rest, and the first pods", chosen)
    found = Figures()
    if chosen.among:
        tell_changes(report, [row for nodes in chosen.among for row in changes(nodes, 100)])
    if not chosen.server:
        report.finish()
        return
    with control_plane("packages", ()) as plane, Kwok(plane, package_takes=chosen.pod_takes) as kwok:
        define(plane)
        for _ in range(chosen.runs):
            for contender in contenders(chosen.peers):
                if chosen.interrupt:
                    interrupt(plane, kwok, contender, found)
                for number, shape in enumerate(shapes(chosen)):
                    roll(plane, kwok, contender, shape, 0 if number else chosen.window, found)
    tell(report, found, chosen.peers)


def tell_changes(report: Report, rows: list[dict[str, Cell]]) -> None:
    report.table("One change of a Skyhook that selects some of the nodes, in memory", rows)
    most = max(int(row["nodes asked"] or 0) - int(row["selected"] or 0) for row in rows)
    report.goal("nodes asked that are not selected", max(0, most), 0)


def tell(report: Report, found: Figures, peers: list[Peer]) -> None:
    report.table("Packages without an interrupt", found.rolls)
    report.say(
        "Floor: the time that the budget and the pods' own time would take by themselves. Others: ConfigMaps of the\n"
        "Skyhook, however many nodes it has. The API server, KWOK and the operator share the machine."
    )
    if found.interrupts:
        report.table("One package with an interrupt on one node: writes", found.interrupts)
    report.table("At rest, after the roll", found.idle)
    report.table("From a Skyhook's creation to the first pods, one a node and package", found.pods)
    summaries = {contender.name: summary(contender.name, found) for contender in contenders(peers)}
    report.ratios(summaries)
    ours = [row for row in found.rolls if row["program"] == OURS]

    def worst(rows: list[dict[str, Cell]], column: str) -> float:
        return max(float(row[column] or 0) for row in rows)

    report.goal("node writes a stage", worst(ours, "node writes a stage"), 3)
    report.goal("ConfigMap writes a node and package", worst(ours, "ConfigMap writes a node and package"), 1)
    report.goal("status writes a second", worst(ours, "a second"), 1)
    report.goal("writes at rest", worst([row for row in found.idle if row["program"] == OURS], "writes"), 0)
    one = [row for row in ours if row["packages"] == 1 and row["pods"] == "succeed"]
    costs = [float(row["CPU, ms a node and package"] or 0) for row in one]
    if len(costs) > 1:
        report.goal("CPU a node, the largest fleet by the smallest", costs[-1] / costs[0], 1.2)
    if one and one[0]["nodes"] == 100:
        for what in ORIGINAL.keys() & summaries[OURS].keys():
            report.goal(f"{what}, by the original's", summaries[OURS][what] / ORIGINAL[what], 0.3)
    report.finish()


def summary(program: str, found: Figures) -> dict[str, float]:
    def first(rows: list[dict[str, Cell]], column: str) -> float:
        mine = [row for row in rows if row["program"] == program]
        alike = [row for row in mine if all(row.get(key) == mine[0].get(key) for key in ("nodes", "packages", "pods"))]
        return median(float(row[column] or 0) for row in alike)

    return {
        "roll, writes": first(found.rolls, "all writes"),
        "roll, writes but pods": first(found.rolls, "writes but pods"),
        "roll, CPU": first(found.rolls, "CPU, s"),
        "roll, wall": first(found.rolls, "roll, s"),
        "RSS": first(found.rolls, "peak RSS, MiB"),
        **_interrupt_summary(found, first),
    }


def _interrupt_summary(found: Figures, first: Callable[[list[dict[str, Cell]], str], float]) -> dict[str, float]:
    if not found.interrupts:
        return {}
    columns = {"interrupt, writes": "all writes", "interrupt, writes but pods": "writes but pods"}
    return {what: first(found.interrupts, column) for what, column in columns.items()}


if __name__ == "__main__":
    main()
