"""What `haulout run` with all surfaces holds of a fleet in memory, on a real API server, and what drop-ins hold at rest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import yaml
from click.testing import CliRunner

from benchmarks import drop_ins
from benchmarks.fixture import Contender, contenders, control_plane, fresh_directory, peer_process
from benchmarks.harness import OURS, Cell, Report, load_average, options, until_quiet, usage
from benchmarks.idle import all_have_states, objects
from haulout.cli.root import root
from haulout.core.surface_names import BUILT_IN
from tests.real.profiles import roll_config
from tests.rig.api import Api
from tests.rig.clusterapi import define, define_all
from tests.rig.operator import Platform
from tests.rig.plane import ControlPlane
from tests.rig.process import CHECKOUT, Process

NOTIFY = CHECKOUT / "examples" / "notify" / "notifyMaintenanceConfig.yaml"
SURFACES = (
    "{profiles: {config: config/maintenance.yaml, metricsTimeout: 0s}, nodemaintenance: {}, clusterapi: {}, "
    f"notify: {{config: {NOTIFY}}}, packages: {{}}}}"
)
# The most MiB, by the number of nodes.
GOALS = {1_000: 110.0, 5_000: 220.0}


def define_resources(api: Api) -> None:
    """Create the definitions of all kinds that surfaces read: our own and those of Cluster API."""
    done = CliRunner().invoke(root, ["crds"])
    assert done.exit_code == 0, done.output
    define(api, *yaml.safe_load_all(done.output))
    define_all(api)
    # The namespace of the process's Lease.
    api.create("namespaces", {"metadata": {"name": "haulout-system"}})


@contextmanager
def running(plane: ControlPlane, contender: Contender) -> Iterator[Process]:
    directory = fresh_directory(plane, contender.name)
    if contender.ours:
        with Platform(plane, directory, roll_config(1), surfaces=SURFACES, user=contender.user) as operator:
            yield operator.process
        return
    with peer_process(plane, contender, directory) as process:
        yield process


def held(plane: ControlPlane, contender: Contender, nodes: int, pods: int) -> dict[str, Cell]:
    with running(plane, contender) as process:
        # The larger the fleet, the longer the server keeps its clients waiting. On a busy machine it sends slowly, so
        # that little CPU is no sign that all pods have come: 0.2 s are 4,000 pods.
        quiet_for = max(5, pods / 10_000)
        seconds = until_quiet(
            process.pid, quiet_for=quiet_for, spare=0.2, may_rest=lambda: not contender.ours or all_have_states(plane)
        )
        spent = usage(process.pid)
        time.sleep(5)
        used = usage(process.pid)
        return {
            "program": contender.name,
            "nodes": nodes,
            "pods": pods,
            "at rest after, s": seconds,
            "CPU until then, s": spent.cpu,
            "RSS at rest, MiB": used.rss,
            "peak RSS, MiB": used.peak,
            "load": load_average(),
        }


def main() -> None:
    parser = options("memory", __doc__, runs=1)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 5_000])
    parser.add_argument("--each", type=int, default=30, help="pods on each node (default %(default)s)")
    parser.add_argument(
        "--drop-ins", action="store_true", help="measure drop-ins on a small embedded cluster, and no more"
    )
    chosen = parser.parse_args()
    if chosen.drop_ins:
        report = Report("memory: drop-ins at rest", chosen)
        drop_ins.measure(report, chosen.runs)
        report.finish()
        return
    report = Report("memory: `haulout run` with all surfaces", chosen)
    rows: list[dict[str, Cell]] = []
    for nodes in chosen.nodes:
        names = [f"bench-{number:05}" for number in range(nodes)]
        with control_plane("memory", objects(names, chosen.each)) as plane:
            define_resources(plane.api())
            for _ in range(chosen.runs):
                rows += [held(plane, contender, nodes, nodes * chosen.each) for contender in contenders(chosen.peers)]
    report.table(f"{', '.join(BUILT_IN)}: {chosen.each} pods on each node, 20 to a ReplicaSet", rows)
    for nodes in chosen.nodes:
        ours = [row for row in rows if row["program"] == OURS and row["nodes"] == nodes]
        if nodes in GOALS:
            largest = max(float(row["peak RSS, MiB"] or 0) for row in ours)
            report.goal(f"peak RSS of {OURS} with {nodes:,} nodes", largest, GOALS[nodes], " MiB")
    report.finish()


if __name__ == "__main__":
    main()
