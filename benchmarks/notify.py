"""NotifyMaintenances on a real API server: the writes of one life, many created at once, each transition, and the scheduler."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import yaml

from benchmarks.fixture import Contender, contenders, control_plane, fresh_directory
from benchmarks.harness import (
    OURS,
    Cell,
    Peer,
    Report,
    load_average,
    median,
    options,
    percentile,
    until_quiet,
    usage,
)
from benchmarks.notify_choice import cost
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.audit import Entry
from tests.rig.fleet import node_object
from tests.rig.operator import HAULOUT, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import Process, free_port
from tests.rig.rights import printed
from tests.rig.wait import eventually

NMS = "ngn2.nvidia.com/v1alpha1/notifymaintenances"
NAMESPACE, ID = "bench-notify", "bench"
SLA = "8h"
WITHIN = 300.0
CLIENTS = 8
READY, CLIENT, VALIDATION = (
    "maintenance/readyForMaintenance",
    "maintenance/maintenanceClient",
    "maintenance/validationClient",
)
# Numbers of nodes and candidates. From one fleet to the next, one of the two is doubled.
FLEETS = ((2_500, 500), (5_000, 250), (5_000, 500), (5_000, 1_000), (10_000, 500))
# The original was measured with 13 writes, 30 s for 300 and 52 MB.
MOST_WRITES, MOST_SECONDS = 8, 3.0


@contextlib.contextmanager
def operator(plane: ControlPlane, contender: Contender) -> Iterator[Process]:
    """Run `haulout as pika`, or a peer with the same file in its folder. Yield the process once it is at rest."""
    directory = fresh_directory(plane, contender.name)
    file = directory / "notifyMaintenanceConfig.yaml"
    file.write_text(yaml.safe_dump({"slaPeriod": SLA}))
    ports = [f"--health-probe-bind-address=127.0.0.1:{free_port()}", f"--metrics-port={free_port()}"]
    ours = [HAULOUT, "as", "pika", "--config", file, *ports, f"--cert-dir={directory}", "--zap-devel=false"]
    argv = [*map(str, ours), "--listen-webhooks=0"] if contender.ours else list(contender.argv)
    env = environment(KUBECONFIG=str(plane.kubeconfig(contender.user)), NAMESPACE=NAMESPACE)
    with Process(contender.name, argv, directory, env=env, cwd=directory) as process:
        until_quiet(process.pid, quiet_for=1.5)
        yield process


def together(act: Callable[[int], object], count: int) -> None:
    """Call `act` for each number below `count`, with several clients at once."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(act, range(count)))


class Fleet:
    """Nodes with one NotifyMaintenance each, and the acts of people and their operators on them."""

    def __init__(self, plane: ControlPlane, group: str, count: int) -> None:
        self.plane, self.group, self.count = plane, group, count
        self.apis = [plane.api() for _ in range(CLIENTS)]
        plane.load([node_object(self.node(number)) for number in range(count)])

    def node(self, number: int) -> str:
        return f"{self.group}-n{number}"

    def name(self, number: int) -> str:
        return f"{self.group}-m{number}"

    def api(self, number: int) -> Api:
        return self.apis[number % CLIENTS]

    def create(self, number: int) -> None:
        body: Json = {
            "apiVersion": "ngn2.nvidia.com/v1alpha1",
            "kind": "NotifyMaintenance",
            "metadata": {"name": self.name(number), "namespace": NAMESPACE},
            "spec": {"nodeObject": self.node(number), "maintenanceID": ID, "maintenanceType": "planned"},
        }
        self.api(number).create(NMS, body, NAMESPACE)

    def claim(self, number: int) -> None:
        body = {"metadata": {"labels": {f"maintenance/{ID}": ""}}, "spec": {"unschedulable": True}}
        self.api(number).patch("nodes", self.node(number), body)

    def annotate(self, number: int, key: str, value: str) -> None:
        body = {"metadata": {"annotations": {key: value}}}
        self.api(number).patch(NMS, self.name(number), body, NAMESPACE)

    def delete(self, number: int) -> None:
        self.api(number).delete(NMS, self.name(number), NAMESPACE)

    def uncordon(self, number: int) -> None:
        self.api(number).patch("nodes", self.node(number), {"spec": {"unschedulable": None}})

    def found(self) -> list[Json]:
        rows = self.apis[0].items(NMS, NAMESPACE)
        return [each for each in rows if each["metadata"]["name"].startswith(f"{self.group}-")]

    def until(self, process: Process, holds: Callable[[Json], bool], what: str) -> None:
        """Wait until something holds for every maintenance."""

        def there() -> bool:
            process.check()
            self.pause()
            rows = self.found()
            return len(rows) == self.count and all(map(holds, rows))

        eventually(there, what, WITHIN)

    def pause(self) -> None:
        """Wait longer for larger fleets: lists are expensive, and times come from the audit log anyway."""
        time.sleep(self.count / 500)

    def until_state(self, process: Process, state: str) -> None:
        self.until(process, lambda row: row.get("status", {}).get("maintenanceStatus") == state, f"all are {state}")

    def until_gone(self, process: Process) -> None:
        def gone() -> bool:
            process.check()
            self.pause()
            return not self.found()

        eventually(gone, "all are gone", WITHIN)


