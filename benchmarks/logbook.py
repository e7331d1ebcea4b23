"""What the logbook costs: the same work under `haulout run` with MaintenanceRecords and without, in turn on one API server."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator

from benchmarks import drain, latency, notify, packages
from benchmarks.fixture import control_plane, fresh_directory
from benchmarks.harness import Cell, Report, load_average, median, options, percentile, until_quiet, usage
from haulout.core.logbook.retention import AT_ONCE, PACE_FOR
from tests.real.profiles import PROFILE
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.audit import Entry
from tests.rig.fleet import node_object
from tests.rig.kwok import Kwok
from tests.rig.maintenances import NMS, ends, maintenance, succeeds
from tests.rig.maintenances import define as define_maintenances
from tests.rig.operator import Platform
from tests.rig.plane import ControlPlane
from tests.rig.process import Process
from tests.rig.rights import printed
from tests.rig.wait import eventually

RECORDS = "haulout.dev/v1alpha1/maintenancerecords"
DEFINITION = "maintenancerecords.haulout.dev"
WITH, WITHOUT, RETENTION = "with the logbook", "without", "while records are removed"
USER = "operator"
# Writes whose number depends on the clock: progress is written at most so often, and events tell of it.
PARTS = ("profiles", "nodemaintenance", "packages", "notify")
BY_TIME = ("events", "leases", "skyhooks/status", "nodemaintenances/status")


class Course:
    """The parts of the benchmark, each run in both ways. `rows`: the requests of each. `times`: from label to state."""

    def __init__(self, plane: ControlPlane, kwok: Kwok, chosen: argparse.Namespace) -> None:
        self.plane, self.kwok, self.chosen = plane, kwok, chosen
        self.api, self.peak = plane.api(), 0.0
        self.rows: list[dict[str, Cell]] = []
        self.times: list[dict[str, Cell]] = []
        self.removals: list[dict[str, Cell]] = []

    def run(self, program: str) -> None:
        self._switch(program)
        for name in self.chosen.parts:
            print(f"{program}: {name}", file=sys.stderr, flush=True)
            getattr(self, name)(program)

    def _switch(self, program: str) -> None:
        """Install the definition of records, or remove it with all of them."""
        found = self.api.find(CRDS, DEFINITION)
        if program == WITHOUT and found is not None:
            self.api.delete(CRDS, DEFINITION)
            eventually(lambda: self.api.find(CRDS, DEFINITION) is None, "the definition is gone")
        if program == WITH and found is None:
            (crd,) = (each for each in printed("crds", "kernel") if each["metadata"]["name"] == DEFINITION)
            self.api.create(CRDS, crd)
            eventually(lambda: self.api.items(RECORDS) is not None, "records are served", refused=(ApiError,))

    def _namespaces(self) -> None:
        """Create the namespaces of the surfaces, which the end of another part wipes away with everything of its name."""
        for name in (packages.NAMESPACE, notify.NAMESPACE):
            if self.api.find("namespaces", name) is None:
                self.api.create("namespaces", {"metadata": {"name": name}})

    @contextlib.contextmanager
    def _operator(self, surfaces: str, files: dict[str, str] | None = None) -> Iterator[Process]:
        self._namespaces()
        directory = fresh_directory(self.plane, "logbook")
        settings = f"namespace: {notify.NAMESPACE}\nleader: {{elect: false}}"
        platform = Platform(self.plane, directory, latency.CONFIG, settings, surfaces=surfaces, user=USER)
        for name, text in (files or {}).items():
            platform.write(text, name)
        with platform:
            until_quiet(platform.process.pid, quiet_for=2)
            yield platform.process

    def _measured(self, part: str, program: str, process: Process, work: Callable[[], int]) -> None:
        """Run a part and count the requests of the operator. `work` returns how many maintenances there were."""
        since, before, began = self.plane.audit.mark(), usage(process.pid).cpu, time.perf_counter()
        maintenances = work()
        if program != WITHOUT:
            eventually(lambda: not self._open(), "all records are closed")
        until_quiet(process.pid, quiet_for=2, spare=0.1)
        entries = self.plane.audit.entries(since=since, user=USER)
        self.rows.append(
            {
                "surface": part,
                "program": program,
                "maintenances": maintenances,
                **_counts(entries),
                "CPU, s": usage(process.pid).cpu - before,
                "wall, s": time.perf_counter() - began,
                "load": load_average(),
            }
        )
        if program == WITH:
            self.api.delete_all(RECORDS)

    def _open(self) -> list[Json]:
        return self.api.items(RECORDS, labelSelector="haulout.dev/open=true")

    def retention(self) -> None:
        """Change labels as in `profiles`, while many records that have expired at once are removed."""
        self._switch(WITH)
        print(f"{RETENTION}: {self.chosen.expired} records", file=sys.stderr, flush=True)
        self.plane.load(expired_record(number) for number in range(self.chosen.expired))
        since = self.plane.audit.mark()
        self.profiles(RETENTION)
        entries = self.plane.audit.entries(since=since, user=USER)
        deleted = [entry for entry in entries if entry.act == "delete maintenancerecords" and entry.code < 300]
        lists = [entry for entry in entries if entry.act == "list maintenancerecords"]
        seconds = (deleted[-1].received_at - deleted[0].received_at).total_seconds() if deleted else 0.0
        self.removals.append(
            {
                "expired": self.chosen.expired,
                "lists in pages": len(lists),
                "removed meanwhile": len(deleted),
                "a second": len(deleted) / seconds if seconds else 0.0,
                "all after, min": self.chosen.expired / AT_ONCE * PACE_FOR.total_seconds() / 60,
                "peak RSS, MiB": self.peak,
                "load": load_average(),
            }
        )
        self.plane.wipe("expired-")

    def profiles(self, program: str) -> None:
        self.plane.wipe("bench-")
        names = [f"bench-{number:05}" for number in range(self.chosen.nodes)]
        self.plane.load(
            node_object(name, labels={PROFILE: "two" if number % 2 else "one"}, annotations={})
            for number, name in enumerate(names)
        )
        watching = latency.Watching(self.plane)
        try:
            with self._operator("{profiles: {config: config/maintenance.yaml, metricsTimeout: 0s}}") as process:
                eventually(lambda: watching.with_state() == len(names), "all nodes have a state", 120)
                time.sleep(2)

                def work() -> int:
                    taken = latency.singles(self.plane, watching, names, self.chosen.changes)
                    for what, times in taken.items():
                        self.times.append(latency.figures(program, what, times, load_average()))
                    return int(self.chosen.changes)

                self._measured("profiles", program, process, work)
                self.peak = usage(process.pid).peak
        finally:
            watching.stop()
        self.plane.wipe("bench-")

    def nodemaintenance(self, program: str) -> None:
        with drain.world(self.plane, "logbook"), self._operator("{nodemaintenance: {}}") as process:
            nodes = self.kwok.nodes(f"{drain.PREFIX}-logbook", self.chosen.maintenances)
            self.kwok.pods(f"{drain.PREFIX}-logbook", nodes, self.chosen.maintenances * 5, grace=1)

            def work() -> int:
                for node in nodes:
                    self.api.create(NMS, maintenance(node, node))
                succeeds(self.api, *nodes)
                ends(self.api, *nodes)
                return len(nodes)

            self._measured("nodemaintenance", program, process, work)

    def packages(self, program: str) -> None:
        count, surfaces = self.chosen.maintenances, f"{{packages: {{namespace: {packages.NAMESPACE}}}}}"
        fleet = packages.fleet(self.plane, self.kwok, count, packages.WORKS)
        with fleet as name, self._operator(surfaces) as process:

            def work() -> int:
                packages.create(self.api, name, 100, 1)
                packages.await_complete(self.api, process, name)
                return int(count)

            self._measured("packages", program, process, work)
            packages.delete(self.api, name)

    def notify(self, program: str) -> None:
        files = {"config/notify.yaml": f"slaPeriod: {notify.SLA}\n"}
        with self._operator("{notify: {config: config/notify.yaml}}", files) as process:
            fleet = notify.Fleet(self.plane, f"log{time.monotonic_ns()}", self.chosen.maintenances)

            def work() -> int:
                for _ in notify.live(fleet, process):
                    pass
                return fleet.count

            self._measured("notify", program, process, work)


def _counts(entries: list[Entry]) -> dict[str, Cell]:
    done = Counter(entry.act for entry in entries if entry.writes and entry.code < 300)
    refused = sum(entry.writes and entry.code >= 300 for entry in entries)
    records = {name: done[f"{name} maintenancerecords"] for name in ("create", "patch")}
    others = sum(
        count
        for act, count in done.items()
        if act.partition(" ")[2] not in BY_TIME and not act.endswith(" maintenancerecords")
    )
    by_time = sum(count for act, count in done.items() if act.partition(" ")[2] in BY_TIME[2:])
    return {
        "records created": records["create"],
        "records closed": records["patch"],
        "other writes": others,
        "progress writes": by_time,
        "refused": refused,
        "reads": sum(not entry.writes and entry.verb != "watch" for entry in entries),
    }


def expired_record(number: int) -> Json:
    """Return a record of a maintenance that ended more than 90 days ago."""
    at, end = "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"
    phases = [{"name": name, "at": at, "certainty": "exact"} for name in ("requested", "begun", "drained", "done")]
    return {
        "apiVersion": "haulout.dev/v1alpha1",
        "kind": "MaintenanceRecord",
        "metadata": {"name": f"expired-{number:06}", "uid": f"expired-{number:06}", "creationTimestamp": at},
        "spec": {
            "node": {"name": f"gone-{number % 500}", "uid": f"gone-{number % 500}"},
            "surface": "nodemaintenance",
            "owner": {"kind": "NodeMaintenance", "namespace": "", "name": f"m-{number}", "uid": f"m-{number}"},
            "reason": "firmware",
            "requestedBy": {"name": "alice", "how": "admission"},
            "begunAt": at,
        },
        "status": {"outcome": "Completed", "endedAt": end, "phases": phases, "limits": ["NodeDisruptionBudget/night"]},
    }


def define(plane: ControlPlane) -> None:
    """Create the definitions and namespaces of the four surfaces, without that of records."""
    define_maintenances(plane.api())
    packages.define(plane)
    notify.define(plane)
    for crd in printed("crds", "kernel"):
        if crd["metadata"]["name"] != DEFINITION:
            plane.api().create(CRDS, crd)
    for crd in printed("crds", "nodemaintenance"):
        _create_once(plane.api(), crd)


def _create_once(api: Api, crd: Json) -> None:
    if api.find(CRDS, crd["metadata"]["name"]) is None:
        api.create(CRDS, crd)


def main() -> None:
    parser = options("logbook", __doc__, runs=3, peers=False)
    parser.add_argument("--nodes", type=int, default=200, help="with profiles (default %(default)s)")
    parser.add_argument("--changes", type=int, default=200, help="of each sort in a run (default %(default)s)")
    parser.add_argument("--maintenances", type=int, default=40, help="of the other surfaces (default %(default)s)")
    parser.add_argument("--expired", type=int, default=10_000, help="records that expire at once (default %(default)s)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="surfaces (default: all)")
    chosen = parser.parse_args()
    report = Report("logbook: the same work with MaintenanceRecords and without", chosen)
    with control_plane("logbook", ()) as plane, Kwok(plane) as kwok:
        plane.start_controllers()
        define(plane)
        course = Course(plane, kwok, chosen)
        for number in range(chosen.runs):
            # The one that comes first changes, because the API server is slower with a larger storage.
            for program in (WITHOUT, WITH) if number % 2 == 0 else (WITH, WITHOUT):
                course.run(program)
            if chosen.expired:
                course.retention()
    tell(report, course)


def tell(report: Report, course: Course) -> None:
    report.table("Requests of the operator", course.rows)
    report.say(
        "Other writes: without events, Leases, and the progress in status (in its own column), whose number depends on\n"
        "the clock. The profiles' part has as many maintenances as it has changes of two transitions."
    )
    if course.times:
        report.table("From the change of a label to the state label", course.times)
    if course.removals:
        report.table("Records that expire at once, while labels are changed", course.removals)
    maintenances = [row for row in course.rows if row["program"] == WITH]
    per = [
        (float(row["records created"] or 0) + float(row["records closed"] or 0)) / float(row["maintenances"] or 1)
        for row in maintenances
    ]
    report.goal("writes of records a maintenance", max(per), 2)
    for surface in dict.fromkeys(str(row["surface"]) for row in course.rows):
        more = _middle(course.rows, surface, WITH, "other writes") - _middle(
            course.rows, surface, WITHOUT, "other writes"
        )
        report.goal(f"{surface}: other writes more than without", more, 0)
    programs = (WITHOUT, WITH, *((RETENTION,) if course.removals else ()))
    for what in ("one transition", "two transitions") if course.times else ():
        for column in ("p50, ms", "p50 from sight, ms"):
            rows = [row for row in course.times if row["change"] == what]
            by = {each: median(float(row[column] or 0) for row in rows if row["program"] == each) for each in programs}
            for each in programs[1:]:
                report.goal(f"{what}, {column}, {each}, by that without", by[each] / by[WITHOUT], 1.1)
    report.finish()


def _middle(rows: list[dict[str, Cell]], surface: str, program: str, column: str) -> float:
    found = [float(row[column] or 0) for row in rows if (row["surface"], row["program"]) == (surface, program)]
    return percentile(found, 0.5)


if __name__ == "__main__":
    main()
