"""How soon a change of a label shows in the state label, on a real API server, seen by a watch."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

from benchmarks.fixture import Contender, contenders, control_plane, controller
from benchmarks.harness import OURS, Cell, Report, load_average, median, options, percentile, usage
from tests.real.profiles import GO, PROFILE, STATE, Sampled, Sampling
from tests.rig.fleet import node_object
from tests.rig.plane import ControlPlane

PATIENCE = 120.0
# Seconds between two changes, so that the controller is at rest before each.
PAUSE = 0.05

CONFIG = f"""
intervals: {{requeue: 1s}}
instances:
  check:
  - {{type: hasLabel, name: go, config: {{key: {GO}, value: "true"}}}}
profiles:
- name: one
  operational: {{transitions: [{{check: go, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: "!go", next: operational}}]}}
- name: two
  operational: {{transitions: [{{check: go, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: go, next: in-maintenance}}]}}
  in-maintenance: {{transitions: [{{check: "!go", next: operational}}]}}
"""


@dataclasses.dataclass
class Sight:
    """An expected label of a node, and when the watch first showed it. `value` None: the node is without the label."""

    label: str
    value: str | None
    at: float = 0.0
    seen: threading.Event = dataclasses.field(default_factory=threading.Event)

    def wait(self, what: str) -> float:
        if not self.seen.wait(PATIENCE):
            raise TimeoutError(f"{what}: {self.label}={self.value} was not seen for {PATIENCE:g} s")
        return self.at


class Watching(Sampled):
    """A watch of a benchmark's nodes, on a connection and in a thread of its own, that notes expected labels."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__()
        self._awaited: dict[str, list[Sight]] = {}
        self._lock = threading.Lock()
        self._sampling = Sampling(plane, PROFILE, self)

    def expect(self, node: str, label: str, value: str | None) -> Sight:
        sight = Sight(label, value)
        with self._lock:
            self._awaited.setdefault(node, []).append(sight)
        return sight

    def with_state(self) -> int:
        return sum(bool(moves) for moves in list(self.moves.values()))

    def stop(self) -> None:
        self._sampling.stop()

    def take(self, event: dict[str, Any]) -> None:
        now = time.perf_counter()
        super().take(event)
        if event["type"] not in ("ADDED", "MODIFIED"):
            return
        meta = event["object"]["metadata"]
        with self._lock:
            for sight in list(self._awaited.get(meta["name"], ())):
                if meta.get("labels", {}).get(sight.label) == sight.value:
                    self._awaited[meta["name"]].remove(sight)
                    sight.at = now
                    sight.seen.set()


@dataclasses.dataclass
class Taken:
    """The measured times in milliseconds: from sending a change, and from its own appearance on the watch."""

    from_sending: list[float] = dataclasses.field(default_factory=list)
    from_sight: list[float] = dataclasses.field(default_factory=list)


def change(plane: ControlPlane, watching: Watching, node: str, go: str | None, state: str, taken: Taken | None) -> None:
    shown = watching.expect(node, GO, go)
    result = watching.expect(node, STATE, state)
    sent_at = time.perf_counter()
    plane.api().patch("nodes", node, {"metadata": {"labels": {GO: go}}})
    done_at = result.wait(node)
    if taken is not None:
        taken.from_sending.append((done_at - sent_at) * 1000)
        taken.from_sight.append((done_at - shown.wait(node)) * 1000)
    time.sleep(PAUSE)


def singles(plane: ControlPlane, watching: Watching, names: list[str], changes: int) -> dict[str, Taken]:
    """Change one node after another. Even nodes make one transition, odd ones two. Each is reset afterwards."""
    one, two = Taken(), Taken()
    for i in range(changes):
        on, off = i % 2 == 0, i // 2 * 2 % len(names)
        go, state = ("true", "maintenance-required") if on else (None, "operational")
        change(plane, watching, names[off], go, state, one)
        name = names[(2 * i + 1) % len(names)]
        change(plane, watching, name, "true", "in-maintenance", two)
        change(plane, watching, name, None, "operational", None)
    return {"one transition": one, "two transitions": two}