def live(fleet: Fleet, process: Process) -> Iterator[str]:
    """Take all maintenances through their lives, step by step. Yield the name of each step when it is done."""
    together(fleet.create, fleet.count)
    fleet.until_state(process, "MaintenanceScheduled")
    yield "created to MaintenanceScheduled"
    together(fleet.claim, fleet.count)
    fleet.until_state(process, "MaintenanceStarted")
    yield "cordoned to MaintenanceStarted"
    together(lambda number: fleet.annotate(number, READY, "true"), fleet.count)
    fleet.until_state(process, "ObjectsDrained")
    yield "ready to ObjectsDrained"
    together(lambda number: fleet.annotate(number, CLIENT, "complete"), fleet.count)
    fleet.until_state(process, "Validating")
    yield "complete to Validating"
    together(lambda number: fleet.annotate(number, VALIDATION, "validated"), fleet.count)
    fleet.until(process, _is_validated, "all are validated")
    yield "validated to its condition"
    together(fleet.delete, fleet.count)
    fleet.until(process, _is_terminated, "all have ended")
    yield "deleted to its end announced"
    together(fleet.uncordon, fleet.count)
    fleet.until_gone(process)
    yield "uncordoned to gone"


def _is_validated(row: Json) -> bool:
    found = row.get("status", {}).get("conditions") or []
    return any(each["type"] == "validationClient" and each["status"] == "validated" for each in found)


def _is_terminated(row: Json) -> bool:
    return "maintenance.ngn2.nvidia.com/terminated" in (row["metadata"].get("annotations") or {})


@dataclasses.dataclass
class Figures:
    lives: list[dict[str, Cell]] = dataclasses.field(default_factory=list)
    many: list[dict[str, Cell]] = dataclasses.field(default_factory=list)
    moves: list[dict[str, Cell]] = dataclasses.field(default_factory=list)


def writes(entries: list[Entry]) -> Counter[str]:
    """Return how many successful writes there were of each resource, without Leases, events and Secrets."""
    apart = ("leases", "events", "secrets")
    return Counter(entry.what for entry in entries if entry.writes and entry.code < 300 and entry.what not in apart)


def one_life(plane: ControlPlane, contender: Contender, process: Process, found: Figures) -> None:
    fleet = Fleet(plane, f"one{time.monotonic_ns()}", 1)
    since = plane.audit.mark()
    for _ in live(fleet, process):
        pass
    until_quiet(process.pid, quiet_for=1, spare=0.1)
    done = writes(plane.audit.entries(since=since, user=contender.user))
    kinds = ("notifymaintenances", "notifymaintenances/status", "nodes")
    found.lives.append({"program": contender.name, **{kind: done[kind] for kind in kinds}, "all writes": done.total()})


def created_at_once(plane: ControlPlane, contender: Contender, process: Process, count: int, found: Figures) -> None:
    """Measure from the first creation to the last status, by the API server's audit log."""
    fleet = Fleet(plane, f"many{time.monotonic_ns()}", count)
    since, before = plane.audit.mark(), usage(process.pid).cpu
    together(fleet.create, count)
    fleet.until_state(process, "MaintenanceScheduled")
    print(f"{contender.name}: {count} created at once", file=sys.stderr, flush=True)
    entries = plane.audit.entries(since=since)
    made = [entry.received_at for entry in entries if entry.act == "create notifymaintenances"]
    waits = list(_taken(entries, fleet, contender))
    until_quiet(process.pid, quiet_for=1, spare=0.1)
    spent = usage(process.pid)
    found.many.append(
        {
            "program": contender.name,
            "maintenances": count,
            "creating them took, s": (max(made) - min(made)).total_seconds(),
            "scheduled after, p50, s": percentile(waits, 0.5),
            "the last after, s": max(waits),
            "CPU, s": spent.cpu - before,
            "RSS, MiB": spent.rss,
            "peak RSS, MiB": spent.peak,
            "load": load_average(),
        }
    )
    together(fleet.delete, count)
    fleet.until_gone(process)


