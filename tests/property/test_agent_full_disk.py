"""A host whose only file system is full, or becomes full at any write of a run: nothing is lost and nothing runs twice."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.build.agent import AgentHost, encoded, step, userland

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
PAGE = 4096
MOST = 200  # far more pages or files than a run needs
SERVICES = encoded({"type": "service_restart", "services": ["a", "b"]})
Keep = Callable[[Path, int], None]


def keep_pages(root: Path, count: int) -> None:
    """Fill a file system except for some pages."""
    with (root / "ballast").open("ab", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(b"x" * PAGE)
        file.truncate(max(0, file.seek(0, os.SEEK_END) // PAGE - count) * PAGE)


def keep_names(root: Path, count: int) -> None:
    """Use up what a file system has for new files and directories, except for some."""
    folder = root / "names"
    folder.mkdir()
    made = 0
    with contextlib.suppress(OSError):
        while True:
            (folder / str(made)).touch()
            made += 1
    for number in range(made - count, made):
        (folder / str(number)).unlink()


def free(root: Path) -> None:
    (root / "ballast").unlink(missing_ok=True)
    shutil.rmtree(root / "names", ignore_errors=True)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return userland(tmp_path_factory.mktemp("userland"))


@pytest.fixture(params=["local", "chroot"])
def make(request: pytest.FixtureRequest, tmp_path: Path, tools: Path) -> Iterator[Callable[[], AgentHost]]:
    """A function that makes hosts on one small file system, each after the one before it is removed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m,nr_inodes=700", "tmpfs", disk], check=True)

    def fresh() -> AgentHost:
        shutil.rmtree(disk / "root", ignore_errors=True)
        host = AgentHost(disk / "root", is_local=request.param == "local")
        host.env["SKYHOOK_AGENT_TERMINATION_LOG"] = str(tmp_path / "record")
        if not host.is_local:
            shutil.copytree(tools, host.root, dirs_exist_ok=True)
            (host.root / "dev").mkdir()
            os.mknod(host.root / "dev/null", 0o020666, os.makedev(1, 3))
        # These files have a page each, to which steps and commands may append when there is no other left.
        for name in ("trace", "commands"):
            (host.root / name).write_text("\n")
        host.tracing("a.sh", "b.sh")
        host.applying(step("a.sh"), step("b.sh"))
        for name in ("etc/new/file", "etc/changed"):
            file = host.package / "root_dir" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("after" * PAGE)
        (host.root / "etc/changed").write_text("before")
        return host

    try:
        yield fresh
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def until_it_fits(make: Callable[[], AgentHost], keep: Keep, work: Callable[[AgentHost, bool], int]) -> None:
    """Run with no room at all, then with a little more each time, until the first run succeeds."""
    for count in range(MOST):
        host = make()
        keep(host.root, count)
        code = work(host, False)
        free(host.root)
        assert work(host, True) == 0, count
        assert [path for path in host.tree() if ".haulout" in path or path.endswith((".running", ".step"))] == []
        if code == 0:
            break
    assert 2 < count < MOST - 1


def checked(host: AgentHost, is_free: bool, *words: str) -> int:
    done = host.run(*words)
    assert done.code in (0, 1)
    assert "unexpected" not in done.err
    if done.code:
        assert not is_free, done.err
        assert done.err.splitlines()[-1].startswith("cannot ")
        assert done.err.splitlines()[-1].endswith(": No space left on device")
    return done.code


@pytest.mark.parametrize("keep", [keep_pages, keep_names])
def test_steps_run_once_however_little_room_there_is(make: Callable[[], AgentHost], keep: Keep) -> None:
    def work(host: AgentHost, is_free: bool) -> int:
        code = checked(host, is_free, "apply")
        assert (host.root / "etc/changed").read_text() in ("before", "after" * PAGE)
        new = host.root / "etc/new/file"
        assert not new.exists() or new.read_text() == "after" * PAGE
        assert len(host.flags) == len(host.trace), "each step that has run is recorded"
        if code == 0:
            assert host.trace == ["a.sh", "b.sh"]
        return code

    until_it_fits(make, keep, work)


@pytest.mark.parametrize("keep", [keep_pages, keep_names])
def test_checks_are_repeated_until_there_is_room(make: Callable[[], AgentHost], keep: Keep) -> None:
    def work(host: AgentHost, is_free: bool) -> int:
        code = checked(host, is_free, "apply-check")
        assert (host.state / "history/demo.json").exists() == (code == 0)
        return code

    until_it_fits(make, keep, work)


@pytest.mark.parametrize("keep", [keep_pages, keep_names])
def test_commands_of_an_interrupt_run_once_however_little_room_there_is(
    make: Callable[[], AgentHost], keep: Keep
) -> None:
    def work(host: AgentHost, is_free: bool) -> int:
        code = checked(host, is_free, "interrupt", SERVICES)
        commands = ["systemctl daemon-reload", "systemctl restart a", "systemctl restart b"]
        ran = [line for line in host.commands if line]
        assert ran == commands[: len(ran)]
        assert len([name for name in host.markers if name.endswith(".complete")]) == len(ran)
        return code

    until_it_fits(make, keep, work)
