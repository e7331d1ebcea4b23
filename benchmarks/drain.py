"""How long drains take beside what cannot be avoided, and what they ask of the API server: one full node, many at once."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from benchmarks.fixture import Contender, contenders, control_plane, fresh_directory, peer_process
from benchmarks.harness import OURS, Cell, Report, load_average, median, options, usage
from tests.rig.api import Api, Json, is_behind
from tests.rig.audit import Entry
from tests.rig.kwok import STARTS_AFTER, Kwok
from tests.rig.maintenances import BUDGETS, NMS, budget, define, ends, maintenance
from tests.rig.operator import NodeMaintenanceOperator
from tests.rig.plane import ControlPlane
from tests.rig.process import Process
from tests.rig.wait import eventually

PREFIX = "bench"
REPLICA_SETS = "apps/v1/replicasets"
WITHIN = 1800.0
# Enough to keep an API server of two cores busy.
HANDS = 16
# The label of nodes that take the replacements of evicted pods, and are not drained.
SPARE = {"bench.test/spare": "yes"}


@contextlib.contextmanager
def operator(plane: ControlPlane, contender: Contender) -> Iterator[Process]:
    """Run `haulout as node-maintenance-operator`, or a peer. Yield the process once it is at rest."""
    directory = fresh_directory(plane, contender.name)
    if contender.ours:
        with NodeMaintenanceOperator(plane, directory, user=contender.user) as made:
            time.sleep(2)
            yield made.process
        return
    with peer_process(plane, contender, directory) as process:
        time.sleep(5)
        process.check()
        yield process


# One full node


def bare(plane: ControlPlane, kwok: Kwok, pods: int, grace: int) -> float:
    """Return the least possible seconds: all evictions are sent at once, without decisions, until the last pod is gone."""
    api = plane.api()
    with world(plane, "floor"):
        (node,) = kwok.nodes(f"{PREFIX}-floor", 1)
        names = kwok.pods(f"{PREFIX}-floor", [node], pods, grace=grace)
        began = time.perf_counter()
        with ThreadPoolExecutor(HANDS) as hands:
            list(hands.map(lambda name: api.evict(name, f"{PREFIX}-floor"), names))
        eventually(lambda: not api.items("pods", f"{PREFIX}-floor", limit="1"), "all are gone", WITHIN)
        return time.perf_counter() - began


def one_node(plane: ControlPlane, kwok: Kwok, contender: Contender, pods: int, grace: int) -> dict[str, Cell]:
    floor = bare(plane, kwok, pods, grace)
    with world(plane, "one"), operator(plane, contender) as process:
        (node,) = kwok.nodes(f"{PREFIX}-one", 1)
        kwok.pods(f"{PREFIX}-one", [node], pods, grace=grace)
        taken = drained(plane, contender, process, [node])
    return {
        "program": contender.name,
        "pods": pods,
        "total, s": taken.seconds,
        "floor, s": floor,
        "by floor": taken.seconds / floor,
        **figures(taken),
    }


# Many nodes under budgets


def many_nodes(
    plane: ControlPlane, kwok: Kwok, contender: Contender, shape: Shape, grace: int, starts: int
) -> dict[str, Cell]:
    with world(plane, "many") as ns, operator(plane, contender) as process:
        nodes = kwok.nodes(f"{PREFIX}-many", shape.nodes)
        for app in range(shape.budgets):
            plane.api().create(REPLICA_SETS, replica_set(f"app-{app}", shape.replicas, grace, starts), ns)
            plane.api().create(BUDGETS, budget(f"app-{app}", f"app-{app}", maxUnavailable=shape.most), ns)
        ready(plane.api(), ns, shape.budgets * shape.replicas)
        kwok.nodes(f"{PREFIX}-spare", math.ceil(shape.pods / 400) + 1, labels=SPARE)
        opened(plane.api(), ns, shape)
        taken = drained(plane, contender, process, nodes)
    floor = shape.floor(grace, starts)
    return {
        "program": contender.name,
        "nodes": shape.nodes,
        "pods": shape.pods,
        "budgets": f"{shape.budgets}, {shape.most} of {shape.replicas} each",
        "total, s": taken.seconds,
        "floor, s": floor,
        "by floor": taken.seconds / floor,
        **figures(taken),
    }


@dataclasses.dataclass(frozen=True)
class Shape:
    """One drain of many nodes. `each`: pods a node. `share`: the part of a budget's pods that may be away at once."""

    nodes: int
    each: int
    budgets: int
    share: float

    @property
    def pods(self) -> int:
        return self.nodes * self.each

    @property
    def replicas(self) -> int:
        return self.pods // self.budgets

    @property
    def most(self) -> int:
        return max(1, int(self.replicas * self.share))

    def floor(self, grace: int, starts: int) -> float:
        """Return the least possible seconds: every wave waits for the replacements of the last one, then one grace period."""
        return (math.ceil(self.replicas / self.most) - 1) * starts + grace


