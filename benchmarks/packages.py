"""Packages over a fleet: what a roll writes, one interrupt, a minute at rest, and how soon the first pods follow a change."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections import Counter
from collections.abc import Iterator

from benchmarks.fixture import Contender, contenders, control_plane, fresh_directory
from benchmarks.harness import OURS, Cell, Peer, Report, load_average, median, options, percentile, until_quiet, usage
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.audit import Entry
from tests.rig.kwok import Kwok
from tests.rig.operator import SkyhookOperator, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import Process, free_port
from tests.rig.rights import printed
from tests.rig.wait import eventually

SKYHOOKS = "skyhook.nvidia.com/v1alpha1/skyhooks"
NAMESPACE, GROUP = "bench-packages", "bench.test/group"
WITHIN = 900.0
# The stages of a package without an interrupt.
STAGES = 2


@contextlib.contextmanager
def operator(plane: ControlPlane, contender: Contender) -> Iterator[Process]:
    """`haulout as skyhook-operator`, or a peer with the same variables; at rest when it is yielded."""
    directory = fresh_directory(plane, contender.name)
    if contender.ours:
        with SkyhookOperator(plane, directory, NAMESPACE, user=contender.user) as made:
            until_quiet(made.process.pid)
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
def fleet(plane: ControlPlane, kwok: Kwok, nodes: int) -> Iterator[str]:
    """A fleet without any trace of an operator. Yield the value of the label that its nodes have."""
    api, group = plane.api(), f"bench{time.monotonic_ns()}"
    names = kwok.nodes(group, nodes, labels={GROUP: group})
    try:
        yield group
    finally:
        for name in names:
            api.delete("nodes", name)


def create(api: Api, name: str, **package: Json) -> None:
    own = {"version": "1.0.0", "image": "reg.test/base", **package}
    spec = {
        "nodeSelectors": {"matchLabels": {GROUP: name}},
        "interruptionBudget": {"percent": 100},
        "packages": {"base": own},
    }
    body = {"apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook", "metadata": {"name": name}, "spec": spec}
    api.create(SKYHOOKS, body)


def delete(api: Api, name: str) -> None:
    api.delete(SKYHOOKS, name)
    eventually(lambda: api.find(SKYHOOKS, name) is None, "the Skyhook is gone", WITHIN)


def await_complete(api: Api, process: Process, name: str) -> None:
    def is_complete() -> bool:
        process.check()
        found = api.get(SKYHOOKS, name)
        status = found.get("status", {})
        is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return bool(is_seen and status.get("status") == "complete")

    eventually(is_complete, "the Skyhook is complete", WITHIN)


def writes(entries: list[Entry]) -> Counter[str]:
    """What was carried out, by verb and resource; leases apart."""
    found = (entry for entry in entries if entry.writes and entry.code < 300 and entry.what != "leases")
    return Counter(entry.what for entry in found)


@dataclasses.dataclass
class Figures:
    rolls: list[dict[str, Cell]] = dataclasses.field(default_factory=list)
    interrupts: list[dict[str, Cell]] = dataclasses.field(default_factory=list)
    idle: list[dict[str, Cell]] = dataclasses.field(default_factory=list)
    pods: list[dict[str, Cell]] = dataclasses.field(default_factory=list)


def roll(plane: ControlPlane, kwok: Kwok, contender: Contender, nodes: int, window: float, found: Figures) -> None:
    """One package without an interrupt on all nodes at once, then a while at rest."""
    api = plane.api()
    with fleet(plane, kwok, nodes) as name, operator(plane, contender) as process:
        before, since, began = usage(process.pid).cpu, plane.audit.mark(), time.perf_counter()
        create(api, name)
        await_complete(api, process, name)
        seconds = time.perf_counter() - began
        until_quiet(process.pid, quiet_for=2, spare=0.1)
        spent, done = usage(process.pid), writes(plane.audit.entries(since=since, user=contender.user))
        of_nodes = done["nodes"] + done["nodes/status"]
        found.rolls.append(
            {
                "program": contender.name,
                "nodes": nodes,
                "node writes a node": of_nodes / nodes,
                "ConfigMap writes a node": done["configmaps"] / nodes,
                "events a node": done["events"] / nodes,
                "pod writes a node": done["pods"] / nodes,
                "status writes": done["skyhooks/status"],
                "status writes a second": done["skyhooks/status"] / seconds,
                "all writes": done.total(),
                "roll, s": seconds,
                "CPU, s": spent.cpu - before,
                "peak RSS, MiB": spent.peak,
                "load": load_average(),
            }
        )
        since, before = plane.audit.mark(), usage(process.pid).cpu
        time.sleep(window)
        at_rest = writes(plane.audit.entries(since=since, user=contender.user))
        cpu = usage(process.pid).cpu - before
        found.idle.append({"program": contender.name, "seconds": window, "writes": at_rest.total(), "CPU, s": cpu})
        delete(api, name)


def interrupt(plane: ControlPlane, kwok: Kwok, contender: Contender, found: Figures) -> None:
    api = plane.api()
    with fleet(plane, kwok, 1) as name, operator(plane, contender) as process:
        since = plane.audit.mark()
        create(api, name, interrupt={"type": "noop"})
        await_complete(api, process, name)
        until_quiet(process.pid, quiet_for=2, spare=0.1)
        done = writes(plane.audit.entries(since=since, user=contender.user))
        kinds = {what: done[what] for what in ("nodes", "nodes/status", "pods", "configmaps", "skyhooks/status")}
        found.interrupts.append(
            {"program": contender.name, **kinds, "events": done["events"], "all writes": done.total()}
        )
        delete(api, name)


def first_pods(plane: ControlPlane, kwok: Kwok, contender: Contender, nodes: int, found: Figures) -> None:
    """From the creation of a Skyhook to the creation of the first pod of each node."""
    api = plane.api()
    with fleet(plane, kwok, nodes) as name, operator(plane, contender) as process:
        since = plane.audit.mark()
        create(api, name)
        await_complete(api, process, name)
        entries = plane.audit.entries(since=since)
        made = next(entry for entry in entries if entry.act == "create skyhooks")
        taken = sorted(
            (entry.received_at - made.received_at).total_seconds()
            for entry in entries
            if entry.act == "create pods" and entry.code == 201
        )[:nodes]
        found.pods.append(
            {
                "program": contender.name,
                "nodes": nodes,
                "first, ms": taken[0] * 1000,
                "p50, ms": percentile(taken, 0.5) * 1000,
                "p99, ms": percentile(taken, 0.99) * 1000,
                "load": load_average(),
            }
        )
        delete(api, name)


def define(plane: ControlPlane) -> None:
    api = plane.api()
    api.create("namespaces", {"metadata": {"name": NAMESPACE}})
    for crd in printed("crds", "packages"):
        api.create(CRDS, crd)
    eventually(lambda: api.items(SKYHOOKS) is not None, "Skyhooks are served", refused=(ApiError,))


def main() -> None:
    parser = options("packages", __doc__, runs=1)
    parser.add_argument("--nodes", type=int, default=100, help="of the roll (default %(default)s)")
    parser.add_argument("--many", type=int, default=1000, help="nodes for the first pods (default %(default)s)")
    parser.add_argument("--window", type=float, default=60, help="seconds at rest (default %(default)s)")
    chosen = parser.parse_args()
    report = Report("packages: a roll, an interrupt, a minute at rest, and the first pods", chosen)
    found = Figures()
    with control_plane("packages", ()) as plane, Kwok(plane) as kwok:
        define(plane)
        for _ in range(chosen.runs):
            for contender in contenders(chosen.peers):
                roll(plane, kwok, contender, chosen.nodes, chosen.window, found)
                interrupt(plane, kwok, contender, found)
                if chosen.many:
                    first_pods(plane, kwok, contender, chosen.many, found)
    tell(report, found, chosen.peers)


def tell(report: Report, found: Figures, peers: list[Peer]) -> None:
    report.table("One package without an interrupt, all nodes at once", found.rolls)
    report.table("One package with an interrupt on one node: writes", found.interrupts)
    report.table("At rest, after the roll", found.idle)
    if found.pods:
        report.table("From a Skyhook's creation to the first pod of each node", found.pods)
    report.ratios({contender.name: summary(contender.name, found) for contender in contenders(peers)})
    ours = [row for row in found.rolls if row["program"] == OURS]
    report.goal("node writes a stage", max(float(row["node writes a node"] or 0) / STAGES for row in ours), 3)
    report.goal(
        "ConfigMap writes a node and package", max(float(row["ConfigMap writes a node"] or 0) for row in ours), 1
    )
    report.goal("status writes a second", max(float(row["status writes a second"] or 0) for row in ours), 1)
    idle = [float(row["writes"] or 0) for row in found.idle if row["program"] == OURS]
    report.goal("writes at rest", max(idle), 0)
    report.finish()


def summary(program: str, found: Figures) -> dict[str, float]:
    def middle(rows: list[dict[str, Cell]], column: str) -> float:
        return median(float(row[column] or 0) for row in rows if row["program"] == program)

    return {
        "roll, writes": middle(found.rolls, "all writes"),
        "roll, CPU": middle(found.rolls, "CPU, s"),
        "roll, wall": middle(found.rolls, "roll, s"),
        "RSS": middle(found.rolls, "peak RSS, MiB"),
        "interrupt, writes": middle(found.interrupts, "all writes"),
    }


if __name__ == "__main__":
    main()
