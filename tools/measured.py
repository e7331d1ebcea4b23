"""A plugin of pytest that measures which branches of Haulout the tests take, and the table of it.

Only the processes that run tests are measured, not the commands and operators that tests start.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "haulout"
# The folder to which each process writes what it has measured.
FOLDER = "COVERAGE_FOLDER"


def _measurement(folder: Path, *, is_part: bool) -> coverage.Coverage:
    return coverage.Coverage(
        data_file=folder / "coverage", data_suffix=is_part, branch=True, source=[str(SOURCES)], config_file=False
    )


def pytest_configure(config: pytest.Config) -> None:
    measurement = _measurement(Path(os.environ[FOLDER]), is_part=True)
    measurement.start()

    def end() -> None:
        measurement.stop()
        measurement.save()

    config.add_cleanup(end)


def table(folder: Path, sources: Path = SOURCES) -> str:
    """Return the branches below a folder of sources that tests have taken, by room."""
    measurement = _measurement(folder, is_part=False)
    measurement.combine()
    report = folder / "report.json"
    measurement.json_report(outfile=str(report), include=[f"{sources}/*"], ignore_errors=True)
    rooms: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, file in json.loads(report.read_text())["files"].items():
        parts = (ROOT / name).relative_to(SOURCES).parts[:-1]
        for room in ("in all", "/".join(parts[: 2 if parts[:1] == ("surfaces",) else 1]) or "haulout"):
            rooms[room][0] += file["summary"]["covered_branches"]
            rooms[room][1] += file["summary"]["num_branches"]
    lines = [f"{'branches taken in':<26} {'taken':>7} {'of':>7}"]
    lines += [
        f"{room:<26} {taken:>7} {count:>7} {taken / count:>7.1%}"
        for room, (taken, count) in sorted(rooms.items(), key=lambda each: (each[0] == "in all", each[0]))
        if count
    ]
    return "\n".join(lines)
