"""The demo, as a person without a terminal sees it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.build.served import HAULOUT, PATIENCE


def test_both_acts_come_to_their_ends_and_are_summed_up(tmp_path: Path) -> None:
    argv = [str(HAULOUT), "demo", "--once", "--nodes", "8", "--zones", "2", "--svg", str(tmp_path / "demo.svg")]
    done = subprocess.run(argv, cwd=tmp_path, text=True, capture_output=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    image, package = done.stdout.splitlines()[-2:]
    assert image.startswith("8 of 8 nodes have the new image after ")
    assert package.startswith(
        "package kernel 1.1.0: wave 2 failed its gate: 1 of its 2 nodes are erroring, and at most 10 % may be; "
        "8 nodes had it, and 8 of 8 have 1.0.0 again after "
    )
    assert "kernel&#160;1." in (tmp_path / "demo.svg").read_text()
