"""`skyhook-agent test`: a package tried on a throw-away root, without a trace on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build.agent import AgentHost, Ended, step

ALL = ("apply", "config", "post-interrupt", "upgrade", "uninstall")


@pytest.fixture
def package(local: AgentHost, tmp_path: Path) -> Path:
    folder = tmp_path / "tuning-of-a-test"
    assert local.author("new", str(folder)).code == 0
    return folder


def tried(local: AgentHost, package: Path, *options: str) -> Ended:
    done = local.author("test", str(package), *options)
    if "cannot make a throw-away root" in done.err:
        pytest.skip("this machine forbids namespaces")
    return done


def rewrite(package: Path, path: str, body: str) -> None:
    file = package / "skyhook_dir" / path
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)


def test_a_new_package_passes(local: AgentHost, package: Path) -> None:
    done = tried(local, package)
    assert (done.code, done.err) == (0, "")
    table = [tuple(line.split(maxsplit=3)) for line in done.out.splitlines()]
    assert ("apply", "first", "succeeded", "1 ran") in table
    assert ("apply", "second", "succeeded", "0 ran, 1 skipped") in table
    assert ("config", "second", "succeeded", "1 ran") in table
    assert "interrupt (reboot)     second   succeeded  0 ran, 1 skipped" in done.out
    assert "upgrade                         no steps" in done.out
    assert not Path("/etc/tuning-of-a-test.conf").exists()


def test_all_modes_run_in_order(local: AgentHost, package: Path) -> None:
    document = json.loads((package / "config.json").read_text())
    modes = {}
    for mode in ALL:
        modes[mode] = [step("trace.sh", mode, idempotence=True, upgrade_step=False)]
        modes[f"{mode}-check"] = [step("trace_check.sh", f"{mode}-check", idempotence=True)]
    (package / "config.json").write_text(json.dumps({**document, "modes": modes}))
    rewrite(package, "trace.sh", 'echo "$1" >> /var/trace')
    rewrite(
        package,
        "trace_check.sh",
        'echo "$1" >> /var/trace; test "$1" != uninstall-check || { cat /var/trace; exit 1; }',
    )
    done = tried(local, package)
    assert done.code == 1
    wanted = [name for mode in ALL for _ in (1, 2) for name in (mode, f"{mode}-check")]
    last = done.out.rpartition("--- uninstall-check, second run")[2]
    assert [line.split()[1] for line in last.splitlines() if line.startswith("[out]")][: len(wanted)] == wanted
    assert "changes the host again: var/trace" in done.out


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("exit 3", "apply.sh ended with 3"),
        ("touch /usr/spoiled", "apply.sh ended with 1"),
        # Even as root, and even the value that is there already.
        (
            "read -r old < /proc/sys/vm/swappiness; (echo $old > /proc/sys/vm/swappiness) || exit 4",
            "apply.sh ended with 4",
        ),
    ],
    ids=["failure", "programs are read-only", "settings of the kernel are read-only"],
)
def test_a_failure_is_told_with_its_output(local: AgentHost, package: Path, body: str, note: str) -> None:
    rewrite(package, "apply.sh", f"echo output-of-it\n{body}")
    done = tried(local, package)
    assert done.code == 1
    assert note in done.out
    assert "--- apply, first run" in done.out
    assert "output-of-it" in done.out
    assert not Path("/usr/spoiled").exists()


def test_an_invalid_package_is_not_tried(local: AgentHost, package: Path) -> None:
    (package / "skyhook_dir/apply.sh").chmod(0o644)
    done = local.author("test", str(package))
    assert done.code == 1
    assert done.err.startswith("ERROR: Executable bit validation failed:")


def test_local_mode_has_to_be_asked_for(local: AgentHost, package: Path) -> None:
    for stem in ("apply", "apply_check", "config", "config_check", "uninstall", "uninstall_check"):
        rewrite(package, f"{stem}.sh", 'echo x > "$SKYHOOK_HOST_ROOT/etc/x"')
    done = local.author("test", str(package), "--exec", "local")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("words", [["test"], ["test", "a", "b"], ["test", "a", "--exec", "chroot"]])
def test_wrong_words_are_wrong_usage(local: AgentHost, words: list[str]) -> None:
    assert local.author(*words).code == 2
