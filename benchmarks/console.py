"""Measures `haulout console` on a real API server: memory, the first picture, changes, fifty browsers, and the operator beside it."""

from __future__ import annotations

import argparse
import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from benchmarks.fixture import Contender, control_plane, controller, fresh_directory
from benchmarks.harness import OURS, Cell, Report, load_average, median, options, percentile, until_quiet, usage
from benchmarks.idle import objects
from benchmarks.latency import CONFIG, Watching, singles
from benchmarks.memory import define_resources
from tests.build.console import ConsoleCaller
from tests.real.profiles import PROFILE
from tests.rig.fleet import node_object
from tests.rig.operator import HAULOUT, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import Process
from tests.rig.wait import eventually

SETTINGS = {"surfaces": {"nodemaintenance": {}, "packages": {}}, "leader": {"elect": False}}
CHANGES_A_SECOND = 50
BROWSERS = 50
READY_WITHIN = 900.0
LABEL = "example.com/turn"


class Console:
    """A running console, and a caller who has logged in. `started_at`: when the process was started."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        (directory / "haulout.yaml").write_text(yaml.safe_dump(SETTINGS))
        argv = [str(HAULOUT), "console", "--no-open"]
        env = environment(KUBECONFIG=str(plane.kubeconfig("operator")))
        self.process = Process("console", argv, directory, env=env, cwd=directory)
        self.started_at = 0.0
        self.caller: ConsoleCaller

    def __enter__(self) -> Console:
        self.started_at = time.monotonic()
        self.process.start()
        found = eventually(self._address, "the console prints its address", 60)
        self.caller = ConsoleCaller(int(found[1]), found[2])
        assert self.caller.login().status == 204
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def _address(self) -> re.Match[str] | None:
        self.process.check()
        return re.search(r"console: http://127\.0\.0\.1:(\d+)/#(\S+)", self.process.text())


class Browser:
    """A stream that is read and thrown away, or whose changes are timed. `seen`: when each turn of a node was read."""

    def __init__(self, caller: ConsoleCaller, *, times: bool = False) -> None:
        self.seen: dict[tuple[str, str], float] = {}
        self._times = times
        self._socket = socket.create_connection(("127.0.0.1", caller.port))
        lines = ("GET /api/v1/stream HTTP/1.1", f"Host: {caller.host}", f"Cookie: {caller.cookie}", "", "")
        self._socket.sendall("\r\n".join(lines).encode())
        threading.Thread(target=self._read, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _read(self) -> None:
        with self._socket.makefile("rb") as lines:
            try:
                for line in lines:
                    if self._times and line.startswith(b'data: {"seq"') and b'"set"' in line:
                        now = time.monotonic()
                        for row in json.loads(line[6:])["set"]:
                            self.seen.setdefault((row["name"], row["labels"].get(LABEL, "")), now)
            except (OSError, ValueError):
                return


@contextmanager
def browsers(caller: ConsoleCaller, count: int) -> Iterator[None]:
    with ExitStack() as held:
        for _ in range(count):
            held.callback(Browser(caller).close)
        time.sleep(3)
        yield


def main() -> None:
    parser = options("console", __doc__, runs=1, peers=False)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--each", type=int, default=30, help="pods on each node (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=60, help="how long nodes change (default %(default)s)")
    parser.add_argument("--changes", type=int, default=100, help="of the operator's latency (default %(default)s)")
    chosen = parser.parse_args()
    report = Report("console: `haulout console` on a real API server", chosen)
    names = [f"bench-{number:05}" for number in range(chosen.nodes)]
    with control_plane("console", objects(names, chosen.each)) as plane:
        define_resources(plane.api())
        with Console(plane, fresh_directory(plane, OURS)) as console:
            measure(report, plane, console, names, chosen)
    operator_beside(report, chosen)
    report.finish()


def measure(
    report: Report, plane: ControlPlane, console: Console, names: list[str], chosen: argparse.Namespace
) -> None:
    listed, shown = first_picture(console, len(names))
    until_quiet(console.process.pid, quiet_for=5, spare=1.0)
    rest = usage(console.process.pid)
    with browsers(console.caller, 1):
        alone = window(plane, console, names, chosen.seconds)
        before = usage(console.process.pid).rss
    with browsers(console.caller, BROWSERS):
        many = window(plane, console, names, chosen.seconds)
        after = usage(console.process.pid).rss
    report.table(
        f"{len(names):,} nodes, {len(names) * chosen.each:,} pods",
        [
            {
                "lists, s": listed - console.started_at,
                "first picture after them, s": shown - listed,
                "RSS at rest, MiB": rest.rss,
                "peak, MiB": rest.peak,
                "load": load_average(),
            }
        ],
    )
    report.table(
        f"{CHANGES_A_SECOND} nodes change each second, for {chosen.seconds} s",
        [{"browsers": 1, **alone}, {"browsers": BROWSERS, **many}],
    )
    shares = [float(row["share of a core, %"] or 0) for row in (alone, many)]
    report.goal("RSS of the console", usage(console.process.pid).rss, 300.0, " MiB")
    report.goal("first picture after the lists", shown - listed, 3.0, " s")
    report.goal(f"share of a core at {CHANGES_A_SECOND} changes a second", shares[0], 25.0, " %")
    report.goal(f"share of a core more with {BROWSERS} browsers", shares[1] - shares[0], 5.0, " %")
    report.goal(f"memory more with {BROWSERS} browsers", after - before, 10.0, " MiB")


def first_picture(console: Console, count: int) -> tuple[float, float]:
    """Return when everything was listed, and when all nodes were shown."""
    listed, end = 0.0, time.monotonic() + READY_WITHIN
    while time.monotonic() < end:
        fleet = console.caller.read("fleet")
        now = time.monotonic()
        if not listed and len(fleet["tables"]) > 1 and "not-yet" not in fleet["tables"].values():
            listed = now
        if len(fleet["nodes"]) >= count:
            return listed or now, now
        time.sleep(0.1)
    raise TimeoutError(f"no picture within {READY_WITHIN:g} s")


def window(plane: ControlPlane, console: Console, names: list[str], seconds: int) -> dict[str, Cell]:
    """Change nodes evenly for some time. Return the cost, and how soon a stream told of a change."""
    timer, api, sent = Browser(console.caller, times=True), plane.api(), dict[tuple[str, str], float]()
    time.sleep(2)
    began, before = time.monotonic(), usage(console.process.pid).cpu
    turns = itertools.count(int(time.time()))
    for number in range(seconds * CHANGES_A_SECOND):
        time.sleep(max(0.0, began + number / CHANGES_A_SECOND - time.monotonic()))
        name, turn = names[number * 97 % len(names)], str(next(turns))
        api.patch("nodes", name, {"metadata": {"labels": {LABEL: turn}}})
        sent[name, turn] = time.monotonic()
    took, spent = time.monotonic() - began, usage(console.process.pid).cpu - before
    time.sleep(5)
    timer.close()
    # A node that changed twice between two pictures is told of once.
    waits = [timer.seen[key] - at for key, at in sent.items() if key in timer.seen]
    return {
        "changes a second": len(sent) / took,
        "share of a core, %": 100 * spent / took,
        "told after p50, s": percentile(waits, 0.5),
        "p99, s": percentile(waits, 0.99),
        "untold": len(sent) - len(waits),
        "load": load_average(),
    }


def operator_beside(report: Report, chosen: argparse.Namespace) -> None:
    """Measure a label's way to the state label, alone and beside a console with its browsers, in turn."""
    names = [f"bench-{number:05}" for number in range(200)]
    figures: dict[str, list[float]] = {"alone": [], "beside a console": []}
    nodes = [node_object(name, labels={PROFILE: ("one", "two")[i % 2]}, annotations={}) for i, name in enumerate(names)]
    with control_plane("console-beside", nodes) as plane:
        define_resources(plane.api())
        for _ in range(max(2, chosen.runs)):
            figures["alone"] += latencies(plane, names, chosen.changes)
            with Console(plane, fresh_directory(plane, "console")) as console:
                first_picture(console, len(names))
                with browsers(console.caller, BROWSERS):
                    figures["beside a console"] += latencies(plane, names, chosen.changes)
    alone, beside = (median(each) for each in figures.values())
    report.table(
        f"A label's way to the state label, with {BROWSERS} browsers at the console beside the operator",
        [
            {"operator": what, "p50, ms": median(each), "p99, ms": percentile(each, 0.99), "load": load_average()}
            for what, each in figures.items()
        ],
    )
    report.goal("the operator's latency beside the console, as a ratio", beside / alone, 1.05)


def latencies(plane: ControlPlane, names: list[str], changes: int) -> list[float]:
    """Return the milliseconds of a label's way to the state label, for an operator that is started for it."""
    watching = Watching(plane)
    try:
        with controller(plane, Contender(OURS), CONFIG):
            eventually(lambda: watching.with_state() >= len(names), "all nodes have a state", 120)
            return singles(plane, watching, names, changes)["one transition"].from_sight
    finally:
        watching.stop()


if __name__ == "__main__":
    main()
