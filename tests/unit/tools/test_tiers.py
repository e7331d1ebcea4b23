"""The tiers of tests: which files the quick run leaves out, and which branches tests take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools import measured
from tools.tiers import ROOT, SLOW

TEST = """
from haulout.base.weekday import parse_time_of_day

def test_it():
    parse_time_of_day("12:30")
"""


def test_the_files_that_a_quick_run_leaves_out_are_there() -> None:
    files = SLOW.read_text().split()
    assert files == sorted(set(files))
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_the_branches_that_tests_take_are_counted_by_room(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(TEST)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "tools.measured", "-p", "no:cacheprovider", f"{tmp_path}"]
    env = {**os.environ, measured.FOLDER: str(tmp_path)}
    done = subprocess.run(argv, cwd=ROOT, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {
        line.split()[0]: line.split()[1:]
        for line in measured.table(tmp_path, measured.SOURCES / "base").splitlines()[1:]
    }
    assert rows["in"][1:] == rows["base"]
    assert 0 < int(rows["base"][0]) < int(rows["base"][1])
