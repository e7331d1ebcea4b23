"""The clusterapi surface: signals both ways with one and with many workload clusters, and what a connected one costs."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPException

from benchmarks.fixture import Contender, contenders, control_plane, fresh_directory, peer_process
from benchmarks.harness import (
    OURS,
    Cell,
    Report,
    Usage,
    load_average,
    median,
    options,
    percentile,
    until_quiet,
    usage,
)
from tests.rig.api import Api, Json
from tests.rig.clusterapi import (
    HOOK,
    MACHINES,
    MAINTENANCE,
    MAY_DELETE,
    MAY_MEND,
    ORIGINAL,
    REQUEST,
    ClusterApiOperator,
    Machine,
    define_all,
    kubeconfig,
    machine_object,
    node_object,
    secret_object,
)
from tests.rig.plane import ControlPlane
from tests.rig.process import Process
from tests.rig.wait import eventually

PATIENCE = 300.0
# Seconds between two signals, so that the operator is at rest before each.
PAUSE = 0.05
# How many threads label Machines.
HANDS = 8
NAMESPACE = "fleet"
MEASURED = "measured"
# The user that the kubeconfigs of all workload clusters name.
AWAY = "operator-b"


@dataclasses.dataclass(frozen=True)
class Shape:
    nodes: int
    signals: int
    window: float


class Planes:
    """Three API servers: the management cluster, the workload cluster whose signals are timed, and one for all others.

    Every watch of an API server gets all changes of its nodes. So the measured cluster has an API server of its own.
    """

    def __init__(self, home: ControlPlane, measured: ControlPlane, crowd: ControlPlane) -> None:
        self.home = home
        self.measured = measured
        self.crowd = crowd

    def fill(self, nodes: int, clusters: int) -> None:
        """Create the Nodes, and so many workload clusters with a Machine for each Node."""
        define_all(self.home.api())
        self.home.api().create("namespaces", {"metadata": {"name": NAMESPACE}})
        for plane in (self.measured, self.crowd):
            plane.load(node_object(name) for name in _names(nodes))
        self.home.load(self._objects(nodes, clusters))

    def machine(self, node: str) -> BenchMachine:
        """Return the Machine of a Node in the cluster whose signals are timed."""
        return BenchMachine(f"{MEASURED}-{node}", node, self)

    def _objects(self, nodes: int, clusters: int) -> Iterator[Json]:
        ways = {MEASURED: kubeconfig(self.measured), "crowd": kubeconfig(self.crowd)}
        for cluster in _clusters(clusters):
            yield secret_object(cluster, NAMESPACE, ways.get(cluster, ways["crowd"]))
            for name in _names(nodes):
                yield machine_object(
                    f"{cluster}-{name}", NAMESPACE, cluster=cluster, node=name, annotations={HOOK: ORIGINAL}
                )


class BenchMachine(Machine):
    """A Machine whose Node has another name, because all clusters share the same Nodes."""

    def __init__(self, name: str, node: str, made: Planes) -> None:
        super().__init__(name, NAMESPACE, made.home.api(), made.measured.api())
        self.of = node

    def tell_node(self, labels: Mapping[str, str | None]) -> None:
        self.away.patch("nodes", self.of, {"metadata": {"labels": dict(labels)}})

    def node(self) -> dict[str, str]:
        found: dict[str, str] = self.away.get("nodes", self.of)["metadata"].get("labels", {})
        return found


def _clusters(count: int) -> list[str]:
    return [MEASURED, *(f"other-{i:03}" for i in range(count - 1))]


def _names(nodes: int) -> list[str]:
    return [f"bench-{i:04}" for i in range(nodes)]


@contextlib.contextmanager
def planes(nodes: int, clusters: int) -> Iterator[Planes]:
    with (
        control_plane("clusterapi-home", ()) as home,
        control_plane("clusterapi-measured", ()) as measured,
        control_plane("clusterapi-crowd", ()) as crowd,
    ):
        made = Planes(home, measured, crowd)
        made.fill(nodes, clusters)
        yield made


@contextlib.contextmanager
def operator(home: ControlPlane, contender: Contender) -> Iterator[Process]:
    """Run our operator, or a peer that finds KUBECONFIG in its environment."""
    directory = fresh_directory(home, contender.name)
    if contender.ours:
        with ClusterApiOperator(home, directory, "--zap-devel=false", user=contender.user) as operator:
            yield operator.process
        return
    with peer_process(home, contender, directory) as process:
        yield process


# Signals


class Sights:
    """A watch, on a connection and in a thread of its own, that notes when an object first has an expected label."""

    def __init__(self, api: Api, resource: str) -> None:
        self._awaited: dict[tuple[str, str, str | None], tuple[threading.Event, list[float]]] = {}
        first = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        self._watch = api.watch(resource, silence=3600, **first)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def expect(self, name: str, label: str, value: str | None) -> tuple[threading.Event, list[float]]:
        return self._awaited.setdefault((name, label, value), (threading.Event(), []))

    def stop(self) -> None:
        self._watch.close()

    def _follow(self) -> None:
        # http.client raises any of these when another thread closes its socket.
        with contextlib.suppress(OSError, ValueError, AttributeError, HTTPException):
            for event in self._watch:
                meta = event["object"]["metadata"]
                for key in [key for key in list(self._awaited) if key[0] == meta.get("name")]:
                    if meta.get("labels", {}).get(key[1]) == key[2]:
                        seen, at = self._awaited.pop(key)
                        at.append(time.perf_counter())
                        seen.set()


def _signal(send: Callable[[], None], sights: Sights, name: str, label: str, value: str | None) -> float:
    """Send a signal. Return the milliseconds until its label is seen in the other cluster."""
    seen, at = sights.expect(name, label, value)
    began = time.perf_counter()
    send()
    if not seen.wait(PATIENCE):
        raise TimeoutError(f"{name}: {label}={value} was not seen for {PATIENCE:g} s")
    time.sleep(PAUSE)
    return (at[0] - began) * 1000


def signals(made: Planes, shape: Shape) -> tuple[list[float], list[float]]:
    """Return the times of signals from Machine to Node and back. Each Machine is requested, approved and reset."""
    there: list[float] = []
    back: list[float] = []
    nodes, machines = Sights(made.measured.api(), "nodes"), Sights(made.home.api(), MACHINES)
    names = _names(shape.nodes)
    try:
        for i in range(shape.signals):
            node = names[i % len(names)]
            machine = made.machine(node)
            ask, end = (partial(machine.label, **{REQUEST: value}) for value in ("requested", None))
            approve, take_back = (partial(machine.tell_node, {MAY_MEND: value}) for value in ("true", None))
            there.append(_signal(ask, nodes, node, MAINTENANCE, "true"))
            back.append(_signal(approve, machines, machine.name, REQUEST, "approved"))
            _signal(end, nodes, node, MAINTENANCE, None)
            take_back()
    finally:
        nodes.stop()
        machines.stop()
    return there, back


def burst(made: Planes, shape: Shape) -> float:
    """Request all Machines at once. Return the seconds until the last Node has its label."""
    nodes = Sights(made.measured.api(), "nodes")
    try:
        lasted = _all_at_once(made, nodes, shape, "requested", "true")
        _all_at_once(made, nodes, shape, None, None)
    finally:
        nodes.stop()
    return lasted


def _all_at_once(made: Planes, sights: Sights, shape: Shape, request: str | None, told: str | None) -> float:
    names = _names(shape.nodes)
    awaited = [sights.expect(node, MAINTENANCE, told) for node in names]
    began = time.perf_counter()
    with ThreadPoolExecutor(HANDS) as hands:
        list(hands.map(lambda node: made.machine(node).label(**{REQUEST: request}), names))
    if not all(seen.wait(PATIENCE) for seen, _ in awaited):
        raise TimeoutError(f"not every node was told within {PATIENCE:g} s")
    return max(at[0] for _, at in awaited) - began


# One deletion, request by request


def deletion(made: Planes, contender: Contender, shape: Shape) -> Counter[str]:
    node = _names(shape.nodes)[-1]
    machine = made.machine(node)
    marks = (made.home.audit.mark(), made.measured.audit.mark())
    machine.delete()
    eventually(lambda: machine.told() == {f"{ORIGINAL}.cloud.sap/machine-deleted"}, "announced", PATIENCE)
    machine.tell_node({MAY_DELETE: "true"})
    eventually(lambda: not machine.hooked, "let go", PATIENCE)
    time.sleep(1)
    asked: Counter[str] = Counter()
    for plane, user, since in ((made.home, contender.user, marks[0]), (made.measured, AWAY, marks[1])):
        plane.audit.mark()
        for entry in plane.audit.entries(since=since, user=user):
            if entry.resource != "leases" and not (entry.verb == "watch" or "watch=true" in entry.uri):
                asked[entry.act] += 1
    return asked


# One program


@dataclasses.dataclass
class Measured:
    there: list[float]
    back: list[float]
    at_once: float
    connected_after: float
    resting: Usage
    idle_cpu: float
    requests: Counter[str]


def measure(contender: Contender, clusters: int, shape: Shape) -> Measured:
    with planes(shape.nodes, clusters) as made, operator(made.home, contender) as process:
        watched = lambda: watchers(made) >= clusters  # noqa: E731
        connected_after = until_quiet(process.pid, quiet_for=5, may_rest=watched, within=1800)
        rested = usage(process.pid)
        time.sleep(shape.window)
        idle = usage(process.pid).cpu - rested.cpu
        there, back = signals(made, shape)
        asked = deletion(made, contender, shape)
        at_once = burst(made, shape)
        return Measured(there, back, at_once, connected_after, rested, idle * 3600 / shape.window, asked)


def watchers(made: Planes) -> int:
    """Return how many watches of nodes the workload clusters' API servers count."""
    return sum(_watches_of_nodes(plane.api()) for plane in (made.measured, made.crowd))


