"""Measures `haulout status` of a large fleet, from the moment when everything is listed to the first picture."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from benchmarks.harness import Cell, Report, load_average, options
from haulout.base.collector import exempt_from_collector, without_collector
from haulout.cluster.kinds import Kinds
from haulout.core.decision import Source
from haulout.explain.fleet import fleet_of
from haulout.explain.fleet_picture import fleet_lines
from haulout.explain.setup import Setup, read_setup
from haulout.kernel.assemble import assemble, merge_sources
from haulout.kernel.proofs import settle

Json = dict[str, Any]
GOAL = 2.0
ZONE = "topology.kubernetes.io/zone"
SINCE = "2026-03-01T10:00:00Z"
CONFIG = """
intervals: {requeue: 30s}
instances:
  check:
  - {type: hasLabel, name: wanted, config: {key: wanted}}
  - {type: hasLabel, name: booted, config: {key: booted}}
  - {type: maxMaintenance, name: few, config: {max: 3, groupBy: [topology.kubernetes.io/zone]}}
  trigger:
  - {type: eviction, name: cordon, config: {action: cordon}}
  - {type: eviction, name: drain, config: {action: drain}}
profiles:
- name: image
  operational: {transitions: [{check: wanted, next: maintenance-required}]}
  maintenance-required: {transitions: [{check: few, next: in-maintenance, trigger: cordon}]}
  in-maintenance: {enter: drain, transitions: [{check: booted, next: operational}]}
"""


def data(state: str) -> str:
    """Return the data annotation exactly as the operator writes it. Any difference would make it patch every node."""
    entry = {"Transition": SINCE, "Current": state, "Previous": state}
    return json.dumps({"Profiles": {"image": entry}, "Notifications": {}}, separators=(",", ":"))


def nodes(count: int, waiting: int) -> Iterator[Json]:
    """Yield nodes. The first `waiting` ones want maintenance by a profile, and every hundredth of these is in it."""
    for number in range(count):
        state = (
            "operational" if number >= waiting else "in-maintenance" if number % 100 == 0 else "maintenance-required"
        )
        labels = {
            ZONE: f"z{number % 3}",
            "cloud.sap/maintenance-profile": "image",
            "cloud.sap/maintenance-state": state,
        }
        labels |= {"wanted": "v2"} if number < waiting else {}
        yield {
            "metadata": {
                "name": f"n{number:05}",
                "uid": f"n{number}",
                "labels": labels,
                "annotations": {"cloud.sap/maintenance-data": data(state)},
            },
            "spec": {"unschedulable": state == "in-maintenance"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }


def pods(count: int, each: int) -> Iterator[Json]:
    for number in range(count):
        for pod in range(each):
            owner = {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": f"app{pod}",
                "uid": f"r{pod}",
                "controller": True,
            }
            yield {
                "metadata": {
                    "name": f"app{pod}-{number}",
                    "namespace": "shop",
                    "uid": f"p{number}-{pod}",
                    "labels": {"app": f"app{pod}"},
                    "ownerReferences": [owner],
                },
                "spec": {"nodeName": f"n{number:05}"},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            }


def maintenances(count: int, of: int) -> Iterator[Json]:
    """Yield NodeMaintenances for the last `of` of the nodes."""
    for number in range(of):
        meta = {
            "name": f"m{number}",
            "uid": f"m{number}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["foregroundDeleteNodeMaintenance"],
        }
        yield {"metadata": meta, "spec": {"nodeName": f"n{count - 1 - number:05}", "reason": "disk"}}


def budgets() -> Iterator[Json]:
    yield {"metadata": {"name": "few", "uid": "b"}, "spec": {"maxUnavailable": "1%"}}
    for zone in range(3):
        selector = {"matchLabels": {ZONE: f"z{zone}"}}
        yield {
            "metadata": {"name": f"z{zone}", "uid": f"b{zone}"},
            "spec": {"maxUnavailable": 10, "selector": selector},
        }


def setup_with(folder: Path) -> Setup:
    (folder / "maintenance.yaml").write_text(CONFIG)
    blocks = {"profiles": {"config": str(folder / "maintenance.yaml")}, "nodemaintenance": {}}
    (folder / "haulout.yaml").write_text(json.dumps({"surfaces": blocks}))
    return read_setup(str(folder / "haulout.yaml"))


def measured(setup: Setup, count: int, each: int, waiting: int, of: int) -> dict[str, Cell]:
    """Put a fleet into the store as the watches do, then draw it as the command does."""
    objects = {
        "Node": nodes(count, waiting),
        "Pod": pods(count, each),
        "NodeMaintenance": maintenances(count, of),
        "NodeDisruptionBudget": budgets(),
    }
    assembly = assemble(setup.enabled, together=setup.together)
    kernel, kinds = assembly.kernel, Kinds(assembly.kinds)
    wanted = merge_sources((Source("", "Node"), *assembly.sources()))
    version = 0
    for source in sorted(wanted, key=lambda source: source.kind):
        projector, model = kinds.keep("", source.kind, source.keep), kinds.resource(source.kind).model
        kernel.store.begin_list("", source.kind)
        for body in objects.get(source.kind, ()):
            version += 1
            body["metadata"]["resourceVersion"] = str(version)
            kernel.store.put(projector.row(msgspec.convert(body, model)))
        kernel.store.end_list("", source.kind, version)
    declarations = [enabled.declaration for enabled in setup.enabled]
    # Collect the garbage of the last run before this one is measured.
    gc.unfreeze()
    gc.collect()
    began_at = time.perf_counter()
    begun = time.process_time()
    with without_collector():
        kernel.lead()
        settle(kernel, datetime.now(UTC))
        exempt_from_collector()
        settled = time.process_time()
        fleet = fleet_of(kernel, declarations, [source.kind for source in wanted], ZONE, datetime.now(UTC))
        gathered = time.process_time()
    lines = fleet_lines(fleet, 120, 40)
    drawn = time.process_time()
    return {
        "nodes": count,
        "pods/node": each,
        "wanted by profiles": waiting,
        "NodeMaintenances": of,
        "decisions, CPU s": settled - begun,
        "fleet, CPU s": gathered - settled,
        "lines, CPU s": drawn - gathered,
        "picture, CPU s": drawn - begun,
        "wall s": time.perf_counter() - began_at,
        "lines": len(lines),
        "causes": len(fleet.causes),
        "load": load_average(),
    }


def main() -> None:
    parser = options("status", __doc__, runs=3, peers=False)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=30)
    chosen = parser.parse_args()
    report = Report("status: the first picture of a fleet", chosen)
    rows = []
    with TemporaryDirectory() as folder:
        setup = setup_with(Path(folder))
        for waiting, of in ((0, 0), (chosen.nodes // 10, 200), (chosen.nodes, 0)):
            found = [measured(setup, chosen.nodes, chosen.pods, waiting, of) for _ in range(chosen.runs)]
            rows.append(min(found, key=lambda row: float(str(row["picture, CPU s"]))))
    report.table(f"From the end of the lists to the picture. Of {chosen.runs} runs the fastest", rows)
    report.goal(
        "the dearest of them, on a core of its own", max(float(str(row["picture, CPU s"])) for row in rows), GOAL, " s"
    )
    report.finish()


if __name__ == "__main__":
    main()
