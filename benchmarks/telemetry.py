"""What traces cost: NodeMaintenances under `haulout run` with traces off and on, and under an earlier commit, in turn."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator

from benchmarks import drain, latency, logbook
from benchmarks.fixture import control_plane, fresh_directory
from benchmarks.harness import Cell, Report, load_average, median, options, until_quiet, usage
from haulout.core.logbook.wire import OPEN_LABEL
from tests.build.collector import Collector
from tests.rig.api import CRDS
from tests.rig.kwok import Kwok
from tests.rig.maintenances import NMS, define, ends, maintenance, succeeds
from tests.rig.operator import Platform, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import Process
from tests.rig.rights import printed
from tests.rig.wait import eventually

OFF, ON = "traces off", "traces on"
NAMESPACE, PODS = f"{drain.PREFIX}-telemetry", 5
FIGURES = ("RSS at rest, MiB", "CPU, s", "RSS after, MiB")


class Course:
    """The runs of all programs on one API server. `rows`: the figures of each run."""

    def __init__(self, plane: ControlPlane, kwok: Kwok, chosen: argparse.Namespace) -> None:
        self.plane, self.kwok, self.chosen = plane, kwok, chosen
        self.programs: dict[str, tuple[str, ...]] = {OFF: (), ON: (), **{each.name: each.argv for each in chosen.peers}}
        self.rows: list[dict[str, Cell]] = []

    def run(self, program: str) -> None:
        api = self.plane.api()
        with Collector() as collector, drain.world(self.plane, "telemetry"):
            nodes = self.kwok.nodes(NAMESPACE, self.chosen.maintenances)
            self.kwok.pods(NAMESPACE, nodes, len(nodes) * PODS, grace=1)
            with self._operator(program, collector) as process:
                before = usage(process.pid)
                for node in nodes:
                    api.create(NMS, maintenance(node, node))
                succeeds(api, *nodes)
                ends(api, *nodes)
                eventually(
                    lambda: not api.items(logbook.RECORDS, labelSelector=f"{OPEN_LABEL}=true"), "all records are closed"
                )
                until_quiet(process.pid, quiet_for=2, spare=0.1)
                after = usage(process.pid)
            api.delete_all(logbook.RECORDS)
        self.rows.append(
            {
                "program": program,
                "maintenances": len(nodes),
                "traces": len(collector.traces()),
                "RSS at rest, MiB": before.rss,
                "CPU, s": after.cpu - before.cpu,
                "RSS after, MiB": after.rss,
                "load": load_average(),
            }
        )

    @contextlib.contextmanager
    def _operator(self, program: str, collector: Collector) -> Iterator[Process]:
        directory = fresh_directory(self.plane, "telemetry")
        traces = f'traces: {{enabled: true, endpoint: "{collector.url}", slowEviction: 500ms}}' if program == ON else ""
        settings = f"namespace: {NAMESPACE}\nleader: {{elect: false}}\n{traces}"
        platform = Platform(self.plane, directory, latency.CONFIG, settings, surfaces="{nodemaintenance: {}}")
        if self.programs[program]:
            argv = [*self.programs[program], "run"]
            platform.process = Process("peer", argv, directory, env=environment(), cwd=directory)
        with platform:
            until_quiet(platform.process.pid, quiet_for=2)
            yield platform.process

    def medians(self, program: str) -> dict[str, float]:
        rows = [row for row in self.rows if row["program"] == program]
        return {figure: median(float(row[figure] or 0) for row in rows) for figure in FIGURES}


def main() -> None:
    parser = options("telemetry", __doc__, runs=3)
    parser.add_argument("--maintenances", type=int, default=40, help="in a run (default %(default)s)")
    chosen = parser.parse_args()
    report = Report("telemetry: maintenances with traces off and on", chosen)
    with control_plane("telemetry", ()) as plane, Kwok(plane) as kwok:
        plane.start_controllers()
        define(plane.api())
        for crd in printed("crds", "kernel"):
            if plane.api().find(CRDS, crd["metadata"]["name"]) is None:
                plane.api().create(CRDS, crd)
        course = Course(plane, kwok, chosen)
        for number in range(chosen.runs):
            # The one that comes first changes, because the API server is slower with a larger storage.
            programs = list(course.programs)
            for program in programs if number % 2 == 0 else reversed(programs):
                print(f"run {number + 1}: {program}", file=sys.stderr, flush=True)
                course.run(program)
    report.table("Each run", course.rows)
    off, on = course.medians(OFF), course.medians(ON)
    report.table("Medians", [{"program": name, **course.medians(name)} for name in course.programs])
    for peer in chosen.peers:
        before = course.medians(peer.name)
        report.goal(f"off, CPU by that of {peer.name}", off["CPU, s"] / before["CPU, s"], 1.05)
        report.goal(
            f"off, more RSS after than {peer.name}", off["RSS after, MiB"] - before["RSS after, MiB"], 1, " MiB"
        )
    report.goal(
        "on, CPU more than off a maintenance", (on["CPU, s"] - off["CPU, s"]) / chosen.maintenances * 1000, 10, " ms"
    )
    report.goal("on, more RSS after than off", on["RSS after, MiB"] - off["RSS after, MiB"], 20, " MiB")
    report.finish()


if __name__ == "__main__":
    main()
