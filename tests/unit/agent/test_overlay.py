"""The overlay of root_dir, and links and files that must not lead the agent to other places."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.build.agent import AgentHost, step


def deliver(host: AgentHost, path: str, text: str = "new", mode: int = 0o640) -> Path:
    file = host.package / "root_dir" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    host.applying(step("a.sh"))
    return host.root / path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_get_content_and_mode_and_directories_are_left_alone(host: AgentHost) -> None:
    target = deliver(host, "etc/demo/deep/f")
    (host.package / "root_dir").chmod(0o700)
    (host.package / "root_dir/etc").chmod(0o700)
    (host.package / "root_dir/etc/demo").chmod(0o2751)
    (host.root / "etc").chmod(0o1777)
    before = [mode(host.root), mode(host.root / "etc")]
    assert host.run("apply").code == 0
    assert (target.read_text(), mode(target)) == ("new", 0o640)
    assert [mode(host.root), mode(host.root / "etc")] == before
    assert mode(host.root / "etc/demo") & 0o777 == 0o751


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_an_existing_file_keeps_its_owner(host: AgentHost) -> None:
    target = deliver(host, "etc/f")
    target.write_text("old")
    os.chown(target, 12, 34)
    assert host.run("apply").code == 0
    found = target.stat()
    assert (found.st_uid, found.st_gid, target.read_text(), mode(target)) == (12, 34, "new", 0o640)


def test_a_file_that_is_as_it_should_be_is_not_touched(host: AgentHost) -> None:
    target = deliver(host, "etc/f")
    assert host.run("apply").code == 0
    inode = target.stat().st_ino
    assert host.run("apply").code == 0
    assert target.stat().st_ino == inode
    target.write_text("NEW")  # of the same size
    assert host.run("apply").code == 0
    assert target.read_text() == "new"


@pytest.mark.parametrize(("setting", "wanted"), [("always", "new"), ("action-only", "edited")])
def test_checks_copy_again_unless_told_otherwise(host: AgentHost, setting: str, wanted: str) -> None:
    target = deliver(host, "etc/f")
    assert host.run("apply").code == 0
    target.write_text("edited")
    assert host.run("apply-check", env={"SKYHOOK_AGENT_OVERLAY": setting}).code == 0
    assert target.read_text() == wanted


def test_uninstall_copies_nothing(host: AgentHost) -> None:
    target = deliver(host, "etc/f")
    host.config(uninstall=[step("u.sh")], uninstall_check=[step("u.sh")], files=("missing",))
    assert host.run("uninstall").code == host.run("uninstall-check").code == 0
    assert not target.exists()


def test_links_on_the_host_are_resolved_as_the_host_would(host: AgentHost) -> None:
    deliver(host, "etc/absolute/f")
    deliver(host, "etc/relative")
    (host.root / "data").mkdir()
    (host.root / "data/file").write_text("old")
    (host.root / "etc/absolute").symlink_to("/data")
    (host.root / "etc/relative").symlink_to("../data/file")
    assert host.run("apply").code == 0
    assert (host.root / "data/f").read_text() == (host.root / "data/file").read_text() == "new"
    assert (host.root / "etc/absolute").is_symlink()
    assert (host.root / "etc/relative").is_symlink()


def test_a_link_to_a_file_that_is_to_come_is_followed(host: AgentHost) -> None:
    deliver(host, "etc/f")
    (host.root / "etc/f").symlink_to("/etc/g")
    assert host.run("apply").code == 0
    assert (host.root / "etc/g").read_text() == "new"
    assert (host.root / "etc/f").is_symlink()


UP = "../" * 40


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("etc/out", UP + "{outside}"),
        ("etc/out", "{outside}"),
        ("etc/out/f", UP + "{outside}/f"),
        ("etc/out/f", "{outside}/f"),
        ("etc/out", "out"),
    ],
    ids=["climbing directory", "absolute directory", "climbing file", "absolute file", "loop"],
)
def test_a_path_that_leaves_the_root_is_refused(host: AgentHost, tmp_path: Path, link: str, target: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("old")
    deliver(host, "etc/out/f")
    (host.root / link).parent.mkdir(exist_ok=True)
    (host.root / link).symlink_to(target.format(outside=str(outside).lstrip("/") if UP in target else outside))
    done = host.run("apply")
    assert done.code == 1
    assert "cannot copy root_dir/etc/out" in done.err
    assert [path.name for path in outside.iterdir()] == ["f"]
    assert (outside / "f").read_text() == "old"


@pytest.mark.parametrize(
    ("name", "target", "words"),
    [
        ("dangling", "nothing", "root_dir/etc/dangling is a dangling link"),
        ("outside", "/etc/passwd", "root_dir/etc/outside is a link that leaves root_dir"),
        ("climbing", UP + "etc/passwd", "root_dir/etc/climbing is a link that leaves root_dir"),
        ("package", "../../config.json", "root_dir/etc/package is a link that leaves root_dir"),
        ("cycle", "../etc", "root_dir/etc/cycle is a link to a directory that contains it"),
    ],
)
def test_a_bad_link_in_the_package_changes_nothing(host: AgentHost, name: str, target: str, words: str) -> None:
    file = deliver(host, "etc/a-first")
    (host.root / "etc/passwd").write_text("root")
    (host.package / "root_dir/etc" / name).symlink_to(target)
    done = host.run("apply")
    assert (done.code, done.err.splitlines()[-1]) == (1, words)
    assert not file.exists()


def test_links_within_the_package_are_copied_as_their_content(host: AgentHost) -> None:
    deliver(host, "etc/real/f")
    (host.package / "root_dir/etc/file").symlink_to("real/f")
    (host.package / "root_dir/etc/folder").symlink_to("real")
    assert host.run("apply").code == 0
    for path in ("etc/file", "etc/folder/f"):
        assert (host.root / path).read_text() == "new"
        assert not (host.root / path).is_symlink()


@pytest.mark.parametrize("name", ["proc", "sys", "dev"])
def test_kernel_file_systems_are_refused(host: AgentHost, name: str) -> None:
    file = deliver(host, "etc/f")
    deliver(host, f"{name}/x")
    done = host.run("apply")
    assert done.code == 1
    assert f"root_dir must not contain {name}" in done.err
    assert not file.exists()


def test_a_fifo_in_the_package_is_refused(host: AgentHost) -> None:
    deliver(host, "etc/f")
    os.mkfifo(host.package / "root_dir/etc/pipe")
    done = host.run("apply")
    assert done.code == 1
    assert "root_dir/etc/pipe is neither a file nor a directory" in done.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_of_the_host_is_never_replaced(local: AgentHost) -> None:
    """A unit is masked by a link to /dev/null: a package that delivers the unit must not replace /dev/null."""
    deliver(local, "etc/masked.service")
    (local.root / "dev").mkdir()
    os.mknod(local.root / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    (local.root / "etc/masked.service").symlink_to("/dev/null")
    done = local.run("apply")
    assert done.code == 1
    assert "/dev/null is not a regular file there" in done.err
    assert stat.S_ISCHR((local.root / "dev/null").stat().st_mode)


@pytest.mark.parametrize(
    ("here", "there", "words"),
    [
        ("etc/x/f", "etc/x", "cannot copy root_dir/etc/x to the host: Not a directory"),
        ("etc/x", "etc/x/", "cannot copy root_dir/etc/x to the host: Is a directory"),
    ],
    ids=["file in the place of a directory", "directory in the place of a file"],
)
def test_what_stands_in_the_way_is_named(host: AgentHost, here: str, there: str, words: str) -> None:
    deliver(host, here)
    path = host.root / there
    path.mkdir() if there.endswith("/") else path.write_text("x")
    done = host.run("apply")
    assert (done.code, done.err.splitlines()[-1]) == (1, words)
    assert host.record["error"] == words


STATE = "var/lib/skyhook/sk"


@pytest.mark.parametrize(
    "path",
    [
        f"{STATE}/flags/START",
        f"{STATE}/flags/demo/1.0.0/a.sh_W11fWzBd",
        f"{STATE}/flags/check_results",
        f"{STATE}/history/demo.json",
        f"{STATE}/locks/demo.running",
    ],
)
def test_a_planted_link_is_replaced_and_not_followed(host: AgentHost, path: str) -> None:
    secret = host.root / "etc/secret"
    secret.write_text("untouched")
    host.applying(step("a.sh", idempotence=True))
    link = host.root / path
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("/etc/secret" if not host.is_local else secret)
    assert host.run("apply").code == 0
    assert host.run("apply-check").code == 0
    assert secret.read_text() == "untouched"
    assert not link.is_symlink()


def test_a_planted_log_name_is_replaced(host: AgentHost) -> None:
    """The name has the time in it: the planted links are of all seconds that the run may take."""
    import time

    secret = host.root / "etc/secret"
    secret.write_text("untouched")
    host.script("a.sh", "echo hello")
    host.applying(step("a.sh"))
    host.logs.mkdir(parents=True)
    now = time.time()
    for second in range(-1, 60):
        stamp = time.strftime("%Y-%m-%d-%H%M%S", time.gmtime(now + second))
        (host.logs / f"a.sh-{stamp}.log").symlink_to(secret)
    assert host.run("apply", env={"SKYHOOK_AGENT_LOG_KEEP": "99"}).code == 0
    assert secret.read_text() == "untouched"


@pytest.mark.parametrize("path", [f"{STATE}/flags", f"{STATE}/flags/demo", f"{STATE}/locks", "var/log/skyhook/sk/demo"])
def test_a_planted_directory_is_refused(host: AgentHost, path: str) -> None:
    host.tracing("a.sh")
    host.applying(step("a.sh"))
    link = host.root / path
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("/etc")
    before = sorted((host.root / "etc").iterdir())
    done = host.run("apply")
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("cannot ")
    assert sorted((host.root / "etc").iterdir()) == before
    assert host.trace == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("../a.sh", "Step path escapes the package: ../a.sh"),
        ("/a.sh", "Step path escapes the package: /a.sh"),
        ("x//a.sh", "Step path escapes the package: x//a.sh"),
        ("./a.sh", "Step path escapes the package: ./a.sh"),
        ("x/../a.sh", "Step path escapes the package: x/../a.sh"),
        ("", "Step path escapes the package: "),
        ("folder", "Step is not a regular file: folder"),
        ("link-out", "Step path escapes the package: link-out"),
        ("link-up", "Step path escapes the package: link-up"),
        ("missing", "Following steps did not exist:missing"),
        ("dangling", "Following steps did not exist:dangling"),
    ],
)
def test_a_step_outside_of_the_package_is_refused(host: AgentHost, path: str, message: str) -> None:
    outside = host.root / "etc/outside.sh"
    outside.write_text(f"#!/bin/sh\necho ran >> {host.inside}/trace\n")
    outside.chmod(0o600)
    skyhook_dir = host.package / "skyhook_dir"
    (skyhook_dir / "folder").mkdir()
    (skyhook_dir / "link-out").symlink_to("/etc/outside.sh")
    (skyhook_dir / "link-up").symlink_to("../config.json")
    (skyhook_dir / "dangling").symlink_to("nothing")
    host.applying(step("ok.sh"))
    text = (host.package / "config.json").read_text().replace('"ok.sh", "arguments"', f'"{path}", "arguments"')
    (host.package / "config.json").write_text(text)
    done = host.run("apply")
    assert (done.code, done.err.splitlines()[-1]) == (1, message)
    assert (outside.stat().st_mode & 0o777, host.trace) == (0o600, [])


def test_links_within_the_package_may_be_steps(host: AgentHost) -> None:
    host.tracing("real.sh")
    (host.package / "skyhook_dir/link.sh").symlink_to("real.sh")
    (host.package / "skyhook_dir/real.sh").chmod(0o4600)
    host.applying(step("link.sh"))
    assert host.run("apply").code == 0
    assert mode(host.package / "skyhook_dir/real.sh") == 0o711
    assert host.trace == ["real.sh"]


def test_the_agents_resolv_conf_takes_the_place_of_the_hosts(host: AgentHost) -> None:
    (host.root / "run").mkdir()
    (host.root / "run/stub").write_text("old")
    (host.root / "etc/resolv.conf").symlink_to("../run/stub")
    host.applying(step("a.sh"))
    assert host.run("apply", env={"COPY_RESOLV": "TRUE"}).code == 0
    assert (host.root / "run/stub").read_bytes() == Path("/etc/resolv.conf").read_bytes()
    assert (host.root / "etc/resolv.conf").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_mounted_file_is_written_in_place(local: AgentHost, tmp_path: Path) -> None:
    import subprocess

    target = deliver(local, "etc/hosts", "new text")
    target.write_text("old")
    source = tmp_path / "mounted"
    source.write_text("a longer text than the new one")
    subprocess.run(["mount", "--bind", source, target], check=True)
    try:
        assert local.run("apply").code == 0
    finally:
        subprocess.run(["umount", target], check=True)
    assert source.read_text() == "new text"
    assert sorted(path.name for path in (local.root / "etc").iterdir()) == ["hosts"]


def test_temporary_names_differ_between_skyhooks() -> None:
    """Packages of the same name in two Skyhooks hold different locks, and may copy to one directory at the same time."""
    from haulout.agent.run import owner_of
    from haulout.agent.settings import read_settings

    env = {"SKYHOOK_RESOURCE_ID": "sk-uid-1_demo_1.0.0"}
    owners = {owner_of(read_settings({**env, "SKYHOOK_ROOT_DIR": path}), "demo") for path in ("/a", "/b")}
    assert len(owners) == 2


def test_many_files_are_copied_and_what_a_killed_run_left_is_removed(local: AgentHost) -> None:
    """More files than one batch holds; the left file has the name that the package's own lock holder gives."""
    from haulout.agent.files import temporary_name
    from haulout.agent.run import owner_of
    from haulout.agent.settings import read_settings

    for index in range(300):
        deliver(local, f"opt/d{index % 3}/f{index}", f"content {index}")
    (local.root / "opt/d1").mkdir(parents=True)
    stale = local.root / "opt/d1" / f"{temporary_name(owner_of(read_settings(local.env), 'demo'))}77"
    stale.write_text("half of a file")
    assert local.run("apply").code == 0
    found = {path.name: path.read_text() for path in (local.root / "opt").rglob("*") if path.is_file()}
    assert found == {f"f{index}": f"content {index}" for index in range(300)}


def test_a_failure_in_the_middle_leaves_no_temporary_files(local: AgentHost) -> None:
    for name in ("a", "b", "c"):
        deliver(local, f"etc/{name}")
    (local.root / "etc/c").mkdir()
    assert local.run("apply").code == 1
    assert sorted(path.name for path in (local.root / "etc").iterdir()) == ["c"]
