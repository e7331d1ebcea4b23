"""What it costs to watch a fleet in which nothing happens but heartbeats, on a real API server."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time

from benchmarks.fixture import Contender, Running, contenders, control_plane, controller
from benchmarks.harness import OURS, Cell, Report, load_average, median, options, until_quiet, usage
from tests.real.profiles import PROFILE, STATE, roll_config
from tests.rig.fleet import NODE_CONDITIONS, node_object, now
from tests.rig.plane import ControlPlane

# How often a kubelet reports a status in which nothing has changed.
REPORT_EVERY = 300.0
HOUR = 3600.0


class Heartbeats:
    """Writes the times of a node's conditions, and nothing else, for one node after another at an even pace."""

    def __init__(self, plane: ControlPlane, names: list[str], every: float) -> None:
        self._api = plane.api()
        self._names = itertools.cycle(names)
        self._pause = every / len(names)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.written = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(30)

    def _write(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            beat = {"lastHeartbeatTime": now()}
            conditions = [{"type": kind, **beat} for kind in (*(kind for kind, *_ in NODE_CONDITIONS), "Ready")]
            body = {"status": {"conditions": conditions}}
            self._api.patch("nodes", next(self._names), body, sub="status", kind="strategic")
            self.written += 1
            due += self._pause


@dataclasses.dataclass(frozen=True)
class Window:
    seconds: float
    cpu: float
    askings: float | None
    requests: int
    beats: int


def askings(running: Running) -> float | None:
    return running.operator.metric("haulout_askings") if running.operator else None


def window(plane: ControlPlane, running: Running, user: str, seconds: float, beats: Heartbeats | None) -> Window:
    """The metrics are read outside the span whose CPU time is taken."""
    since, asked = plane.audit.mark(), askings(running)
    if beats is not None:
        beats.start()
    before, began = usage(running.process.pid), time.monotonic()
    time.sleep(seconds)
    after, ended = usage(running.process.pid), time.monotonic()
    if beats is not None:
        beats.stop()
    time.sleep(1)
    asked_then = askings(running)
    # The watch itself is renewed every few minutes; it is a request that waits, and is told apart.
    requests = sum(entry.verb != "watch" for entry in plane.audit.entries(since=since, user=user))
    asked_between = None if asked is None or asked_then is None else asked_then - asked
    return Window(ended - began, after.cpu - before.cpu, asked_between, requests, beats.written if beats else 0)


def run(plane: ControlPlane, contender: Contender, names: list[str], seconds: float) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    with controller(plane, contender, roll_config(1)) as running:
        until_quiet(running.process.pid, quiet_for=5, spare=0.5)
        lacking = sum(STATE not in node["metadata"]["labels"] for node in plane.api().items("nodes"))
        assert not lacking, f"{contender.name} has left {lacking} nodes without a state"
        for what, beats in (("nothing", None), ("heartbeats", Heartbeats(plane, names, REPORT_EVERY))):
            seen = window(plane, running, contender.user, seconds, beats)
            per_hour = seen.cpu / seen.seconds * HOUR
            rows.append(
                {
                    "program": contender.name,
                    "what happens": what,
                    "window, s": seen.seconds,
                    "heartbeats": seen.beats,
                    "CPU, s": seen.cpu,
                    "CPU, s/h": per_hour,
                    "CPU, s/h per 1,000 nodes": per_hour / len(names) * 1000,
                    "decisions": seen.askings,
                    "requests": seen.requests,
                    "RSS, MiB": usage(running.process.pid).rss,
                    "load": load_average(),
                }
            )
    return rows


def main() -> None:
    parser = options("idle", __doc__, runs=1)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--window", type=float, default=120.0, help="seconds of each measurement (default %(default)s)")
    chosen = parser.parse_args()
    report = Report("idle: a fleet at rest", chosen)
    names = [f"bench-{i:05}" for i in range(chosen.nodes)]
    rows: list[dict[str, Cell]] = []
    with control_plane(
        "idle", (node_object(name, labels={PROFILE: "roll"}, annotations={}) for name in names)
    ) as plane:
        for _ in range(chosen.runs):
            for contender in contenders(chosen.peers):
                rows += run(plane, contender, names, chosen.window)
    report.table(f"{chosen.nodes:,} nodes, each reporting every {REPORT_EVERY:g} s", rows)
    report.say(
        "CPU per hour is the window's, extended. Clock ticks of 10 ms make a window of 120 s good for 0.3 s/h.\n"
        "Decisions and requests must be none. Without heartbeats only watches, timers and files are looked after."
    )
    busy = [row for row in rows if row["what happens"] == "heartbeats"]
    ours = [row for row in busy if row["program"] == OURS]
    report.goal(f"CPU of {OURS} per hour and 1,000 nodes", middle(ours, "CPU, s/h per 1,000 nodes"), 20, " s")
    report.goal("decisions taken", sum(float(row["decisions"] or 0) for row in ours), 0)
    report.goal("requests sent", sum(float(row["requests"] or 0) for row in ours), 0)
    report.ratios(
        {
            contender.name: {
                what: middle([row for row in busy if row["program"] == contender.name], what)
                for what in ("CPU, s/h per 1,000 nodes", "RSS, MiB")
            }
            for contender in contenders(chosen.peers)
        }
    )
    report.finish()


def middle(rows: list[dict[str, Cell]], column: str) -> float:
    return median(float(row[column] or 0) for row in rows)


if __name__ == "__main__":
    main()