def run(plane: ControlPlane, contender: Contender, nodes: int, changes: int) -> list[dict[str, Cell]]:
    plane.wipe("bench-")
    names = [f"bench-{i:05}" for i in range(nodes)]
    plane.load(
        node_object(name, labels={PROFILE: "two" if i % 2 else "one"}, annotations={}) for i, name in enumerate(names)
    )
    watching = Watching(plane)
    since = plane.audit.mark()
    try:
        began = time.perf_counter()
        with controller(plane, contender, CONFIG) as running:
            while watching.with_state() < nodes:
                running.process.check()
                if time.perf_counter() > began + PATIENCE:
                    raise TimeoutError(f"{contender.name}: {watching.with_state()} of {nodes} nodes have a state")
                time.sleep(0.005)
            started, spent = time.perf_counter() - began, usage(running.process.pid)
            time.sleep(2)
            taken = singles(plane, watching, names, changes)
            load = load_average()
    finally:
        watching.stop()
    requests = plane.audit.counts(since=since, user=contender.user)
    first: dict[str, Cell] = {
        "program": contender.name,
        "all states written after, s": started,
        "CPU until then, s": spent.cpu,
        "peak RSS then, MiB": spent.peak,
        "requests in all": sum(requests.values()),
        "load": load,
    }
    return [first, *(figures(contender.name, what, times, load) for what, times in taken.items())]


def figures(program: str, what: str, times: Taken, load: float) -> dict[str, Cell]:
    return {
        "program": program,
        "change": what,
        "changes": len(times.from_sending),
        "p50, ms": percentile(times.from_sending, 0.5),
        "p99, ms": percentile(times.from_sending, 0.99),
        "max, ms": max(times.from_sending),
        "p50 from sight, ms": percentile(times.from_sight, 0.5),
        "p99 from sight, ms": percentile(times.from_sight, 0.99),
        "load": load,
    }


def main() -> None:
    parser = options("latency", __doc__, runs=3)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=200, help="of each sort in a run (default %(default)s)")
    chosen = parser.parse_args()
    report = Report("latency: from the change of a label to the state label", chosen)
    starts: list[dict[str, Cell]] = []
    changes: list[dict[str, Cell]] = []
    with control_plane("latency", ()) as plane:
        for _ in range(chosen.runs):
            for contender in contenders(chosen.peers):
                start, *more = run(plane, contender, chosen.nodes, chosen.changes)
                starts.append(start)
                changes += more
    report.table(f"Single changes, {chosen.nodes:,} nodes", changes)
    report.say(
        "From the moment before the PATCH of the label is sent to the moment the state label comes by a watch;\n"
        '"from sight": from the moment the same watch brought the change itself.'
    )
    report.table(f"Cold start: {chosen.nodes:,} nodes without a state until all of them have one", starts)
    report.ratios({contender.name: summary(contender.name, starts, changes) for contender in contenders(chosen.peers)})
    ours = summary(OURS, starts, changes)
    report.say(f"Of {OURS}, medians of runs: " + ", ".join(f"{what} {figure:.3g}" for what, figure in ours.items()))
    report.finish()


def summary(program: str, starts: list[dict[str, Cell]], changes: list[dict[str, Cell]]) -> dict[str, float]:
    def middle(rows: list[dict[str, Cell]], column: str) -> float:
        return median(float(row[column] or 0) for row in rows if row["program"] == program)

    one = [row for row in changes if row["change"] == "one transition"]
    two = [row for row in changes if row["change"] == "two transitions"]
    return {
        "one, p50": middle(one, "p50, ms"),
        "one, p99": middle(one, "p99, ms"),
        "two, p50": middle(two, "p50, ms"),
        "two, p99": middle(two, "p99, ms"),
        "cold start, wall": middle(starts, "all states written after, s"),
        "cold start, CPU": middle(starts, "CPU until then, s"),
    }


if __name__ == "__main__":
    main()
