"""What Nodes cost whose annotations are as large as an API server accepts, on the keys that surfaces read.

In a process without a server: from the lines of a list to the first decision of all surfaces. With `--server`: the same
of `haulout run`, on a real API server, with fewer nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import multiprocessing
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.fixture import Contender, control_plane
from benchmarks.harness import MIB, OURS, Cell, Report, load_average, options, until_quiet, usage
from benchmarks.memory import define_resources, running
from haulout.base.clock import SystemClock
from haulout.cluster.project import RESOURCES, Projector
from haulout.cluster.store import Listing
from haulout.core.declaration import Enabled
from haulout.kernel.assemble import assemble
from haulout.kube.reflector import Reflector
from haulout.model.node import Node
from haulout.runtime.metrics import Metrics
from haulout.runtime.tables import TableSink
from haulout.surfaces.nodemaintenance.options import Options as MaintenanceOptions
from haulout.surfaces.nodemaintenance.surface import NODEMAINTENANCE
from haulout.surfaces.notify.surface import NOTIFY
from haulout.surfaces.packages.options import Options as PackageOptions
from haulout.surfaces.packages.surface import PACKAGES
from haulout.surfaces.profiles.load import known_plugins, load
from haulout.surfaces.profiles.options import Options as ProfileOptions
from haulout.surfaces.profiles.passes.result import Mode
from haulout.surfaces.profiles.surface import PROFILES
from haulout.surfaces.profiles.wire import PROFILE_LABEL
from tests.build.notices import options as notify_options
from tests.real.profiles import roll_config
from tests.rig.api import Json
from tests.rig.fleet import node_object
from tests.rig.plane import ControlPlane

# API servers accept so many bytes of annotations, names and values, for an object.
MOST = 256 * 1024
P = "skyhook.nvidia.com/"
PADDING = "x" * MOST


def ordinary() -> dict[str, str]:
    return {f"{P}nodeState_demo": json.dumps({"base|1.0.0": {"name": "base", "stage": "apply"}})}


def one_text() -> dict[str, str]:
    name = f"{P}nodeState_demo"
    return {name: PADDING[: MOST - len(name)]}


def rare_character() -> dict[str, str]:
    """Return a text that takes four bytes for each character in memory, because one of them is rare."""
    name = f"{P}nodeState_demo"
    return {name: PADDING[: MOST - len(name) - 4] + "\U0001f6a2"}


def several_texts() -> dict[str, str]:
    names = [f"{P}nodeState_s{number:02}" for number in range(16)]
    names += ["haulout.dev/cordon", "haulout.dev/cordoned-by", "haulout.dev/baseline", "haulout.dev/priority"]
    share = MOST // len(names) - 64
    return dict.fromkeys(names, PADDING[:share])


def many_texts() -> dict[str, str]:
    return {f"{P}k{number:05}": "" for number in range(MOST // (len(P) + 6) - 1)}


CASES = {
    "ordinary": ordinary,
    "one text of 256 KiB": one_text,
    "256 KiB with a rare character": rare_character,
    "20 texts of 13 KiB": several_texts,
    "10,000 empty texts": many_texts,
}


class Lines:
    """A transport whose server has Nodes with these annotations. Each is sent as an API server sends it."""

    def __init__(self, nodes: int, annotations: Mapping[str, str]) -> None:
        self._nodes = nodes
        body = node_object("NAME", labels={PROFILE_LABEL: "roll"}, annotations=annotations)
        body["metadata"] |= {"uid": "u-NAME", "resourceVersion": "1"}
        self.line = json.dumps({"type": "ADDED", "object": body}, separators=(",", ":")).encode()

    @contextlib.asynccontextmanager
    async def stream(self, path: str, **_: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        for number in range(self._nodes):
            yield self.line.replace(b"NAME", f"n{number}".encode())
        mark = {"resourceVersion": "2", "annotations": {"k8s.io/initial-events-end": "true"}}
        yield json.dumps({"type": "BOOKMARK", "object": {"metadata": mark}}).encode()
        await asyncio.Event().wait()


def surfaces() -> tuple[Enabled, ...]:
    config = load(roll_config(1), known_plugins(), source="maintenance.yaml", environment={})
    return (
        Enabled(NODEMAINTENANCE, MaintenanceOptions(alone=False)),
        Enabled(PROFILES, ProfileOptions(config, Mode(alone=False))),
        Enabled(PACKAGES, PackageOptions(alone=False)),
        Enabled(NOTIFY, notify_options("slaPeriod: 1h", alone=False)),
    )


async def listed(nodes: int, annotations: Mapping[str, str]) -> dict[str, Cell]:
    """List Nodes into a kernel, and run its decisions until the first one wants to write."""
    assembly = assemble(surfaces(), together=True)
    kernel, clock = assembly.kernel, SystemClock()
    for source in assembly.sources():
        if source.kind != "Node":
            kernel.store.begin_list("", source.kind)
            kernel.store.end_list("", source.kind, 1)
    keep = next(source.keep for source in assembly.sources() if source.kind == "Node")
    projector = Projector(RESOURCES["Node"], "", keep)
    changed = asyncio.Event()
    sink = TableSink(kernel.store, projector, clock, Metrics(), changed.set)
    lines = Lines(nodes, annotations)
    began, spent = time.monotonic(), time.process_time()
    reading = asyncio.create_task(Reflector(lines, "/api/v1/nodes", Node, sink, clock).run())  # type: ignore[arg-type]
    while kernel.store.table("", "Node").listing is not Listing.LISTED:
        changed.clear()
        await changed.wait()
    took = time.monotonic() - began
    first: float | None = None
    while first is None:
        kernel.run(clock.now())
        first = time.monotonic() - began if kernel.take_requests() else None
    reading.cancel()
    return {
        "list, MiB": nodes * len(lines.line) / MIB,
        "listed after, s": took,
        "first decision after, s": first,
        "CPU, s": time.process_time() - spent,
        "peak RSS, MiB": peak(),
    }


def peak() -> float:
    """Return the peak memory of this process in MiB."""
    [line] = [each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def measured(case: str, nodes: int) -> dict[str, Cell]:
    # Each large object is a line of the log.
    logging.disable()
    return {"annotations": case, "nodes": nodes, **asyncio.run(listed(nodes, CASES[case]())), "load": load_average()}


def in_process(case: str, nodes: int) -> dict[str, Cell]:
    """Measure one case in a process of its own, because the memory of a process does not shrink."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measured, (case, nodes))