def transitions(plane: ControlPlane, contender: Contender, process: Process, count: int, found: Figures) -> None:
    """Measure from a client's write to the operator's write that answers it, by the API server's audit log."""
    fleet = Fleet(plane, f"all{time.monotonic_ns()}", count)
    since = plane.audit.mark()
    for step in live(fleet, process):
        print(f"{contender.name}: {count} maintenances, {step}", file=sys.stderr, flush=True)
        taken = list(_taken(plane.audit.entries(since=since), fleet, contender))
        since = plane.audit.mark()
        found.moves.append(
            {
                "program": contender.name,
                "maintenances": count,
                "step": step,
                "p50, ms": percentile(taken, 0.5) * 1000,
                "p99, ms": percentile(taken, 0.99) * 1000,
                "peak RSS, MiB": usage(process.pid).peak,
            }
        )


def _taken(entries: list[Entry], fleet: Fleet, contender: Contender) -> Iterator[float]:
    nodes = {fleet.node(number): fleet.name(number) for number in range(fleet.count)}
    asked: dict[str, float] = {}
    for entry in entries:
        name = nodes.get(entry.name, entry.name) or ((entry.body or {}).get("metadata") or {}).get("name", "")
        if entry.user != contender.user and entry.writes:
            asked.setdefault(name, entry.received_at.timestamp())
    answered: dict[str, float] = {}
    for entry in entries:
        if entry.user == contender.user and entry.writes and entry.what.startswith("notifymaintenances"):
            answered[entry.name] = entry.received_at.timestamp()
    return (answered[name] - at for name, at in asked.items() if name in answered)


def define(plane: ControlPlane) -> None:
    api = plane.api()
    api.create("namespaces", {"metadata": {"name": NAMESPACE}})
    for crd in printed("crds", "notify"):
        api.create(CRDS, crd)
    eventually(lambda: api.items(NMS) is not None, "NotifyMaintenances are served", refused=(ApiError,))


def main() -> None:
    parser = options("notify", __doc__, runs=1)
    # --runs 0: only the scheduler, without a server.
    parser.add_argument("--at-once", type=int, default=300, help="maintenances created at once (default %(default)s)")
    parser.add_argument("--many", type=int, default=1000, help="nodes and maintenances (default %(default)s; 0: none)")
    parser.add_argument("--changes", type=int, default=11, help="of each kind for the scheduler (0: none)")
    chosen = parser.parse_args()
    report = Report("notify: one life, many at once, each transition, and the scheduler", chosen)
    found = Figures()
    if chosen.runs:
        measure(chosen, found)
    costs = [cost(*fleet, chosen.changes) for fleet in FLEETS] if chosen.changes else []
    tell(report, found, costs, chosen.peers)


def measure(chosen: argparse.Namespace, found: Figures) -> None:
    with control_plane("notify", ()) as plane:
        define(plane)
        for _ in range(chosen.runs):
            for contender in contenders(chosen.peers):
                with operator(plane, contender) as process:
                    one_life(plane, contender, process, found)
                    created_at_once(plane, contender, process, chosen.at_once, found)
                    if chosen.many:
                        transitions(plane, contender, process, chosen.many, found)


def tell(report: Report, found: Figures, costs: list[dict[str, Cell]], peers: list[Peer]) -> None:
    if found.lives:
        report.table(
            "Writes of one life: from its creation to its end, validated, by a person and clients", found.lives
        )
        report.table("Created at once", found.many)
        if found.moves:
            report.table("Each transition, all maintenances at once", found.moves)
        report.ratios({contender.name: summary(contender.name, found) for contender in contenders(peers)})
        ours = summary(OURS, found)
        report.goal("writes of one life", ours["writes"], MOST_WRITES)
        report.goal("created at once, the longest wait until it is scheduled", ours["scheduled, s"], MOST_SECONDS, " s")
    if costs:
        report.table("The scheduler, its budget full: one change, in memory", costs)
        by = {(row["nodes"], row["candidates"]): float(row["pod changes, CPU ms"] or 0) for row in costs}
        # Twice as many may cost twice as much, and half of that again because measurements vary.
        report.goal("twice the nodes cost", by[10_000, 500] / by[5_000, 500], 1.5, " times as much")
        report.goal("twice the candidates cost", by[5_000, 1_000] / by[5_000, 500], 3, " times as much")
    report.finish()


def summary(program: str, found: Figures) -> dict[str, float]:
    def middle(rows: list[dict[str, Cell]], column: str) -> float:
        return median(float(row[column] or 0) for row in rows if row["program"] == program)

    return {
        "writes": middle(found.lives, "all writes"),
        "scheduled, s": middle(found.many, "the last after, s"),
        "CPU": middle(found.many, "CPU, s"),
        "RSS": middle(found.many, "RSS, MiB"),
    }


if __name__ == "__main__":
    main()
