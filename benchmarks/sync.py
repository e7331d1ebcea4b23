"""What it takes to have all nodes and pods of a cluster in memory, from a real API server."""

from __future__ import annotations

import json
import time

from benchmarks.fixture import Contender, contenders, control_plane, syncing
from benchmarks.harness import MIB, OURS, Cell, Report, load_average, median, options, until_quiet, usage
from tests.rig.fleet import fleet
from tests.rig.plane import ControlPlane

CLIENT = "benchmarks.sync_client"


def run(plane: ControlPlane, contender: Contender, pods: int) -> dict[str, Cell]:
    since = plane.audit.mark()
    with syncing(plane, contender, CLIENT) as running:
        process = running.process
        # The larger the fleet, the longer the server keeps its clients waiting.
        quiet_for = max(3.0, pods / 10_000)
        wall = until_quiet(
            process.pid, quiet_for=quiet_for, may_rest=lambda: not contender.ours or bool(listed(process.text()))
        )
        process.check()
        used = usage(process.pid)
        told = listed(process.text())
    if contender.ours and told.get("Pod") != pods:
        raise AssertionError(f"{pods} pods were loaded, it has {told.get('Pod')}:\n{process.text()[-2000:]}")
    requests = plane.audit.counts(since=since, user=contender.user)
    return {
        "program": contender.name,
        "wall, s": wall,
        "CPU, s": used.cpu,
        "peak RSS, MiB": used.peak,
        "RSS at rest, MiB": used.rss,
        "listed after, s": told.get("wall"),
        "CPU/pod, us": used.cpu / pods * 1e6,
        "requests": ", ".join(f"{count} {act}" for act, count in sorted(requests.items())),
        "load": load_average(),
    }


def listed(text: str) -> dict[str, float]:
    """Return the figures that our client prints about itself; empty for a peer."""
    for line in text.splitlines():
        if line.startswith("listed {"):
            figures: dict[str, float] = json.loads(line.removeprefix("listed "))
            return figures
    return {}


def main() -> None:
    parser = options("sync", __doc__, runs=3)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=30_000)
    parser.add_argument("--goal", type=float, default=120.0, help="peak RSS in MiB (default %(default)s)")
    chosen = parser.parse_args()
    each = chosen.pods // chosen.nodes
    pods = each * chosen.nodes
    report = Report("sync: nodes and pods from a real API server into memory", chosen)
    rows: list[dict[str, Cell]] = []
    began = time.monotonic()
    with control_plane("sync", fleet("bench", chosen.nodes, pods_per_node=each)) as plane:
        ready_after = time.monotonic() - began
        server = usage(plane.apiserver.pid)
        for _ in range(chosen.runs):
            for contender in contenders(chosen.peers):
                rows.append(run(plane, contender, pods))
        server_then = usage(plane.apiserver.pid)
        stored = sum(file.stat().st_size for file in plane.directory.glob("etcd/member/snap/db")) / MIB
    report.table(f"{pods:,} pods and {chosen.nodes:,} nodes", rows)
    report.say(
        f"Storage of {stored:,.0f} MiB loaded and API server ready after {ready_after:.0f} s; the server held "
        f"{server.rss:,.0f} MiB before the runs\nand {server_then.rss:,.0f} MiB after (peak {server_then.peak:,.0f}), "
        f"and used {server_then.cpu - server.cpu:.0f} s of CPU for them, on the same cores.\n"
        "wall: until the process is at rest (0.15 s of CPU at most in 3 s or longer), the same ruler for all;\n"
        '"listed after": as the client says itself; requests: more than one of a kind is a list that was begun anew or paged.'
    )
    figures = {contender.name: summary(contender.name, rows) for contender in contenders(chosen.peers)}
    report.ratios(figures)
    report.goal(f"peak RSS of {OURS}", figures[OURS]["peak RSS, MiB"], chosen.goal, " MiB")
    report.finish()


def summary(program: str, rows: list[dict[str, Cell]]) -> dict[str, float]:
    mine = [row for row in rows if row["program"] == program]
    columns = ("wall, s", "CPU, s", "peak RSS, MiB", "RSS at rest, MiB")
    return {column: median(float(row[column] or 0) for row in mine) for column in columns}


if __name__ == "__main__":
    main()
