"""The agent, killed at every single system call that writes: the next run ends as if nothing had happened."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import haulout.agent
from tests.build.agent_kills import SCENARIOS, WRITES

# Functions of `os` that the agent uses and that change nothing on the host.
READS = frozenset(
    [
        "chdir",
        "chroot",
        "close",
        "dup2",
        "environ",
        "execve",
        "fchdir",
        "fork",
        "fsdecode",
        "fsencode",
        "fspath",
        "fstat",
        "getenv",
        "geteuid",
        "getpid",
        "getxattr",
        "kill",
        "killpg",
        "listdir",
        "path",
        "pipe",
        "pread",
        "read",
        "readlink",
        "scandir",
        "set_blocking",
        "setsid",
        "stat",
        "stat_result",
        "strerror",
        "umask",
        "waitid",
        "waitpid",
        "waitstatus_to_exitcode",
        "walk",
        "_exit",
        "DirEntry",
    ]
)


def drive(scenario: str, folder: Path, *error: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    argv = [sys.executable, "-m", "tests.build.agent_kills", scenario, str(folder), *error]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    first, *rest = map(json.loads, done.stdout.splitlines())
    return first, rest


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory if possible, because the agent waits for the disk hundreds of times."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path) as made:
        yield Path(made)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_run_that_is_killed_anywhere_is_made_good_by_the_next(scenario: str, folder: Path) -> None:
    undisturbed, kills = drive(scenario, folder)
    assert undisturbed["leftovers"] == []
    assert len(kills) == undisturbed["count"] > 5
    for kill in kills:
        assert kill["killed"] == -9, kill
        assert kill["codes"][-1] == 0, kill
        assert kill["differing"] == {}, kill
        assert kill["leftovers"] == [], kill
        for kind in (0, 1):
            before, after = kill["before"][kind], kill["after"][kind]
            wanted = undisturbed[("trace", "commands")[kind]]
            assert set(after) == set(wanted), kill
            # What ran again had run, but the agent was killed before it could mark it; a reboot has its boot id.
            repeated = [name for name in set(after) if after.count(name) > 1]
            assert all(after.count(name) == 2 and name == before[-1] for name in repeated), kill
            assert not [name for name in repeated if name in kill["done"] or name.startswith("reboot")], kill
            # Commands of interrupts are repeated silently: restarting a service twice does no harm.
            assert kill["warned"] or kind == 1 or not repeated, kill


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if "reboot" not in name])
def test_a_write_that_fails_is_reported_and_made_good_by_the_next_run(scenario: str, folder: Path) -> None:
    """One write fails at a time, as on a full disk. The agent may fail or do without it, and says so in one line."""
    undisturbed, faults = drive(scenario, folder, "ENOSPC")
    assert len(faults) == undisturbed["count"]
    for fault in faults:
        assert fault["killed"] in (0, 1), fault
        assert "unexpected" not in fault["errors"], fault
        assert "No space left on device" in fault["errors"] or not fault["killed"], fault
        assert fault["codes"][-1] == 0, fault
        # A check that could not start has failed, and the directory of its results stays.
        assert [path for path in fault["differing"] if not path.endswith(("/flags/demo", "/flags/demo/1.0.0"))] == []
        assert fault["leftovers"] == [], fault
        repeated = [name for name in set(fault["after"][0]) if fault["after"][0].count(name) > 1]
        assert fault["warned"] or not repeated, fault
        assert not [name for name in repeated if name in fault["done"]], fault


def test_every_function_that_writes_is_interposed() -> None:
    """Modules are read, not run: whatever of `os` they name must be known to write or not to write."""
    unknown: set[str] = set()
    for module in Path(haulout.agent.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
                is_constant = node.attr.isupper() or node.attr.startswith(("O_", "P_", "W"))
                if not is_constant and node.attr not in {*WRITES, *READS}:
                    unknown.add(f"{module.name}: os.{node.attr}")
    assert unknown == set()
