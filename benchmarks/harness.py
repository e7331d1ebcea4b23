"""Shared by all benchmarks: a description of the machine, the usage of processes, statistics, options and reports."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from haulout.base import interpreter
from tools.build import find_tool

RESULTS = Path(__file__).parent / "results"
OURS = "haulout"
MIB = 2**20

Cell = str | float | int | None


# The machine


def machine() -> dict[str, str]:
    """Return what a reader needs to know of the machine to judge the figures, without its name."""
    info = _fields(Path("/proc/cpuinfo"))
    memory = int(_fields(Path("/proc/meminfo")).get("MemTotal", "0 kB").split()[0]) / MIB
    return {
        "CPU": f"{info.get('model name', platform.machine())}, {os.cpu_count()} cores",
        "memory": f"{memory:.1f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": interpreter.description(),
        **{name: version for name, version in _versions() if version},
    }


def _versions() -> Iterable[tuple[str, str]]:
    for name in ("msgspec", "aiohttp", "uvloop"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            yield name, metadata.version(name)
    yield "Kubernetes", _tool_version("kube-apiserver")
    yield "etcd", _tool_version("etcd")


def _tool_version(name: str) -> str:
    found = find_tool(name)
    if found is None:
        return ""
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"v?\d+\.\d+\.\d+\S*", said)
    return match[0] if match else ""


def _fields(path: Path) -> dict[str, str]:
    """Return the fields of a file with lines `name : value`; of several with one name, the first."""
    found: dict[str, str] = {}
    for line in path.read_text().splitlines():
        name, separator, value = line.partition(":")
        if separator:
            found.setdefault(name.strip(), value.strip())
    return found


def load_average() -> float:
    return os.getloadavg()[0]


# A process by its figures


@dataclasses.dataclass(frozen=True)
class Usage:
    """The usage of a process and its children: `cpu` in seconds, user and system; `peak` and `rss` in MiB."""

    cpu: float
    peak: float
    rss: float


def usage(session: int) -> Usage:
    """Return the usage of all processes of a session, so that a wrapper script does not hide what it runs."""
    cpu = peak = rss = 0.0
    for pid in _members(session):
        try:
            memory = _fields(Path(f"/proc/{pid}/status"))
            cpu += _cpu_seconds(pid)
        except OSError:
            # The process has ended since it was found.
            continue
        peak += _kib(memory, "VmHWM") / 1024
        rss += _kib(memory, "VmRSS") / 1024
    return Usage(cpu, peak, rss)


def _cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process with all its threads, in nanoseconds' precision.

    `/proc` counts in ticks of 10 ms, of which a process at rest takes one or two in 20 s. The number of a process's clock
    is made as Linux's `MAKE_PROCESS_CPUCLOCK` makes it; Python has no function for it.
    """
    return time.clock_gettime((~pid << 3) | 2)


def _kib(memory: Mapping[str, str], name: str) -> int:
    return int(memory.get(name, "0 kB").split()[0])


