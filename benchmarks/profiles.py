"""Many profiles: what loading them costs, a roll of the fleet through them, one transition, and a whole maintenance."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from benchmarks.fixture import Contender, Running, contenders, control_plane, controller
from benchmarks.harness import OURS, Cell, Report, load_average, median, options, percentile, until_quiet, usage
from benchmarks.latency import PAUSE, Watching
from haulout.surfaces.profiles.load import known_plugins, load
from tests.real.profiles import PROFILE, STATE, Sampled
from tests.rig.audit import Entry
from tests.rig.fleet import node_object
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

PREFIX = "bench-"
PATIENCE = 900.0
# Enough to keep an API server of two cores busy.
HANDS = 8
WANTED, APPROVED, DONE, WORKING = (f"bench.test/{word}" for word in ("wanted", "approved", "done", "working"))
# The labels that a person sets on a node, and the state that follows each. After the last one all labels are removed.
STEPS = ((WANTED, "maintenance-required"), (APPROVED, "in-maintenance"), (DONE, "operational"))
TRANSITIONS = len(STEPS)


# What a profile runs on entering maintenance, before it waits for the end of the work.
PLAIN, ENTERING = "nothing", "a chain of one"


def has_enter_chain(profile: int) -> bool:
    return profile % 2 == 1


def configuration(profiles: int, most: int) -> str:
    """Return a configuration with so many profiles, each with its own instances. Every other one has an enter chain."""
    head = "intervals: {requeue: 1s}\n"
    if not profiles:
        return f"{head}instances: {{}}\nprofiles: []\n"
    each = range(profiles)
    checks = "".join(CHECKS.format(n=n, most=most) for n in each)
    triggers = "".join(TRIGGERS.format(n=n) for n in each)
    written = "".join(STATES.format(n=n, enter=f"enter: mark-{n}\n    " if has_enter_chain(n) else "") for n in each)
    return f"{head}instances:\n  check:\n{checks}  trigger:\n{triggers}profiles:\n{written}"


CHECKS = f"""\
  - {{{{type: hasLabel, name: wanted-{{n}}, config: {{{{key: {WANTED}, value: "true"}}}}}}}}
  - {{{{type: hasLabel, name: approved-{{n}}, config: {{{{key: {APPROVED}, value: "true"}}}}}}}}
  - {{{{type: hasLabel, name: done-{{n}}, config: {{{{key: {DONE}, value: "true"}}}}}}}}
  - {{{{type: condition, name: ready-{{n}}, config: {{{{type: Ready, status: "True"}}}}}}}}
  - {{{{type: maxMaintenance, name: few-{{n}}, config: {{{{max: {{most}}, profile: p{{n}}}}}}}}}}
"""
TRIGGERS = f"""\
  - {{{{type: alterLabel, name: mark-{{n}}, config: {{{{key: {WORKING}, value: "true"}}}}}}}}
  - {{{{type: alterLabel, name: unmark-{{n}}, config: {{{{key: {WORKING}, remove: true}}}}}}}}
  - {{{{type: alterLabel, name: unwant-{{n}}, config: {{{{key: {WANTED}, remove: true}}}}}}}}
  - {{{{type: alterLabel, name: disapprove-{{n}}, config: {{{{key: {APPROVED}, remove: true}}}}}}}}
  - {{{{type: alterLabel, name: undo-{{n}}, config: {{{{key: {DONE}, remove: true}}}}}}}}
"""
INSTANCES = CHECKS.count("\n") + TRIGGERS.count("\n")
STATES = """\
- name: p{n}
  operational:
    transitions: [{{check: wanted-{n} && ready-{n}, next: maintenance-required}}]
  maintenance-required:
    transitions: [{{check: approved-{n} && few-{n}, next: in-maintenance}}]
  in-maintenance:
    {enter}transitions:
    - {{check: done-{n}, trigger: unwant-{n} && disapprove-{n} && undo-{n} && unmark-{n}, next: operational}}
