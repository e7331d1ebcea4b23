"""Signals of a healthy workload cluster while 50 hostile ones join and stay, beside 50 healthy ones that do the same."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator

from benchmarks.clusterapi import NAMESPACE, PATIENCE, Planes, Shape, operator, planes, signals, watchers
from benchmarks.fixture import Contender, contenders
from benchmarks.harness import Cell, Report, load_average, median, options, percentile, usage
from benchmarks.hostile import Tenants, tenants
from tests.rig.api import Api, Json
from tests.rig.clusterapi import HOOK, ORIGINAL, REQUEST, Machine, kubeconfig, machine_object, secret_object
from tests.rig.process import Process
from tests.rig.wait import eventually

# Seconds between the writes of two hostile tenants.
TENANTS_PAUSE = 0.2
# Seconds to wait after clusters have left, and until clusters count as joined.
SETTLING, JOINING = 5.0, 20.0

ALONE, BESIDE_HEALTHY, BESIDE_HOSTILE = "alone", "healthy", "hostile"


@dataclasses.dataclass
class Measurement:
    """The signals of one phase of one repetition, in milliseconds, and what the process used meanwhile."""

    phase: str
    repetition: int
    there: list[float]
    back: list[float]
    cpu: float
    rss: float
    load: float


class Neighbours:
    """Workload clusters that join when their Machine is created, and leave when it is deleted. Their Secrets always exist."""

    def __init__(self, api: Api, clusters: list[str], machine: Callable[[str], Json]) -> None:
        self._api = api
        self.clusters = clusters
        self._machine = machine

    def objects(self) -> Iterator[Json]:
        for cluster in self.clusters:
            yield self._machine(cluster)

    def leave(self) -> None:
        for cluster in self.clusters:
            Machine(f"m-{cluster}", NAMESPACE, self._api, self._api).purge()


class Comparison:
    """The measurement of one program that serves healthy clusters while other clusters join and leave."""

    def __init__(self, made: Planes, process: Process, them: Tenants, clusters: int, shape: Shape) -> None:
        self._made = made
        self._process = process
        self._shape = shape
        self._clusters = clusters
        api = made.home.api()
        guests = [f"guest-{i:03}" for i in range(them.number)]
        made.home.load(secret_object(cluster, NAMESPACE, kubeconfig(made.crowd)) for cluster in guests)
        self._neighbours = {
            BESIDE_HEALTHY: Neighbours(api, guests, _healthy_machine),
            BESIDE_HOSTILE: Neighbours(api, them.clusters, _hostile_machine),
        }
        self.found: list[Measurement] = []

    def repeat(self, repetition: int) -> None:
        """Measure each phase once. In every other repetition the hostile clusters come first."""
        time.sleep(SETTLING)
        self._measure(ALONE, repetition)
        order = [BESIDE_HEALTHY, BESIDE_HOSTILE]
        for kind in order if repetition % 2 else order[::-1]:
            neighbours = self._neighbours[kind]
            joined_at = time.monotonic() + JOINING
            self._made.home.load(neighbours.objects())
            self._measure(f"{kind}, joining", repetition)
            time.sleep(max(joined_at - time.monotonic(), 0))
            if kind == BESIDE_HEALTHY:
                every = self._clusters + len(neighbours.clusters)
                eventually(lambda: watchers(self._made) >= every, "all neighbours are connected", PATIENCE)  # noqa: B023
            self._measure(f"{kind}, joined", repetition)
            neighbours.leave()
            time.sleep(SETTLING)

    def _measure(self, phase: str, repetition: int) -> None:
        before = usage(self._process.pid).cpu
        there, back = signals(self._made, self._shape)
        after = usage(self._process.pid)
        self.found.append(Measurement(phase, repetition, there, back, after.cpu - before, after.rss, load_average()))


def _healthy_machine(cluster: str) -> Json:
    return machine_object(f"m-{cluster}", NAMESPACE, cluster=cluster, node="bench-0000", annotations={HOOK: ORIGINAL})


def _hostile_machine(cluster: str) -> Json:
    return machine_object(f"m-{cluster}", NAMESPACE, cluster=cluster, node="n", labels={REQUEST: "requested"})


def compare(contender: Contender, clusters: int, hostile: int, shape: Shape, repetitions: int) -> list[Measurement]:
    """Measure all phases. The hostile tenants write their Secrets in all of them, so the API server's load is the same."""
    healthy = clusters - hostile
    with (
        planes(shape.nodes, healthy) as made,
        tenants(made.home.api(), NAMESPACE, hostile, pause=TENANTS_PAUSE) as them,
        operator(made.home, contender) as process,
    ):
        eventually(lambda: watchers(made) >= healthy, "all healthy ones are connected", PATIENCE)
        comparison = Comparison(made, process, them, healthy, shape)
        for repetition in range(1, repetitions + 1):
            comparison.repeat(repetition)
        warned = _warned(made.home.api())
    if warned < hostile:
        print(f"{contender.name}: only {warned} of {hostile} hostile clusters have a warning event")
    return comparison.found


