"""FIFOs, devices and directories where the agent keeps its state: each is refused at once, before a step runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build.agent import UID, AgentHost, encoded, ended, step

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make devices")
REBOOT = encoded({"type": "node_restart"})
MARKERS = f"interrupts/flags/sk-{UID}-1_demo_1.0.0"
PLACES = [
    ("flags/START", "apply"),
    ("flags/demo/1.0.0/a.sh_W11fWzBd", "apply"),
    ("locks/demo.lock", "apply"),
    ("locks/demo.running", "apply"),
    ("history/demo.json", "upgrade"),
    ("flags/check_results", "apply-check"),
    ("flags/apply-check_ALL_CHECKED", "apply-check"),
    ("history/demo.json", "apply-check"),
    (f"{MARKERS}/node_restart_0.pending", "interrupt"),
    (f"{MARKERS}/node_restart_0.complete", "interrupt"),
]


def make_device(path: Path) -> None:
    os.mknod(path, 0o020600, os.makedev(1, 5))  # /dev/zero: reading it would never end


KINDS = [
    pytest.param(os.mkfifo, id="fifo"),
    pytest.param(make_device, id="device", marks=needs_root),
    pytest.param(Path.mkdir, id="directory"),
]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(("place", "mode"), PLACES)
def test_a_special_file_in_the_place_of_state_is_refused(
    local: AgentHost, place: str, mode: str, make: Callable[[Path], None]
) -> None:
    local.tracing("a.sh", "up.sh")
    local.config(
        apply=[step("a.sh")],
        apply_check=[step("ok_check.sh")],
        upgrade=[step("up.sh")],
        upgrade_check=[step("ok_check.sh")],
    )
    (local.state / place).parent.mkdir(parents=True, exist_ok=True)
    make(local.state / place)
    kind = (local.state / place).stat().st_mode & 0o170000
    done = ended(
        local.start(mode, str(local.root), local.copy_dir, *([REBOOT] if mode == "interrupt" else [])), limit=30
    )
    assert done.code == 1
    assert done.err.splitlines()[-1].endswith(f"/var/lib/skyhook/sk/{place}: it is not a regular file")
    assert (local.trace, local.commands) == ([], [])
    assert (local.state / place).stat().st_mode & 0o170000 == kind


def test_a_fifo_in_the_place_of_the_boot_id_is_passed_over(local: AgentHost) -> None:
    (local.root / "boot_id").unlink()
    os.mkfifo(local.root / "boot_id")
    done = ended(local.start("interrupt", str(local.root), local.copy_dir, REBOOT), limit=30)
    assert done.code == 1
    assert "cannot read the host's boot id" in done.err
    assert local.commands == []


def test_a_fifo_in_the_package_of_the_image_is_refused(local: AgentHost, tmp_path: Path) -> None:
    local.applying(step("a.sh"))
    local.package.rename(tmp_path / "data")
    os.mkfifo(tmp_path / "data/pipe")
    process = local.start("apply", str(local.root), local.copy_dir, env={"SKYHOOK_DATA_DIR": str(tmp_path / "data")})
    done = ended(process, limit=30)
    assert (done.code, done.err.splitlines()[-1].endswith(": it is not a regular file")) == (1, True)


def test_a_step_that_replaces_its_reservation_is_recorded(host: AgentHost) -> None:
    running = host.inside / host.state.relative_to(host.root) / "locks/demo.running"
    host.script("a.sh", f"echo a >> {host.inside}/trace; rm {running}; mkfifo {running}")
    for tool in ("rm", "mkfifo"):
        host.tool(tool)
    host.applying(step("a.sh"))
    done = ended(host.start("apply", str(host.root), host.copy_dir), limit=30)
    assert (done.code, host.flags) == (0, ["a.sh_W11fWzBd"])
    assert host.run("apply").code == 0
    assert host.trace == ["a"]


def test_a_history_that_is_too_large_is_moved_away(local: AgentHost) -> None:
    local.applying(step("a.sh"))
    history = local.state / "history/demo.json"
    history.parent.mkdir(parents=True)
    history.touch()
    os.truncate(history, 1 << 40)
    assert local.run("apply-check").code == 0
    assert history.with_name("demo.json.backup").stat().st_size == 1 << 40