"""


# Loading


def loading(plane: ControlPlane, contender: Contender, shape: Shape) -> dict[str, Cell]:
    """Measure the CPU time of loading profiles: a start with all of them minus a start without any, both without nodes."""
    counts = (0, shape.profiles)
    spent: dict[int, list[float]] = {count: [] for count in counts}
    for count in counts * shape.loads:
        with controller(plane, contender, configuration(count, shape.most)) as running:
            until_quiet(running.process.pid, quiet_for=3, spare=0.05)
            spent[count].append(usage(running.process.pid).cpu)
    none, every = (min(spent[count]) for count in counts)
    return {
        "program": contender.name,
        "profiles": shape.profiles,
        "instances": shape.profiles * INSTANCES,
        "start with none, CPU s": none,
        "start with all, CPU s": every,
        "loading, CPU s": every - none,
        "in process, CPU s": in_process(configuration(shape.profiles, shape.most)) if contender.ours else None,
        "load": load_average(),
    }


def in_process(text: str) -> float:
    """Return the CPU seconds of our loading in this process."""
    plugins, taken = known_plugins(), []
    for _ in range(5):
        began = time.process_time()
        load(text, plugins, source="maintenance.yaml", environment=os.environ)
        taken.append(time.process_time() - began)
    return median(taken)


# One node after another


def singles(plane: ControlPlane, watching: Watching, chosen: list[Member]) -> dict[str, list[float]]:
    """Return the milliseconds from sending a label until the next state is seen. Each node makes all transitions."""
    taken: dict[str, list[float]] = {state: [] for _, state in STEPS}
    for node in chosen:
        working = watching.expect(node.name, WORKING, "true") if node.enters else None
        for label, state in STEPS:
            seen = watching.expect(node.name, STATE, state)
            sent_at = time.perf_counter()
            plane.api().patch("nodes", node.name, {"metadata": {"labels": {label: "true"}}})
            taken[state].append((seen.wait(node.name) - sent_at) * 1000)
            if state == "in-maintenance" and working is not None:
                working.wait(node.name)
            time.sleep(PAUSE)
    return taken


# The whole fleet


@dataclasses.dataclass(frozen=True)
class Roll:
    seconds: float
    cpu: float
    peak: float


def roll(plane: ControlPlane, running: Running, fleet: list[Member], seen: Sampled) -> Roll:
    """Measure a roll in which all nodes get all labels at once, so that only the limits of profiles delay them."""
    body = {"metadata": {"labels": {label: "true" for label, _ in STEPS}}}
    around = [state for _, state in STEPS]
    seen.forget()
    before, began = usage(running.process.pid).cpu, time.perf_counter()
    with ThreadPoolExecutor(HANDS) as hands:
        list(hands.map(lambda node: plane.api().patch("nodes", node.name, body), fleet))

    def all_back() -> bool:
        running.process.check()
        return all(seen.moves.get(node.name, [])[-TRANSITIONS:] == around for node in fleet)

    eventually(all_back, "all nodes have been around", PATIENCE)
    seconds = time.perf_counter() - began
    # Events may be written after the last transition.
    until_quiet(running.process.pid, quiet_for=2, spare=0.1)
    spent = usage(running.process.pid)
    return Roll(seconds, spent.cpu - before, spent.peak)


# What it asks of the API server


def requests(program: str, how: str, entries: list[Entry], maintained: list[Member]) -> list[dict[str, Cell]]:
    """Return rows with the requests of each maintenance.

    `maintained`: the nodes, each once for every maintenance. `entries`: the requests, which have no other cause. The
    number of events is an average over all maintenances.
    """
    patched = Counter(entry.name for entry in entries if entry.act == "patch nodes")
    others = Counter(entry.act for entry in entries if entry.verb != "watch")
    rows: list[dict[str, Cell]] = []
    for what, enters in ((PLAIN, False), (ENTERING, True)):
        times = Counter(node.name for node in maintained if node.enters == enters)
        if times:
            rows.append(
                {
                    "program": program,
                    "how": how,
                    "on entering": what,
                    "maintenances": times.total(),
                    "transitions": TRANSITIONS,
                    "PATCHes": sum(patched[name] for name in times) / times.total(),
                    "PATCHes, most": max(math.ceil(patched[name] / count) for name, count in times.items()),
                    "events": others["create events"] / len(maintained),
                    "GETs and LISTs": sum(entry.verb in ("get", "list") for entry in entries),
                    "other requests": others.total() - others["patch nodes"] - others["create events"],
                }
            )
    return rows


# All of it


@dataclasses.dataclass
class Figures:
    loads: list[dict[str, Cell]] = dataclasses.field(default_factory=list)
    changes: list[dict[str, Cell]] = dataclasses.field(default_factory=list)
    rolls: list[dict[str, Cell]] = dataclasses.field(default_factory=list)
    requests: list[dict[str, Cell]] = dataclasses.field(default_factory=list)


def run(plane: ControlPlane, contender: Contender, shape: Shape, found: Figures) -> None:
    plane.wipe(PREFIX)
    found.loads.append(loading(plane, contender, shape))
    fleet = [Member(f"{PREFIX}{number:05}", number % shape.profiles) for number in range(shape.nodes)]
    plane.load(node_object(node.name, labels={PROFILE: f"p{node.profile}"}, annotations={}) for node in fleet)
    watching = Watching(plane)
    try:
        with controller(plane, contender, configuration(shape.profiles, shape.most)) as running:
            eventually(lambda: watching.with_state() == shape.nodes, "all nodes have a state", PATIENCE)
            until_quiet(running.process.pid, quiet_for=2, spare=0.1)
            since, chosen = plane.audit.mark(), [fleet[number * 7 % shape.nodes] for number in range(shape.changes)]
            taken = singles(plane, watching, chosen)
            until_quiet(running.process.pid, quiet_for=2, spare=0.1)
            alone = plane.audit.entries(since=since, user=contender.user)
            since, done = plane.audit.mark(), roll(plane, running, fleet, watching)
            together = plane.audit.entries(since=since, user=contender.user)
    finally:
        watching.stop()
    found.changes += [latency(contender.name, state, times) for state, times in taken.items()]
    found.rolls.append(
        {
            "program": contender.name,
            "nodes": shape.nodes,
            "at once, of a profile": shape.most,
            "roll, s": done.seconds,
            "CPU, s": done.cpu,
            "CPU, ms/maintenance": done.cpu / shape.nodes * 1000,
            "most in maintenance": watching.most,
            "peak RSS, MiB": done.peak,
            "load": load_average(),
        }
    )
    found.requests += requests(contender.name, "step by step", alone, chosen)
    found.requests += requests(contender.name, "the roll", together, fleet)


def latency(program: str, state: str, times: list[float]) -> dict[str, Cell]:
    return {
        "program": program,
        "transition to": state,
        "changes": len(times),
        "p50, ms": percentile(times, 0.5),
        "p99, ms": percentile(times, 0.99),
        "max, ms": max(times),
        "load": load_average(),
    }


@dataclasses.dataclass(frozen=True)
class Member:
    """A node, and the number of its profile."""

    name: str
    profile: int

    @property
    def enters(self) -> bool:
        return has_enter_chain(self.profile)


@dataclasses.dataclass(frozen=True)
class Shape:
    nodes: int
    profiles: int
    most: int
    changes: int
    loads: int


def main() -> None:
    parser = options("profiles", __doc__, runs=1)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--profiles", type=int, default=50, help="one for each node in turn (default %(default)s)")
    parser.add_argument("--most", type=int, default=2, help="of a profile in maintenance at once (default %(default)s)")
    parser.add_argument("--changes", type=int, default=200, help="single nodes all the way (default %(default)s)")
    parser.add_argument(
        "--loads", type=int, default=3, help="starts of each sort, the cheapest counts (default %(default)s)"
    )
    chosen = parser.parse_args()
    report = Report("profiles: many of them, and a fleet that goes through them", chosen)
    shape = Shape(chosen.nodes, chosen.profiles, chosen.most, chosen.changes, chosen.loads)
    found = Figures()
    with control_plane("profiles", ()) as plane:
        for _ in range(chosen.runs):
            for contender in contenders(chosen.peers):
                run(plane, contender, shape, found)
    report.table("Loading the configuration", found.loads)
    report.say("A start on an empty cluster until it is at rest, the cheapest of several.")
    report.table(f"One transition, {shape.nodes:,} nodes at rest", found.changes)
    report.say("From the moment before the PATCH of a label is sent to the moment the state label comes by a watch.")
    report.table("A full roll: all nodes from operational through maintenance and back", found.rolls)
    report.table("API requests for one complete maintenance", found.requests)
    report.say(
        "Step by step, a client sets one label after another and waits for the next state; in the roll all of them are set\n"
        "at once, and having entered can be stored with the next transition."
    )
    report.ratios({contender.name: summary(contender.name, found) for contender in contenders(chosen.peers)})
    ours = [row for row in found.requests if row["program"] == OURS]
    for row in ours:
        allowed = TRANSITIONS + (row["on entering"] == ENTERING)
        report.goal(f"PATCHes {row['how']}, {row['on entering']} on entering", float(row["PATCHes"] or 0), allowed)
    report.goal("events", max(float(row["events"] or 0) for row in ours), TRANSITIONS)
    report.goal("GETs and LISTs", max(float(row["GETs and LISTs"] or 0) for row in ours), 0)
    report.finish()


def summary(program: str, found: Figures) -> dict[str, float]:
    def middle(rows: list[dict[str, Cell]], column: str) -> float:
        return median(float(row[column] or 0) for row in rows if row["program"] == program)

    return {
        "loading, CPU": middle(found.loads, "loading, CPU s"),
        "roll, CPU": middle(found.rolls, "CPU, s"),
        "roll, wall": middle(found.rolls, "roll, s"),
        "p50": middle(found.changes, "p50, ms"),
        "p99": middle(found.changes, "p99, ms"),
        "PATCHes": middle(found.requests, "PATCHes"),
        "events": middle(found.requests, "events"),
    }


if __name__ == "__main__":
    main()
