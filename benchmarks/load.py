"""What callers without credentials do to decisions: a label's way to the state label, alone and with all ports held up."""

from __future__ import annotations

import time

from benchmarks.fixture import control_plane, fresh_directory
from benchmarks.harness import Cell, Report, load_average, options, percentile, usage
from benchmarks.latency import CONFIG, PATIENCE, Taken, Watching, change
from tests.real.profiles import PROFILE
from tests.rig.api import Json
from tests.rig.callers import Attacked
from tests.rig.fleet import node_object
from tests.rig.maintenances import define
from tests.rig.operator import Platform
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

LEASES = "coordination.k8s.io/v1/leases"
NAMESPACE = "haulout-system"


def lease(plane: ControlPlane) -> Json:
    found: Json = plane.api().get(LEASES, "haulout", NAMESPACE)["spec"]
    return found


def timed(plane: ControlPlane, watching: Watching, names: list[str], until: float) -> Taken:
    """Change one node after the other until the given time. Return how long each change took."""
    taken, number = Taken(), 0
    while time.monotonic() < until:
        name = names[2 * number % len(names)]
        change(plane, watching, name, "true", "maintenance-required", taken)
        change(plane, watching, name, None, "operational", taken)
        number += 1
    return taken


def figures(what: str, taken: Taken, operator: Platform) -> dict[str, Cell]:
    return {
        "while": what,
        "changes": len(taken.from_sight),
        "p50 from sight, ms": percentile(taken.from_sight, 0.5),
        "p99 from sight, ms": percentile(taken.from_sight, 0.99),
        "max, ms": max(taken.from_sight),
        "CPU, s": usage(operator.process.pid).cpu,
        "peak RSS, MiB": usage(operator.process.pid).peak,
        "load": load_average(),
    }


def main() -> None:
    parser = options("load", __doc__, runs=1, peers=False)
    parser.add_argument("--nodes", type=int, default=3000)
    parser.add_argument("--connections", type=int, default=200, help="of each kind (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    report = Report("load: decisions while callers without credentials hold up the servers", chosen)
    names = [f"bench-{i:05}" for i in range(chosen.nodes)]
    objects = (
        node_object(name, labels={PROFILE: "two" if i % 2 else "one"}, annotations={}) for i, name in enumerate(names)
    )
    rows: list[dict[str, Cell]] = []
    with control_plane("load", objects) as plane:
        define(plane.api())
        plane.api().create("namespaces", {"metadata": {"name": NAMESPACE}})
        watching = Watching(plane)
        with Attacked(plane, fresh_directory(plane, "haulout"), CONFIG, NAMESPACE) as operator:
            eventually(lambda: watching.with_state() == chosen.nodes, "all nodes have a state", PATIENCE)
            time.sleep(2)
            rows.append(
                figures("alone", timed(plane, watching, names, time.monotonic() + chosen.seconds / 2), operator)
            )
            before = lease(plane)
            callers = operator.callers(chosen.connections, chosen.seconds)
            taken = timed(plane, watching, names, time.monotonic() + chosen.seconds)
            rows.append(figures("held up", taken, operator))
            counts = callers.end()
            after = lease(plane)
        watching.stop()
    report.table(f"From the sight of a change to the state label, {chosen.nodes:,} nodes", rows)
    report.table(
        f"{chosen.connections} callers of each kind for {chosen.seconds:g} s; each comes again when it is closed",
        [{"kind": kind, **{name: counted.get(name, 0) for name in _names(counts)}} for kind, counted in counts.items()],
    )
    kept = (
        before["holderIdentity"] == after["holderIdentity"] and before["leaseTransitions"] == after["leaseTransitions"]
    )
    report.say(f"Leadership was {'kept' if kept else 'LOST'}; the lease was last renewed at {after['renewTime']}.")
    alone, held_up = (float(row["p99 from sight, ms"] or 0) for row in rows)
    report.goal("p99 held up, beyond p99 alone", held_up - alone, 100, " ms")
    report.finish()


def _names(counts: dict[str, dict[str, int]]) -> list[str]:
    return sorted({name for counted in counts.values() for name in counted})


if __name__ == "__main__":
    main()
