"""How long the command line takes to start, beside the bare interpreter and any other program."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.harness import OURS, Cell, Report, load_average, median, options, percentile

HAULOUT = Path(sys.executable).parent / "haulout"
WARM_UPS = 3
OFFENDERS = 12


def environment() -> dict[str, str]:
    """Return the environment with cached byte code, as in an installation."""
    return {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds(argv: tuple[str, ...]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def imports(*words: str) -> list[dict[str, Cell]]:
    """Return the modules that take longest to import, with their own time and that of their imports."""
    argv = [sys.executable, "-X", "importtime", str(HAULOUT), *words]
    said = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=True).stderr
    rows: list[tuple[int, int, str]] = []
    for line in said.splitlines():
        own, _, rest = line.removeprefix("import time:").partition("|")
        total, _, name = rest.partition("|")
        if own.strip().isdecimal():
            rows.append((int(total), int(own), name.strip()))
    worst = sorted(rows, reverse=True)[:OFFENDERS]
    return [
        {"module": name, "with its imports, ms": total / 1000, "alone, ms": own / 1000} for total, own, name in worst
    ]


def main() -> None:
    chosen = options("cli", __doc__, runs=60).parse_args()
    programs: dict[str, tuple[str, ...]] = {
        "python -c pass": (sys.executable, "-c", "pass"),
        "python -I -c 'import click'": (sys.executable, "-I", "-c", "import click"),
        "haulout version": (str(HAULOUT), "version"),
        "haulout --help": (str(HAULOUT), "--help"),
        **{peer.name: peer.argv for peer in chosen.peers},
    }
    report = Report("cli: cold start of the command line", chosen)
    for argv in programs.values():
        for _ in range(WARM_UPS):
            seconds(argv)
    # The programs take turns, so that other load of the machine affects all of them alike.
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(chosen.runs):
        for name, argv in programs.items():
            taken[name].append(seconds(argv) * 1000)
    bare = median(taken["python -c pass"])
    report.table(
        f"From start to end, {chosen.runs} runs each, in turn",
        [
            {
                "program": name,
                "min, ms": min(values),
                "median, ms": median(values),
                "p90, ms": percentile(values, 0.9),
                "median / bare interpreter": median(values) / bare,
                "load": load_average(),
            }
            for name, values in taken.items()
        ],
    )
    for name in ("haulout version", "haulout --help"):
        report.goal(f"{name}, median", median(taken[name]), 150, " ms")
    report.ratios(
        {
            OURS: {"median, ms": median(taken["haulout version"])},
            **{peer.name: {"median, ms": median(taken[peer.name])} for peer in chosen.peers},
        }
    )
    report.table("Imports of `haulout version` (python -X importtime, one run)", imports("version"))
    report.finish()


if __name__ == "__main__":
    main()
