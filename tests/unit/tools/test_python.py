"""The Makefile's virtual environment is made with a Python that was built with optimizations, where there is one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
# Stands for a Python. Its exit codes answer the questions of the script: new enough, optimized, able to make environments.
PYTHON = """#!/bin/sh
case "$2" in *version_info*) exit {}; esac
case "$2" in *optimizations*) exit {}; esac
exit {}
"""


def chosen(folder: Path, new: int, optimized: int, able: int) -> str:
    """Return what the script prints where `python3` answers with these exit codes."""
    program = folder / "python3"
    program.write_text(PYTHON.format(new, optimized, able))
    program.chmod(0o755)
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    script = ROOT / "tools" / "python.sh"
    return subprocess.run(["/bin/sh", script], env=path, capture_output=True, text=True, check=True).stdout.strip()


def test_an_optimized_python_is_taken(tmp_path: Path) -> None:
    assert chosen(tmp_path, 0, 0, 0) == "python3"


def test_a_slow_build_is_taken_only_if_the_distribution_has_no_better_one(tmp_path: Path) -> None:
    of_the_distribution = chosen(tmp_path, 1, 0, 0)
    assert chosen(tmp_path, 0, 1, 0) == of_the_distribution
    assert of_the_distribution in {"/usr/bin/python3", "python3"}