def _watches_of_nodes(api: Api) -> int:
    text = str(api.request("GET", "/metrics"))
    found = [line for line in text.splitlines() if line.startswith("apiserver_longrunning_requests{")]
    return sum(int(float(line.split()[-1])) for line in found if 'resource="nodes"' in line and 'verb="WATCH"' in line)


def row(contender: Contender, clusters: int, shape: Shape, found: Measured) -> dict[str, Cell]:
    return {
        "program": contender.name,
        "clusters": clusters,
        "nodes each": shape.nodes,
        "all connected after, s": found.connected_after,
        "Machine to Node p50, ms": median(found.there),
        "p99": percentile(found.there, 0.99),
        "Node to Machine p50, ms": median(found.back),
        "p99 ": percentile(found.back, 0.99),
        "all nodes of one at once, s": found.at_once,
        "RSS at rest, MiB": found.resting.rss,
        "idle CPU, s/h": found.idle_cpu,
        "load": load_average(),
    }


def main() -> None:
    parser = options("clusterapi", __doc__, runs=1)
    parser.add_argument(
        "--clusters", type=int, default=200, help="how many there are beside none (default %(default)s)"
    )
    parser.add_argument("--nodes", type=int, default=100, help="in each workload cluster (default %(default)s)")
    parser.add_argument("--signals", type=int, default=100, help="each way (default %(default)s)")
    parser.add_argument("--window", type=float, default=120.0, help="seconds at rest (default %(default)s)")
    chosen = parser.parse_args()
    shape = Shape(chosen.nodes, chosen.signals, chosen.window)
    report = Report("clusterapi", chosen)
    rows: list[dict[str, Cell]] = []
    costs: list[dict[str, Cell]] = []
    asked: list[dict[str, Cell]] = []
    figures: dict[str, dict[str, float]] = {}
    for contender in contenders(chosen.peers):
        few, many = (measure(contender, count, shape) for count in (1, chosen.clusters))
        rows += [row(contender, 1, shape, few), row(contender, chosen.clusters, shape, many)]
        more = max(chosen.clusters - 1, 1)
        memory = (many.resting.rss - few.resting.rss) / more * 1024
        idle = (many.idle_cpu - few.idle_cpu) / more
        costs.append({"program": contender.name, "memory, KiB": memory, "idle CPU, s/h": idle})
        acts = dict(sorted(few.requests.items()))
        asked.append({"program": contender.name, "all": sum(acts.values()), **acts})
        figures[contender.name] = {
            "Machine to Node, one": median(few.there),
            "Machine to Node, many": median(many.there),
            "Node to Machine, many": median(many.back),
            "memory a cluster": memory,
        }
    report.table("Signals and an operator at rest", rows)
    report.table("What one more connected workload cluster costs", costs)
    report.table("Requests of one deletion, both API servers together, leases and watches aside", asked)
    if OURS in figures:
        report.ratios(figures)
    report.finish()


if __name__ == "__main__":
    main()
