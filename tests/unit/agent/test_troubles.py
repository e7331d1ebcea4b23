"""Hosts and steps with faults: each is reported in one line, and leaves the host as it was or as it should be."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from haulout.agent import shell
from haulout.agent.arguments import Arguments
from haulout.agent.run import run
from haulout.agent.signals import Termination
from tests.build.agent import AgentHost, encoded, ended, step

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> None:
    """Take all room that a file system has left."""
    with contextlib.suppress(OSError), (folder / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


@needs_root
def test_a_full_disk_stops_a_step_before_it_runs(local: AgentHost) -> None:
    local.tracing("a.sh")
    local.applying(step("a.sh"))
    local.env["SKYHOOK_ROOT_DIR"] = "/full/sk"
    with mounted(local.root / "full", "-o", "size=64k"):
        for folder in ("sk/locks", "sk/flags/demo/1.0.0"):
            (local.root / "full" / folder).mkdir(parents=True)
        (local.root / "full/sk/flags/START").touch()
        (local.root / "full/sk/locks/demo.lock").touch()
        fill(local.root / "full")
        done = local.run("apply")
        assert done.code == 1
        assert done.err.splitlines()[-1] == "cannot make room for a flag in /full/sk/locks: No space left on device"
        assert local.trace == []
        (local.root / "full/ballast").unlink()
        assert local.run("apply").code == 0
        assert local.trace == ["a.sh"]


@needs_root
def test_a_disk_that_fills_during_a_step_does_not_cost_its_flag(local: AgentHost) -> None:
    """The step takes all room that is left; its flag has its place already."""
    local.script("a.sh", f"echo a >> {local.root}/trace; cat /dev/zero > {local.root}/full/ballast; true")
    local.applying(step("a.sh"))
    local.env["SKYHOOK_ROOT_DIR"] = "/full/sk"
    with mounted(local.root / "full", "-o", "size=128k"):
        assert local.run("apply").code == 0
        assert local.run("apply").code == 0
    assert local.trace == ["a"]


@needs_root
def test_a_full_log_disk_does_not_stop_a_step(local: AgentHost) -> None:
    local.script("a.sh", f"head -c 300000 /dev/zero; echo a >> {local.root}/trace")
    local.applying(step("a.sh"))
    local.env["SKYHOOK_LOG_DIR"] = "/full"
    with mounted(local.root / "full", "-o", "size=64k"):
        done = local.run("apply")
    assert done.code == 0
    assert done.err.count("WARNING: cannot write demo/1.0.0/a.sh-") == 1
    assert "No space left on device; the log ends here" in done.err
    assert local.trace == ["a"]


@needs_root
@pytest.mark.parametrize("what", ["state", "log", "overlay"])
def test_a_read_only_file_system_is_named(local: AgentHost, what: str) -> None:
    local.tracing("a.sh")
    local.applying(step("a.sh"))
    local.env |= {"state": {"SKYHOOK_ROOT_DIR": "/ro/sk"}, "log": {"SKYHOOK_LOG_DIR": "/ro/log"}}.get(what, {})
    if what == "overlay":
        (local.package / "root_dir/ro").mkdir(parents=True)
        (local.package / "root_dir/ro/f").write_text("x")
    with mounted(local.root / "ro", "-o", "ro"):
        done = local.run("apply")
    assert done.code == 1
    last = done.err.splitlines()[-1]
    assert last.startswith("cannot ")
    assert last.endswith(": Read-only file system")
    assert local.trace == []


def test_a_root_that_is_not_there_is_named(local: AgentHost) -> None:
    done = local.agent("apply", f"{local.root}/nothing", local.copy_dir)
    assert (done.code, done.err) == (1, f"cannot open the host root {local.root}/nothing: No such file or directory\n")


def test_a_package_that_is_nowhere_is_named(local: AgentHost, tmp_path: Path) -> None:
    (local.package / "skyhook_dir").rmdir()
    local.package.rmdir()
    done = local.run("apply", env={"SKYHOOK_DATA_DIR": str(tmp_path / "none")})
    assert done.code == 1
    assert done.err.splitlines()[-1] == f"cannot copy {tmp_path}/none to {local.copy_dir}: No such file or directory"


def test_a_missing_config_is_named(local: AgentHost) -> None:
    done = local.run("apply")
    assert (done.code, done.err) == (1, f"cannot read {local.copy_dir}/config.json: No such file or directory\n")


@pytest.mark.parametrize("path", ["var/lib/skyhook/sk/flags", "var/lib/skyhook/sk/locks", "var/log/skyhook"])
def test_a_file_in_the_place_of_a_directory_is_named(local: AgentHost, path: str) -> None:
    local.tracing("a.sh")
    local.applying(step("a.sh"))
    (local.root / path).parent.mkdir(parents=True, exist_ok=True)
    (local.root / path).write_text("x")
    done = local.run("apply")
    assert done.code == 1
    assert done.err.splitlines()[-1].endswith(": Not a directory")
    assert local.trace == []


def test_a_dangling_link_in_the_place_of_a_directory_is_named(local: AgentHost) -> None:
    local.applying(step("a.sh"))
    (local.root / "var/log").symlink_to("/nowhere")
    done = local.run("apply")
    assert done.code == 1
    assert done.err.splitlines()[-1].endswith(": No such file or directory")
    assert not (local.root / "nowhere").exists()


def test_a_gigabyte_of_output_needs_no_memory(local: AgentHost) -> None:
    """The step counts its parent's peak after the flood."""
    peak = f"while read -r n s _; do [ $n = VmHWM: ] && echo $s; done < /proc/$PPID/status > {local.root}/trace"
    local.script("a.sh", f"head -c 1000000000 /dev/zero; {peak}; true")
    local.applying(step("a.sh"))
    env = {**local.env, "SKYHOOK_AGENT_WRITE_LOGS": "false", "SKYHOOK_AGENT_BUFFER_LIMIT": "65536"}
    process = subprocess.Popen(
        [sys.executable, "-m", "haulout.agent", "apply", str(local.root), local.copy_dir],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert 0 < int(local.trace[0]) < 20 * 1024


def test_a_step_may_change_its_own_script(host: AgentHost) -> None:
    file = host.package / "skyhook_dir/a.sh"
    inside = file if host.is_local else Path("/") / file.relative_to(host.root)
    host.script("a.sh", f"echo first >> {host.inside}/trace\necho '#!/bin/sh\nexit 7' > {inside}\nexit 0")
    host.applying(step("a.sh"))
    assert host.run("apply").code == 0
    assert host.trace == ["first"]
    assert host.flags == ["a.sh_W11fWzBd"]
    assert host.run("apply", env={"OVERLAY_ALWAYS_RUN_STEP": "true"}).code == 1


def test_a_step_that_forks_leaves_the_agent_alone(host: AgentHost) -> None:
    host.script("a.sh", "for i in 1 2 3 4 5 6 7 8; do (echo $i) & done; wait")
    host.applying(step("a.sh"))
    done = host.run("apply")
    assert done.code == 0
    assert sum(line.startswith("[out]") for line in done.lines) == 9


def test_a_step_that_kills_the_agent_runs_again(host: AgentHost) -> None:
    host.script("a.sh", f"echo a >> {host.inside}/trace; [ -e {host.inside}/spare ] || kill -9 $PPID")
    host.applying(step("a.sh"))
    assert host.run("apply").code == -signal.SIGKILL
    assert host.flags == []
    (host.root / "spare").touch()
    done = host.run("apply")
    assert done.code == 0
    assert "WARNING: an earlier run ended during the step of flags/demo/1.0.0/a.sh_W11fWzBd" in done.err
    assert host.trace == ["a", "a"]
    assert host.flags == ["a.sh_W11fWzBd"]


def test_a_step_that_terminates_the_agent_is_the_last_one(host: AgentHost) -> None:
    host.tracing("b.sh")
    host.script("a.sh", "kill -15 $PPID; sleep 0.2")
    host.applying(step("a.sh"), step("b.sh"))
    done = host.run("apply")
    assert done.code == 1
    assert done.err == (
        "WARNING:root: a_check.sh doesn't exist. Checks ensure that all tasks in the step will complete.\n"
        "WARNING:root: b_check.sh doesn't exist. Checks ensure that all tasks in the step will complete.\n"
        "Received SIGTERM, finishing the current step\n"
    )
    assert (host.trace, host.flags) == ([], ["a.sh_W11fWzBd"])


def test_a_reader_that_goes_away_does_not_stop_a_step(host: AgentHost) -> None:
    host.script("a.sh", f"until [ -e {host.inside}/go ]; do sleep 0.01; done; echo lost; echo a >> {host.inside}/trace")
    host.applying(step("a.sh"))
    process = host.start("apply", str(host.root), host.copy_dir)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    (host.root / "go").touch()
    assert ended(process).code == 0
    assert host.trace == ["a"]
    (log,) = host.logs.glob("a.sh-*.log")
    assert "lost" in log.read_text()


@pytest.mark.parametrize("argument", ["a\0b", "\ud800"])
def test_an_argument_that_no_program_can_get_fails_the_step(host: AgentHost, argument: str) -> None:
    host.tracing("a.sh")
    host.applying(step("a.sh", argument))
    done = host.run("apply")
    assert done.code == 1
    assert "cannot start a.sh: an argument or variable cannot be passed to a program" in done.err
    assert host.trace == []


def test_a_variable_that_no_program_can_get_fails_the_step(host: AgentHost) -> None:
    host.tracing("a.sh")
    host.applying(step("a.sh", env={"A=B": "x"}))
    done = host.run("apply")
    assert done.code == 1
    assert "cannot start a.sh: its arguments or variables are not valid" in done.err
    assert host.trace == []


def test_a_lock_that_is_not_released_is_named(
    local: AgentHost, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In this process, with a patience of nothing: a minute is too long for a test."""
    local.tracing("a.sh")
    local.applying(step("a.sh"))
    monkeypatch.setattr(shell, "LOCK_WAIT", 0.0)
    lock = local.state / "locks/demo.lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        code = run(Arguments("apply", str(local.root), local.copy_dir), local.env, Termination())
    assert code == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert last == "another agent is at work: it has held /var/lib/skyhook/sk/locks/demo.lock for 0 s"
    assert local.trace == []


def block_old_logs(folder: Path, stem: str) -> None:
    """Put directories in the place of old logs, which cannot be removed as files are."""
    for second in range(7):
        (folder / f"{stem}-2020-01-01-00000{second}.log").mkdir(parents=True)


def test_old_logs_that_cannot_be_removed_do_not_make_a_finished_step_run_again(host: AgentHost) -> None:
    host.tracing("a.sh")
    host.applying(step("a.sh"))
    block_old_logs(host.logs, "a.sh")
    done = host.run("apply")
    assert (done.code, host.flags) == (0, ["a.sh_W11fWzBd"])
    assert done.err.splitlines()[-1] == "WARNING: cannot remove old logs: Is a directory"
    assert host.run("apply").code == 0
    assert host.trace == ["a.sh"]


def test_a_step_that_ruins_the_log_directory_is_recorded(host: AgentHost) -> None:
    folder = host.inside / host.logs.relative_to(host.root)
    host.script("a.sh", f"echo a.sh >> {host.inside}/trace; rm -rf {folder}; : > {folder}")
    host.applying(step("a.sh"))
    host.tool("rm")
    done = host.run("apply")
    assert (done.code, host.flags) == (0, ["a.sh_W11fWzBd"])
    assert done.err.splitlines()[-1] == "WARNING: cannot remove old logs: Not a directory"
    assert host.trace == ["a.sh"]


def test_old_logs_that_cannot_be_removed_do_not_repeat_an_interrupt(local: AgentHost) -> None:
    block_old_logs(local.logs / "interrupts", "service_restart_0")
    payload = {"type": "service_restart", "services": ["a"]}
    assert local.interrupt(payload).code == 0
    assert local.interrupt(payload).code == 0
    assert local.commands == ["systemctl daemon-reload", "systemctl restart a"]


@pytest.fixture
def orphaned(host: AgentHost) -> Iterator[AgentHost]:
    """A host on which the agent was killed during a step. The step goes on until the file `go` exists."""
    wait = f"until [ -e {host.inside}/go ]; do sleep 0.01; done"
    host.script("a.sh", f"echo begin >> {host.inside}/trace; {wait}; echo end >> {host.inside}/trace")
    host.applying(step("a.sh"))
    process = host.start("apply", str(host.root), host.copy_dir)
    while host.trace != ["begin"]:
        os.sched_yield()
    process.kill()
    process.wait()
    yield host
    (host.root / "go").touch()
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def test_the_step_of_a_killed_agent_does_not_run_beside_its_repetition(orphaned: AgentHost) -> None:
    again = orphaned.start("apply", str(orphaned.root), orphaned.copy_dir)
    assert again.stderr is not None
    line = next(line for line in again.stderr if "killed agent" in line)
    assert re.fullmatch(
        # By number, and numbers begin again at 1: what the step started may come first. It is named as the step until it is replaced.
        r"WARNING: a step of a killed agent still runs: process \d+ \((a\.sh|sleep)\)(, process \d+ \((a\.sh|sleep)\))*"
        r" has held /var/lib/skyhook/sk/locks/[0-9a-f]{8}\.step; waiting up to 60 s\n",
        line,
    )
    assert orphaned.trace == ["begin"]
    (orphaned.root / "go").touch()
    done = ended(again)
    assert (done.code, orphaned.trace) == (0, ["begin", "end", "begin", "end"])
    assert "WARNING: an earlier run ended during the step of flags/demo/1.0.0/a.sh_W11fWzBd" in done.err
    assert list(orphaned.state.glob("locks/*.step")) == []


def test_the_step_of_a_killed_agent_that_does_not_end_is_named(
    orphaned: AgentHost, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In this process, with a patience of nothing: a minute is too long for a test."""
    monkeypatch.setattr(shell, "LOCK_WAIT", 0.0)
    assert run(Arguments("apply", str(orphaned.root), orphaned.copy_dir), orphaned.env, Termination()) == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("a step of a killed agent still runs: process ")
    assert last.endswith(".step for 0 s")
    assert orphaned.trace == ["begin"]


def test_a_killed_interrupt_does_not_run_beside_its_repetition(host: AgentHost) -> None:
    host.fake("systemctl", f"until [ -e {host.inside}/go ]; do sleep 0.01; done; echo end >> {host.inside}/commands")
    words = ("interrupt", str(host.root), host.copy_dir, encoded({"type": "service_restart", "services": ["a"]}))
    with host.start(*words) as process:
        while not host.commands:
            os.sched_yield()
        process.kill()
    again = host.start(*words)
    assert again.stderr is not None
    assert "a step of a killed agent still runs" in next(iter(again.stderr))
    (host.root / "go").touch()
    assert ended(again).code == 0
    reload = ["systemctl daemon-reload", "end"]
    assert host.commands == [*reload, *reload, "systemctl restart a", "end"]


def test_a_daemon_that_a_step_leaves_does_not_hold_up_the_next_run(host: AgentHost) -> None:
    """It has inherited the lock, which the agent releases for it at the end of the step."""
    host.script("a.sh", "sleep 300 > /dev/null 2>&1 & echo $! > $SKYHOOK_DIR/pid")
    host.applying(step("a.sh", idempotence=True))
    ends, pids = [], []
    for _ in range(2):
        ends.append(host.run("apply"))
        pids.append(int((host.package / "pid").read_text()))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert [(done.code, "still runs" in done.err) for done in ends] == [(0, False), (0, False)]