def _warned(api: Api) -> int:
    """Return how many of the hostile clusters have a warning event."""
    warnings = api.items("events", NAMESPACE, fieldSelector="type=Warning")
    names = {event["involvedObject"]["name"] for event in warnings}
    return sum(1 for name in names if name.startswith("m-hostile-"))


# Tables


def pooled_row(contender: Contender, phase: str, found: list[Measurement]) -> dict[str, Cell]:
    """Return the figures of a phase over all repetitions."""
    there = [each for one in found for each in one.there]
    back = [each for one in found for each in one.back]
    return {
        "program": contender.name,
        "neighbours": phase,
        "signals": len(there),
        "Machine to Node p50, ms": median(there),
        "p90": percentile(there, 0.9),
        "p99": percentile(there, 0.99),
        "max": max(there),
        "Node to Machine p50, ms": median(back),
        "p90 ": percentile(back, 0.9),
        "p99 ": percentile(back, 0.99),
        "max ": max(back),
        "CPU, s": sum(one.cpu for one in found),
        "RSS, MiB": max(one.rss for one in found),
    }


def single_row(contender: Contender, one: Measurement) -> dict[str, Cell]:
    """Return the figures of a phase in one repetition."""
    return {
        "program": contender.name,
        "repetition": one.repetition,
        "neighbours": one.phase,
        "Machine to Node p50, ms": median(one.there),
        "p99": percentile(one.there, 0.99),
        "Node to Machine p50, ms": median(one.back),
        "p99 ": percentile(one.back, 0.99),
        "CPU, s": one.cpu,
        "load": one.load,
    }


def main() -> None:
    parser = options("clusterapi-hostile", __doc__, runs=3)
    parser.add_argument("--clusters", type=int, default=200, help="with the neighbours (default %(default)s)")
    parser.add_argument("--hostile", type=int, default=50, help="how many of them are hostile (default %(default)s)")
    parser.add_argument("--nodes", type=int, default=10, help="in each healthy cluster (default %(default)s)")
    parser.add_argument("--signals", type=int, default=50, help="each way and phase (default %(default)s)")
    chosen = parser.parse_args()
    shape = Shape(chosen.nodes, chosen.signals, window=0)
    report = Report("clusterapi-hostile", chosen)
    pooled: list[dict[str, Cell]] = []
    single: list[dict[str, Cell]] = []
    for contender in contenders(chosen.peers):
        found = compare(contender, chosen.clusters, chosen.hostile, shape, chosen.runs)
        phases = dict.fromkeys(sorted(one.phase for one in found))
        pooled += [pooled_row(contender, phase, [one for one in found if one.phase == phase]) for phase in phases]
        single += [single_row(contender, one) for one in found]
    healthy = chosen.clusters - chosen.hostile
    report.table(f"Signals of one of {healthy} healthy clusters, with {chosen.hostile} neighbours or none", pooled)
    report.table("Each repetition, in the order of measuring", single)
    report.finish()


if __name__ == "__main__":
    main()
