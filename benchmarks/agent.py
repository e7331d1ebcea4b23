"""The package agent: start to exit of one step that does nothing, and a package of many files against `cp -a`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import OURS, Cell, Report, load_average, median, options, percentile
from tests.build.agent import AgentHost, furnish, step, userland

WARM_UPS = 2
AGENT = (str(Path(sys.executable).parent / "haulout"), "as", "skyhook-agent")
MOST_MEMORY = 20.0


@contextlib.contextmanager
def throw_away_host() -> Iterator[AgentHost]:
    """Yield a host in a temporary folder. As root it is a chroot with tools, which the original needs; else local mode."""
    with tempfile.TemporaryDirectory(prefix="haulout-agent-") as folder:
        is_root = os.geteuid() == 0
        host = AgentHost(Path(folder) / "host", is_local=not is_root)
        if is_root:
            furnish(host.root, userland(Path(folder) / "userland"))
        yield host


def start(host: AgentHost, argv: tuple[str, ...]) -> subprocess.Popen[bytes]:
    words = [*argv, "apply", str(host.root), host.copy_dir]
    return subprocess.Popen(
        words, env=host.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def seconds(host: AgentHost, argv: tuple[str, ...]) -> float:
    began = time.perf_counter()
    code = start(host, argv).wait()
    assert code == 0, f"{argv[0]} ended with {code}"
    return time.perf_counter() - began


def peak(host: AgentHost, argv: tuple[str, ...]) -> float:
    """Return the peak memory of the agent's own process in MiB. A forked step shares it until it runs its program."""
    process, most = start(host, argv), 0.0
    while process.poll() is None:
        with contextlib.suppress(OSError):
            found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
            most = max(most, int(found[1]) / 1024 if found else 0.0)
        time.sleep(0.005)
    assert process.returncode == 0, f"{argv[0]} ended with {process.returncode}"
    return most


def system_calls(host: AgentHost, argv: tuple[str, ...]) -> int | None:
    """Return how many system calls the agent and its children make, or None without strace."""
    strace = shutil.which("strace")
    if strace is None:
        return None
    counted = host.root / "strace.txt"
    seconds(host, (strace, "-f", "-c", "-o", str(counted), *argv))
    total = re.search(r"^100\.00\s+\S+\s+(?:\S+\s+)?(\d+)\s+\d*\s*total$", counted.read_text(), re.MULTILINE)
    return int(total[1]) if total else None


def measure_start(report: Report, programs: dict[str, tuple[str, ...]], runs: int) -> None:
    with throw_away_host() as host:
        host.applying(step("noop.sh", idempotence=True))
        for argv in programs.values():
            for _ in range(WARM_UPS):
                seconds(host, argv)
        taken: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(runs):
            for name, argv in programs.items():
                taken[name].append(seconds(host, argv) * 1000)
        host.script("noop.sh", "sleep 0.3")  # long enough to be looked at
        peaks = {name: peak(host, argv) for name, argv in programs.items()}
        host.script("noop.sh")
        rows: list[dict[str, Cell]] = [
            {
                "program": name,
                "min, ms": min(values),
                "median, ms": median(values),
                "p90, ms": percentile(values, 0.9),
                "peak RSS, MiB": peaks[name],
                "system calls": system_calls(host, programs[name]),
                "load": load_average(),
            }
            for name, values in taken.items()
        ]
    report.table(f"`apply` with one step that does nothing, delay 0, {runs} runs each, in turn", rows)
    report.goal("peak RSS of the agent", peaks[OURS], MOST_MEMORY, " MiB")
    report.ratios({name: {"median, ms": median(taken[name]), "peak RSS": peaks[name]} for name in programs})


def deliver(host: AgentHost, files: int, size: int) -> Path:
    """Write a package's root_dir with so many files, a hundred in each directory. Return its path."""
    source = host.package / "root_dir"
    for index in range(files):
        folder = source / "opt" / f"d{index // 100:04}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{index:06}").write_bytes(os.urandom(size))
    return source


def measure_overlay(report: Report, programs: dict[str, tuple[str, ...]], files: int, megabytes: int) -> None:
    rows: list[dict[str, Cell]] = []
    with throw_away_host() as host:
        host.applying(step("noop.sh", idempotence=True))
        source = deliver(host, files, megabytes * 1_000_000 // files)
        os.sync()
        began = time.perf_counter()
        subprocess.run(["cp", "-a", f"{source}/.", f"{host.root}/copied"], check=True)
        rows.append({"what": "cp -a", "s": time.perf_counter() - began, "peak RSS, MiB": None})
        os.sync()
        began = time.perf_counter()
        subprocess.run(["cp", "-a", f"{source}/.", f"{host.root}/synced"], check=True)
        os.sync()
        rows.append({"what": "cp -a, then sync", "s": time.perf_counter() - began, "peak RSS, MiB": None})
        for name, argv in programs.items():
            shutil.rmtree(host.root / "opt", ignore_errors=True)
            os.sync()
            for what in ("all files new", "nothing changed"):
                began = time.perf_counter()
                most = peak(host, argv)
                assert sum(len(found) for _, _, found in os.walk(host.root / "opt")) == files
                rows.append({"what": f"{name}, {what}", "s": time.perf_counter() - began, "peak RSS, MiB": most})
    report.table(f"A package of {files:,} files, {megabytes} MB, applied", rows)
    ours = max(float(row["peak RSS, MiB"] or 0) for row in rows if str(row["what"]).startswith(OURS))
    report.goal("peak RSS with the large package", ours, MOST_MEMORY, " MiB")


def main() -> None:
    parser = options("agent", __doc__, runs=30)
    parser.add_argument("--files", type=int, default=10_000, help="files of the large package (default %(default)s)")
    parser.add_argument("--megabytes", type=int, default=200, help="and their size together (default %(default)s)")
    chosen = parser.parse_args()
    programs = {OURS: AGENT, **{peer.name: peer.argv for peer in chosen.peers}}
    report = Report("agent: one mode from start to exit, and a large package", chosen)
    report.say(f"steps run {'in a chroot' if os.geteuid() == 0 else 'without a chroot'}")
    measure_start(report, programs, chosen.runs)
    measure_overlay(report, programs, chosen.files, chosen.megabytes)
    report.finish()


if __name__ == "__main__":
    main()