def objects(case: str, nodes: int) -> Iterator[Json]:
    """Yield the nodes of a case, and one more that has nothing large: its state shows when work on others goes on."""
    yield node_object("healthy", labels={PROFILE_LABEL: "roll"})
    for number in range(nodes):
        yield node_object(f"n{number}", labels={PROFILE_LABEL: "roll"}, annotations=CASES[case]())


def on_server(case: str, nodes: int) -> dict[str, Cell]:
    with control_plane("large-nodes", objects(case, nodes)) as plane:
        define_resources(plane.api())
        began = time.monotonic()
        with running(plane, Contender(OURS)) as process:
            while not _has_state(plane):
                time.sleep(0.05)
            first = time.monotonic() - began
            rested = until_quiet(process.pid, quiet_for=5, spare=0.2)
            used = usage(process.pid)
    return {
        "annotations": case,
        "nodes": nodes,
        "state of one more node after, s": first,
        "at rest after, s": first + rested,
        "CPU, s": used.cpu,
        "RSS at rest, MiB": used.rss,
        "peak RSS, MiB": used.peak,
        "load": load_average(),
    }


def _has_state(plane: ControlPlane) -> bool:
    labels = plane.api().get("nodes", "healthy")["metadata"]["labels"]
    return "cloud.sap/maintenance-state" in labels


def main() -> None:
    parser = options("large-nodes", __doc__, runs=1, peers=False)
    parser.add_argument("--nodes", type=int, default=5_000, help="nodes without a server (default %(default)s)")
    parser.add_argument("--server", type=int, default=0, help="nodes on a real API server (default: not at all)")
    parser.add_argument("--goal", type=float, default=450.0, help="peak RSS in MiB (default %(default)s)")
    chosen = parser.parse_args()
    report = Report("large_nodes: Nodes with annotations of 256 KiB", chosen)
    rows = [in_process(case, chosen.nodes) for case in CASES for _ in range(chosen.runs)]
    report.table("Nodes and decisions in one process, lines of a list without a server", rows)
    if chosen.server:
        shown = [on_server(case, chosen.server) for case in ("ordinary", "one text of 256 KiB", "20 texts of 13 KiB")]
        report.table("`haulout run` with all surfaces, on a real API server", shown)
        report.say(
            "20 texts are states of packages of Skyhooks that do not exist. They are removed, one write for each node, and the"
            " state of the one more node is written after these. The server takes 30 ms and more for each."
        )
        rows += shown
    report.goal("peak RSS", max(float(row["peak RSS, MiB"] or 0) for row in rows), chosen.goal, " MiB")
    report.finish()


if __name__ == "__main__":
    main()
