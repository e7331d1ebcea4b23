"""What drop-ins hold in memory at rest, on a small embedded cluster, and what their imports take of it, by module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness import Cell, Report, load_average, until_quiet, usage
from tests.real.profiles import roll_config
from tests.rig.process import CHECKOUT, Process, free_port

NOTIFY = CHECKOUT / "examples" / "notify" / "notifyMaintenanceConfig.yaml"
NAMESPACES = ("haulout-system", "medik8s-leases", "skyhook", "pika-system")
# The most MiB at rest, of each drop-in.
GOAL = 50.0
NODES, SHOWN = 6, 25


def measure(report: Report, runs: int) -> None:
    """Add the memory of each drop-in at rest to a report, and what its imports take."""
    with tempfile.TemporaryDirectory() as directory, _cluster(Path(directory)) as kubeconfig:
        folder = Path(directory)
        rows, imports = list[dict[str, Cell]](), dict[str, dict[str, float]]()
        for name in _commands():
            rows += [_at_rest(name, folder, kubeconfig) for _ in range(runs)]
            imports[name] = _imports(name, folder, kubeconfig)
    report.table(f"drop-ins on {NODES} nodes, with webhooks and their own certificates", rows)
    largest = dict[str, float]()
    for each in imports.values():
        for module, mib in each.items():
            largest[module] = max(largest.get(module, 0.0), mib)
    most = sorted(largest, key=lambda module: -largest[module])[:SHOWN]
    table: list[dict[str, Cell]] = [
        {"import": module, **{name: each.get(module, 0.0) for name, each in imports.items()}} for module in most
    ]
    report.table("MiB at import, without what an import causes", table)
    for row in rows:
        report.goal(f"RSS at rest of {row['program']}", float(row["RSS at rest, MiB"] or 0), GOAL, " MiB")


def _commands() -> Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]]:
    """Return the flags and the environment of each drop-in, with free ports."""
    ports = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    http, health, hooks = ports
    return {
        "maintenance-controller": (("-metrics-addr", http, "-health-addr", health, "-metrics-timeout", "0s"), {}),
        "node-maintenance-operator": (
            ("-metrics-bind-address", http, "-health-probe-bind-address", health, "-listen-webhooks", hooks),
            {},
        ),
        "pika": (
            (
                *("-config", str(NOTIFY), "-metrics-port", http.rpartition(":")[2]),
                *("-health-probe-bind-address", health, "-listen-webhooks", hooks),
            ),
            {},
        ),
        "skyhook-operator": (
            (),
            {"METRICS_PORT": http, "PROBE_PORT": health},
        ),
    }


def _at_rest(name: str, folder: Path, kubeconfig: Path) -> dict[str, Cell]:
    with _running(name, folder, kubeconfig, ()) as process:
        seconds = until_quiet(process.pid, quiet_for=5)
        used = usage(process.pid)
    return {
        "program": name,
        "at rest after, s": seconds,
        "RSS at rest, MiB": used.rss,
        "peak RSS, MiB": used.peak,
        "load": load_average(),
    }


def _imports(name: str, folder: Path, kubeconfig: Path) -> dict[str, float]:
    """Return how many MiB the imports of a drop-in take: our own by room, others by library."""
    file = folder / f"{name}.json"
    with _running(name, folder, kubeconfig, (sys.executable, "-m", "benchmarks.imports", str(file))) as process:
        until_quiet(process.pid, quiet_for=5)
        process.stop()
    found = dict[str, float]()
    for module, mib in json.loads(file.read_text()).items():
        first, *rest = module.split(".")
        room = f"haulout.{rest[0]}" if first == "haulout" and rest else first
        found[room] = found.get(room, 0.0) + mib
    return found


@contextmanager
def _running(name: str, folder: Path, kubeconfig: Path, program: tuple[str, ...]) -> Iterator[Process]:
    flags, variables = _commands()[name]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(CHECKOUT), **variables}
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "maintenance.yaml").write_text(roll_config(1))
    words = (*(program or (sys.executable, "-m", "haulout.app.main")), "as", name, *flags)
    with Process(name, words, folder, env=environment, cwd=folder) as process:
        yield process


@contextmanager
def _cluster(folder: Path) -> Iterator[Path]:
    """Run an embedded cluster with the definitions of all kinds. Yield the path of its kubeconfig."""
    kubeconfig = folder / "kubeconfig"
    program = (sys.executable, "-m", "haulout.app.main")
    words = (*program, "cluster", "--nodes", str(NODES), "--write-kubeconfig", kubeconfig)
    with Process("cluster", words, folder) as cluster:
        until_quiet(cluster.pid, may_rest=kubeconfig.exists)
        definitions = subprocess.run((*program, "crds"), capture_output=True, check=True).stdout
        apply = ("kubectl", "--kubeconfig", kubeconfig, "apply", "--server-side", "-f", "-")
        subprocess.run(apply, input=definitions, capture_output=True, check=True)
        for name in NAMESPACES:
            # The embedded cluster may bring it.
            subprocess.run(
                ("kubectl", "--kubeconfig", kubeconfig, "create", "namespace", name), capture_output=True, check=False
            )
        yield kubeconfig