def replica_set(name: str, replicas: int, grace: int, starts: int) -> Json:
    notes = {STARTS_AFTER: f"{starts}s"}
    spec: Json = {
        "containers": [{"name": "main", "image": "registry.test/app:1"}],
        "terminationGracePeriodSeconds": grace,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": name}},
            }
        ],
    }
    template = {"metadata": {"labels": {"app": name}, "annotations": notes}, "spec": spec}
    selector = {"matchLabels": {"app": name}}
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": selector, "template": template}}


def ready(api: Api, ns: str, pods: int) -> None:
    def all_ready() -> bool:
        sets = api.items(REPLICA_SETS, ns)
        return sum(int(each.get("status", {}).get("readyReplicas", 0)) for each in sets) == pods

    eventually(all_ready, f"{pods} pods are ready", WITHIN)


def opened(api: Api, ns: str, shape: Shape) -> None:
    def all_open() -> bool:
        return all(each.get("status", {}).get("disruptionsAllowed") == shape.most for each in api.items(BUDGETS, ns))

    eventually(all_open, "all budgets are open", WITHIN)


# Both


@contextlib.contextmanager
def world(plane: ControlPlane, name: str) -> Iterator[str]:
    """Yield a new namespace. Afterwards delete everything in it, and the nodes named after it."""
    ns = f"{PREFIX}-{name}"
    plane.api().create("namespaces", {"metadata": {"name": ns}})
    try:
        yield ns
    finally:
        for each in plane.api().items(REPLICA_SETS, ns):
            plane.api().patch(REPLICA_SETS, each["metadata"]["name"], {"spec": {"replicas": 0}}, ns)
        plane.api().delete_all("pods", ns)
        plane.wipe(PREFIX)


@dataclasses.dataclass(frozen=True)
class Taken:
    seconds: float
    began_at: datetime
    cpu: float
    peak: float
    load: float
    entries: list[Entry]


def drained(plane: ControlPlane, contender: Contender, process: Process, nodes: list[str]) -> Taken:
    """Measure a drain from the creation of the first NodeMaintenance until the last one has succeeded."""
    api = plane.api()
    version = newest(api)
    since, before = plane.audit.mark(), usage(process.pid).cpu
    began_at, began = datetime.now(UTC), time.perf_counter()
    with ThreadPoolExecutor(HANDS) as hands:
        list(hands.map(lambda node: api.create(NMS, maintenance(node, node)), nodes))
    await_success(api, set(nodes), version)
    seconds = time.perf_counter() - began
    spent, load = usage(process.pid), load_average()
    entries = plane.audit.entries(since=since, user=contender.user)
    ends(api, *nodes)
    return Taken(seconds, began_at, spent.cpu - before, spent.peak, load, entries)


def await_success(api: Api, left: set[str], version: str) -> None:
    """Wait until all NodeMaintenances in `left` have succeeded.

    A busy server ends watches that it cannot serve in time. They are resumed from the last version.
    """
    while left:
        with api.watch(NMS, silence=WITHIN, resourceVersion=version) as watch:
            for event in watch:
                if is_behind(event):
                    break
                assert event["type"] != "ERROR", event
                version = event["object"]["metadata"]["resourceVersion"]
                if event["object"].get("status", {}).get("phase") == "Succeeded":
                    left.discard(event["object"]["metadata"]["name"])
                if not left:
                    return


def newest(api: Api) -> str:
    return str(api.request("GET", f"/apis/{NMS}")["metadata"]["resourceVersion"])