def _members(session: int) -> Iterable[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(int(entry.name)) == session:
                    yield int(entry.name)


def until_quiet(
    session: int,
    *,
    quiet_for: float = 3.0,
    spare: float = 0.15,
    may_rest: Callable[[], bool] = lambda: True,
    within: float = 1800.0,
) -> float:
    """Return the seconds from now until a process came to rest, whether or not it reports that itself.

    It is at rest if it uses less than `spare` seconds of CPU in `quiet_for` seconds. These are not part of the result.
    `may_rest`: False while the process is known to wait for the server, and has not finished.
    """
    began = time.monotonic()
    rested_at, cpu_then = began, usage(session).cpu
    while time.monotonic() < began + within:
        time.sleep(0.05)
        now, cpu = time.monotonic(), usage(session).cpu
        if cpu - cpu_then > spare:
            rested_at, cpu_then = now, cpu
        elif now - rested_at >= quiet_for and may_rest():
            return rested_at - began
    raise TimeoutError(f"busy for more than {within:g} s")


# Statistics


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


# Options


@dataclasses.dataclass(frozen=True)
class Peer:
    """Another program for the same work, which is measured beside ours."""

    name: str
    argv: tuple[str, ...]


def peer(text: str) -> Peer:
    name, separator, command = text.partition("=")
    argv = tuple(shlex.split(command))
    if not separator or not name or not argv:
        raise argparse.ArgumentTypeError("NAME=COMMAND is wanted")
    return Peer(name, argv)


def options(name: str, about: str | None, *, runs: int, peers: bool = True) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    parser.add_argument("--runs", type=int, default=runs, help="how often each is measured (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--save", metavar="NAME", help="write the text to benchmarks/results/NAME.txt")
    if peers:
        parser.add_argument(
            "--peer",
            type=peer,
            action="append",
            default=[],
            metavar="NAME=COMMAND",
            dest="peers",
            help="another program to measure in turn with ours; may be given several times",
        )
    return parser


# Reports


class Report:
    """The report of a benchmark: tables as text for people, and the same figures as JSON."""

    def __init__(self, name: str, chosen: argparse.Namespace) -> None:
        self.name = name
        self._chosen = chosen
        self._load_before = load_average()
        self._at = datetime.now(UTC)
        self._parts: list[str] = []
        self._data: dict[str, Any] = {}

    def say(self, text: str) -> None:
        self._parts.append(text)

    def table(self, title: str, rows: Sequence[Mapping[str, Cell]]) -> None:
        """Add a table. Its columns are the keys of the first row, which name their units."""
        self._data[title] = [dict(row) for row in rows]
        columns = list(rows[0])
        cells = [columns, *([shown(row.get(column)) for column in columns] for row in rows)]
        widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
        aligned = ["  ".join(_aligned(cell, width) for cell, width in zip(line, widths, strict=True)) for line in cells]
        self._parts.append("\n".join([title, "", *(f"  {line.rstrip()}" for line in aligned)]))

    def goal(self, what: str, figure: float, most: float, unit: str = "") -> None:
        """Add a line that says whether a goal is met. A missed goal does not fail the benchmark."""
        verdict = "met" if figure <= most else "MISSED"
        self._data.setdefault("goals", []).append({"what": what, "figure": figure, "most": most, "verdict": verdict})
        self._parts.append(f"goal {verdict}: {what}: {shown(figure)}{unit}, at most {shown(most)}{unit}")

    def ratios(self, figures: Mapping[str, Mapping[str, float]]) -> None:
        """Add a table of our figures divided by each peer's, from `{program: {figure: value}}`."""
        ours = figures[OURS]
        rows: list[dict[str, Cell]] = [
            {"ratio": f"{OURS} / {other}", **{what: ours[what] / theirs[what] for what in ours if theirs.get(what)}}
            for other, theirs in figures.items()
            if other != OURS
        ]
        if rows:
            self.table("Ratios of medians", rows)

    def text(self) -> str:
        described = "\n".join(f"  {name}: {value}" for name, value in machine().items())
        head = (
            f"{self.name}\n\ncommand: {command_line()}\nmeasured: {self._at:%Y-%m-%d %H:%M} UTC, "
            f"load average {self._load_before:.2f} before, {load_average():.2f} after\n{described}"
        )
        return "\n\n".join([head, *self._parts]) + "\n"

    def finish(self) -> None:
        text = self.text()
        print(text, end="")
        if self._chosen.save:
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / f"{self._chosen.save}.txt").write_text(text)
        if self._chosen.json:
            content = {"name": self.name, "at": self._at.isoformat(), "machine": machine(), **self._data}
            self._chosen.json.write_text(json.dumps(content, indent=2) + "\n")


def shown(cell: Cell) -> str:
    match cell:
        case None:
            return "-"
        case str():
            return cell
        case int():
            return f"{cell:,}"
        case _ if not math.isfinite(cell) or cell == 0:
            return f"{cell:g}"
        case _:
            return f"{cell:,.{max(0, 2 - math.floor(math.log10(abs(cell))))}f}"


def _aligned(cell: str, width: int) -> str:
    return cell.rjust(width) if re.match(r"[\d.,-]+$", cell) else cell.ljust(width)


def command_line() -> str:
    """Return the command line as typed, without the paths of peers and of files for the figures."""
    words: list[str] = []
    rest = iter(sys.argv[1:])
    for word in rest:
        if word in ("--save", "--json"):
            next(rest, None)
        elif word == "--peer":
            words += [word, f"{next(rest, '').partition('=')[0]}=..."]
        else:
            words.append(word)
    module = Path(sys.argv[0]).stem
    return shlex.join(["python", "-m", f"benchmarks.{module}", *words])
