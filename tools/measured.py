"""A plugin of pytest that measures which branches of Haulout the tests take, and what is read from it.

Only the processes that run tests are measured, not the commands and operators that tests start.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "haulout"
# The folder to which each process writes what it has measured.
FOLDER = "COVERAGE_FOLDER"
# Set if each line is measured with the tests that run it.
BY_TEST = "COVERAGE_BY_TEST"


def _measurement(folder: Path, *, is_part: bool) -> coverage.Coverage:
    return coverage.Coverage(
        data_file=folder / "coverage", data_suffix=is_part, branch=True, source=[str(SOURCES)], config_file=False
    )


class ByTest:
    """Tells a measurement which test runs, and writes down how long each took."""

    def __init__(self, measurement: coverage.Coverage, folder: Path) -> None:
        self._measurement, self._folder = measurement, folder
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._measurement.switch_context(item.nodeid)
        began = time.monotonic()
        found = yield
        self._seconds[item.nodeid] = time.monotonic() - began
        return found

    def pytest_unconfigure(self) -> None:
        (self._folder / f"seconds-{os.getpid()}.json").write_text(json.dumps(self._seconds))


def pytest_configure(config: pytest.Config) -> None:
    folder = Path(os.environ[FOLDER])
    measurement = _measurement(folder, is_part=True)
    measurement.start()
    if os.environ.get(BY_TEST):
        config.pluginmanager.register(ByTest(measurement, folder))

    def end() -> None:
        measurement.stop()
        measurement.save()

    config.add_cleanup(end)


class Tests:
    """Which tests run each line, by what was measured with BY_TEST."""

    def __init__(self, folder: Path) -> None:
        measurement = _measurement(folder, is_part=False)
        if (folder / "coverage").exists():
            measurement.load()
        else:
            measurement.combine()
        self._data = measurement.get_data()
        self._seconds: dict[str, float] = {}
        for file in folder.glob("seconds-*.json"):
            self._seconds.update(json.loads(file.read_text()))

    def of(self, path: Path, line: int) -> dict[str, float]:
        """Return the tests that run a line with the seconds of each, the quickest first.

        Of a line that runs at import alone, they are those that run anything of its file.
        """
        by_line = self._data.contexts_by_lineno(str(path))
        found = {test for test in by_line.get(line, ()) if test}
        found = found or {test for tests in by_line.values() for test in tests if test}
        return dict(
            sorted(((test, self._seconds.get(test, 0.0)) for test in found), key=lambda each: (each[1], each[0]))
        )


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
