"""What it costs to watch a fleet in which nothing happens but heartbeats, on a real API server."""

from __future__ import annotations

import dataclasses
import itertools
import math
import threading
import time
from collections.abc import Iterator

from benchmarks.fixture import Contender, Running, contenders, control_plane, controller
from benchmarks.harness import OURS, Cell, Report, load_average, median, options, until_quiet, usage
from tests.real.profiles import PROFILE, STATE, roll_config
from tests.rig.api import Json
from tests.rig.fleet import NODE_CONDITIONS, Owner, node_object, now, pod_object, pod_spec
from tests.rig.plane import ControlPlane

# How often a kubelet reports a status in which nothing has changed.
REPORT_EVERY = 300.0
HOUR = 3600.0
REPLICAS = 20


class Heartbeats:
    """A thread that writes only the heartbeat times of nodes' conditions, one node after another, at an even pace."""

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
    return running.operator.metric("haulout_askings_total") if running.operator else None


def window(plane: ControlPlane, running: Running, user: str, seconds: float, beats: Heartbeats | None) -> Window:
    """Measure a span of time. Metrics are read before and after it, so that they cost no CPU time in it."""
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
    # Watches are renewed every few minutes, and are not counted.
    requests = sum(entry.verb != "watch" for entry in plane.audit.entries(since=since, user=user))
    asked_between = None if asked is None or asked_then is None else asked_then - asked
    return Window(ended - began, after.cpu - before.cpu, asked_between, requests, beats.written if beats else 0)


def run(
    plane: ControlPlane, contender: Contender, names: list[str], pods: int, seconds: float
) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    with controller(plane, contender, roll_config(1)) as running:
        # The larger the fleet, the longer the server keeps its clients waiting.
        quiet_for = max(5, pods / 10_000)
        until_quiet(running.process.pid, quiet_for=quiet_for, spare=0.5, may_rest=lambda: all_have_states(plane))
        for what, beats in (("nothing", None), ("heartbeats", Heartbeats(plane, names, REPORT_EVERY))):
            seen = window(plane, running, contender.user, seconds, beats)
            per_hour, used = seen.cpu / seen.seconds * HOUR, usage(running.process.pid)
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
                    "RSS, MiB": used.rss,
                    "peak RSS, MiB": used.peak,
                    "load": load_average(),
                }
            )
    return rows


def main() -> None:
    parser = options("idle", __doc__, runs=1)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--window", type=float, default=120.0, help="seconds of each measurement (default %(default)s)")
    parser.add_argument("--pods", type=int, default=0, help="in all, of ReplicaSets (default %(default)s)")
    parser.add_argument("--goal", type=float, default=350.0, help="peak RSS in MiB (default %(default)s)")
    chosen = parser.parse_args()
    report = Report("idle: a fleet at rest", chosen)
    names = [f"bench-{i:05}" for i in range(chosen.nodes)]
    rows: list[dict[str, Cell]] = []
    with control_plane("idle", objects(names, chosen.pods // chosen.nodes)) as plane:
        for _ in range(chosen.runs):
            for contender in contenders(chosen.peers):
                rows += run(plane, contender, names, chosen.pods, chosen.window)
    with_pods = f" with {chosen.pods:,} pods" if chosen.pods else ""
    report.table(f"{chosen.nodes:,} nodes{with_pods}, each reporting every {REPORT_EVERY:g} s", rows)
    report.say(
        "CPU per hour is the window's, extended.\n"
        "Decisions and requests must be none. Without heartbeats only watches, timers and files are looked after."
    )
    busy = [row for row in rows if row["what happens"] == "heartbeats"]
    ours = [row for row in busy if row["program"] == OURS]
    report.goal(f"CPU of {OURS} per hour and 1,000 nodes", middle(ours, "CPU, s/h per 1,000 nodes"), 20, " s")
    report.goal(f"peak RSS of {OURS}", max(float(row["peak RSS, MiB"] or 0) for row in ours), chosen.goal, " MiB")
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


def all_have_states(plane: ControlPlane) -> bool:
    return not plane.api().items("nodes", labelSelector=f"!{STATE}", limit="1")


def objects(names: list[str], each: int) -> Iterator[Json]:
    """Yield nodes, ReplicaSets and their pods. The metrics of profiles count pods by owner, so all of these are watched."""
    for name in names:
        yield node_object(name, labels={PROFILE: "roll"}, annotations={})
    owners = [Owner("ReplicaSet", f"bench-rs-{i}") for i in range(math.ceil(len(names) * each / REPLICAS))]
    for owner in owners:
        yield replica_set_object(owner)
    for i in range(len(names) * each):
        owner = owners[i % len(owners)]
        yield pod_object(f"{owner.name}-{i}", "default", names[i % len(names)], owner=owner)


def replica_set_object(owner: Owner) -> Json:
    """Return a ReplicaSet with a realistic pod template, which makes up most of its size."""
    labels = {"app": owner.name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec("", owner.name, 30)}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": owner.name,
            "namespace": "default",
            "uid": owner.uid,
            "creationTimestamp": now(),
            "labels": labels,
        },
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template},
        "status": {"replicas": REPLICAS, "readyReplicas": REPLICAS, "availableReplicas": REPLICAS},
    }


def middle(rows: list[dict[str, Cell]], column: str) -> float:
    return median(float(row[column] or 0) for row in rows)


if __name__ == "__main__":
    main()
