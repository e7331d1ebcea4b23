"""The demo, as a person without a terminal sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.build.served import HAULOUT, PATIENCE
from tests.rig.wait import eventually


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


def test_it_says_first_what_it_starts_then_how_far_it_is(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom haulout.cli.root import main\nmain(['demo', '--nodes', '4'])\n"
        "sys.exit('haulout.embedded' in sys.modules or 'haulout.demo.show' in sys.modules)"
    )
    first = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=False, timeout=PATIENCE)
    text = "starting an embedded cluster with 4 nodes in 3 zones, and an operator on it ...\n"
    assert (first.returncode, first.stdout) == (0, text)
    argv = [str(HAULOUT), "demo", "--nodes", "4", "--once"]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True) as demo:
        assert demo.stdout is not None
        assert demo.stdout.readline() == text
        assert "0/4 done" in next(line for line in demo.stdout if " done  zone-a " in line)
        # It is not over: progress is printed when it is made.
        assert demo.poll() is None
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=PATIENCE)


def test_its_kubeconfig_gives_commands_the_settings_of_the_operator(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    kubeconfig = tmp_path / "kubeconfig"
    argv = [str(HAULOUT), "demo", "--nodes", "6", "--write-kubeconfig", str(kubeconfig)]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(argv, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True) as demo,
    ):

        def said(*words: str) -> str:
            env = {**os.environ, "KUBECONFIG": str(kubeconfig)}
            done = subprocess.run(
                [str(HAULOUT), *words], cwd=elsewhere, env=env, text=True, capture_output=True, check=False
            )
            return done.stdout

        try:
            eventually(
                lambda: "leader: " in said("status") and "NO OPERATOR" not in said("status"), "it leads", within=60
            )
            assert "settings: Deployment haulout-system/haulout" in said("explain", "zone-a-01")
            status = said("status")
            assert "surfaces: nodemaintenance, packages, profiles" in status
            assert "INCOMPLETE" not in status
            assert "settings: Deployment haulout-system/haulout" in said("plan", "--days", "1")
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait(PATIENCE)
