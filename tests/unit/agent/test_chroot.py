"""Steps in a real chroot of hosts that lack things, and of hosts whose links lead to the machine outside."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.build.agent import AgentHost, furnish, step

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")


@pytest.fixture
def chroot(tmp_path: Path, tools: Path) -> AgentHost:
    host = AgentHost(tmp_path / "host", is_local=False)
    furnish(host.root, tools)
    return host


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory of the machine, beside the host's root, with programs that leave a trace."""
    made = tmp_path / "outside"
    made.mkdir()
    (made / "sh").write_text(f"#!/bin/sh\ntouch {made}/ran\n")
    (made / "sh").chmod(0o755)
    return made


def left(outside: Path) -> list[str]:
    return sorted(path.name for path in outside.rglob("*"))


def failure(host: AgentHost) -> tuple[int, str]:
    record = host.record
    return record["failedStep"]["exitCode"], record["failedStep"]["path"]


def test_a_step_runs_on_a_host_without_dev_proc_and_tmp(chroot: AgentHost) -> None:
    shutil.rmtree(chroot.root / "dev")
    chroot.applying(step("a.sh"))
    chroot.script("a.sh", "echo ran > /trace")
    assert chroot.run("apply").code == 0
    assert (chroot.root / "trace").read_text() == "ran\n"


def test_a_host_without_a_shell_fails_the_step_and_keeps_no_flag(chroot: AgentHost) -> None:
    (chroot.root / "bin/sh").unlink()
    chroot.applying(step("a.sh"))
    ended = chroot.run("apply")
    assert (ended.code, failure(chroot)) == (1, (127, "a.sh"))
    assert "Traceback" not in ended.out + ended.err
    assert not list(chroot.state.glob("flags/demo/1.0.0/*"))


@pytest.mark.parametrize("up", ["", "../" * 12], ids=["absolute", "climbing"])
def test_a_shell_that_is_a_link_out_of_the_host_is_not_found(chroot: AgentHost, outside: Path, up: str) -> None:
    (chroot.root / "bin/sh").unlink()
    (chroot.root / "bin/sh").symlink_to(up + str(outside / "sh")[bool(up) :])
    chroot.applying(step("a.sh"))
    assert chroot.run("apply").code == 1
    assert left(outside) == ["sh"]


@pytest.mark.parametrize("place", ["flags", "history", "interrupts", "locks", "."])
def test_links_that_a_step_plants_lead_no_state_out_of_the_host(chroot: AgentHost, outside: Path, place: str) -> None:
    """The link is absolute: within the chroot it leads nowhere, for the agent beside it to the machine."""
    for tool in ("rm", "ln", "mkdir", "mv"):
        chroot.tool(tool)
    folder = f"/{chroot.state.relative_to(chroot.root)}/{place}".removesuffix("/.")
    chroot.applying(step("plant.sh"), step("after.sh"))
    chroot.script("plant.sh", f"mv {folder} {folder}.away; ln -s {outside} {folder}; echo > /planted")
    ended = chroot.run("apply")
    assert (chroot.root / "planted").exists()
    assert "Traceback" not in ended.out + ended.err
    assert left(outside) == ["sh"]


def test_a_step_that_removes_the_package_fails_the_next_one_by_name(chroot: AgentHost) -> None:
    chroot.tool("rm")
    chroot.applying(step("gone.sh"), step("after.sh"))
    chroot.script("gone.sh", f"rm -rf {chroot.copy_dir}")
    ended = chroot.run("apply")
    assert ended.code == 1
    assert "Traceback" not in ended.out + ended.err
    assert "after.sh" in ended.out + ended.err


def test_no_descriptor_of_the_agent_reaches_a_step(chroot: AgentHost) -> None:
    """A directory of the machine that is open in a step would be a way out of the chroot."""
    chroot.applying(step("fds.sh"))
    probe = "for fd in 3 4 5 6 7 8 9; do if ( : <&$fd ) 2>/dev/null; then echo $fd; fi; done > /open"
    chroot.script("fds.sh", probe)
    assert chroot.run("apply").code == 0
    assert (chroot.root / "open").read_text() == ""