def figures(taken: Taken) -> dict[str, Cell]:
    evictions = [entry for entry in taken.entries if entry.act == "create pods/eviction"]
    refused = sum(entry.code == 429 for entry in evictions)
    return {
        "last eviction sent after, s": max(
            ((entry.received_at - taken.began_at).total_seconds() for entry in evictions), default=None
        ),
        "evictions": len(evictions),
        "of them 429": refused,
        "429, %": 100 * refused / len(evictions) if evictions else 0.0,
        "GETs of pods": sum(entry.act == "get pods" for entry in taken.entries),
        "requests in all": len(taken.entries),
        "requests": told(taken.entries),
        "CPU, s": taken.cpu,
        "peak RSS, MiB": taken.peak,
        "load": taken.load,
    }


def told(entries: list[Entry]) -> str:
    counts = Counter(entry.verb for entry in entries)
    return ", ".join(f"{count} {verb}" for verb, count in sorted(counts.items()))


def main() -> None:
    parser = options("drain", __doc__, runs=3)
    parser.add_argument("--pods", type=int, default=250, help="on the one node; 0: none (default %(default)s)")
    parser.add_argument("--nodes", type=int, default=100, help="at once; 0: none (default %(default)s)")
    parser.add_argument("--each", type=int, default=20, help="pods on each of them (default %(default)s)")
    parser.add_argument("--budgets", type=int, default=20, help="over those pods (default %(default)s)")
    parser.add_argument("--share", type=float, default=0.1, help="that a budget lets go at once (default %(default)s)")
    parser.add_argument("--grace", type=int, default=10, help="seconds that a pod takes to end (default %(default)s)")
    parser.add_argument("--starts", type=int, default=10, help="seconds until one is ready (default %(default)s)")
    chosen = parser.parse_args()
    report = Report("drain: NodeMaintenances on KWOK nodes", chosen)
    shape = Shape(chosen.nodes, chosen.each, chosen.budgets, chosen.share)
    single: list[dict[str, Cell]] = []
    many: list[dict[str, Cell]] = []
    with control_plane("drain", ()) as plane, Kwok(plane) as kwok:
        plane.start_controllers()
        plane.start_scheduler()
        define(plane.api())
        for _ in range(chosen.runs):
            for contender in contenders(chosen.peers):
                if chosen.pods:
                    single.append(one_node(plane, kwok, contender, chosen.pods, chosen.grace))
                if chosen.nodes:
                    many.append(many_nodes(plane, kwok, contender, shape, chosen.grace, chosen.starts))
    if single:
        report.table(f"One node of {chosen.pods} pods, {chosen.grace} s of grace", single)
        report.say(
            "The floor is measured in the same run: the same number of pods on another node, evicted by\n"
            f"{HANDS} connections that do nothing else, until the last is gone."
        )
    if many:
        title = f"{shape.nodes} nodes at once, {shape.each} pods each, {shape.budgets} budgets in one namespace"
        report.table(title, many)
        report.say(
            "The floor is arithmetic: a budget lets so many go, and the next ones only when their replacements\n"
            f"are ready, {chosen.starts} s after they have been created; then the grace of the last, {chosen.grace} s.\n"
            "What the controllers, the scheduler and the API server need is not in it."
        )
    report.ratios({contender.name: summary(contender.name, single, many) for contender in contenders(chosen.peers)})
    ours = [row for row in (*single, *many) if row["program"] == OURS]
    report.goal("429 of evictions", max(float(row["429, %"] or 0) for row in ours), 1.0, " %")
    report.goal("GETs of pods", max(float(row["GETs of pods"] or 0) for row in ours), 0)
    report.finish()


def summary(program: str, single: list[dict[str, Cell]], many: list[dict[str, Cell]]) -> dict[str, float]:
    def middles(what: str, rows: list[dict[str, Cell]], *columns: str) -> dict[str, float]:
        mine = [row for row in rows if row["program"] == program]
        names = {f"{what}, {column.partition(',')[0]}": column for column in columns if mine}
        return {name: median(float(row[column] or 0) for row in mine) for name, column in names.items()}

    one = middles("one node", single, "total, s", "CPU, s", "requests in all")
    return {**one, **middles("many nodes", many, "total, s", "CPU, s", "requests in all")}


if __name__ == "__main__":
    main()
