"""Steps: flags, checks, history, output, logs, environment, signals and time limits."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.build.agent import UID, AgentHost, ended, step
from tests.unit.agent.conftest import Fresh

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}"


def marker(arguments: list[str], codes: list[float]) -> str:
    return base64.b64encode(f"{arguments}_{codes}".encode()).decode()


def test_a_first_apply_runs_the_step_and_leaves_a_flag(host: AgentHost) -> None:
    host.tracing("a.sh")
    host.applying(step("a.sh", "x", codes=(0, 3)))
    done = host.run("apply")
    assert done.code == 0
    assert "apply a.sh ['x'] [0, 3] Idempotence.Auto True" in done.lines
    assert "SUCEEDED: a.sh x" in done.lines
    (flag,) = host.flags
    assert flag == f"a.sh_{marker(['x'], [0, 3])}"
    text = (host.state / "flags/demo/1.0.0" / flag).read_text()
    assert re.fullmatch(rf"last_run: {STAMP}\nstep_always_runs: False", text)
    assert (host.state / "flags/START").read_text() == ""
    assert not (host.state / "history").exists()


@pytest.mark.parametrize("mode", ["apply", "post-interrupt"])
def test_a_step_with_a_flag_is_skipped(host: AgentHost, mode: str) -> None:
    host.tracing("a.sh")
    host.config(**{mode: [step("a.sh")], f"{mode}-check": [step("a_check.sh")]})
    assert host.run(mode).code == 0
    done = host.run(mode)
    assert host.trace == ["a.sh"]
    flag = host.state / "flags/demo/1.0.0/a.sh_W11fWzBd"
    assert f"Skipping a.sh because {flag} exists." in done.lines
    assert host.record["skipped"] == 1


def test_a_flag_of_the_original_is_honoured(host: AgentHost) -> None:
    host.tracing("a.sh")
    host.applying(step("a.sh", "é", "it's"))
    text = """['é', "it's"]_[0]"""
    flag = host.state / "flags/demo/1.0.0" / f"a.sh_{base64.b64encode(text.encode()).decode()}"
    flag.parent.mkdir(parents=True)
    flag.write_text("last_run: 2025-01-01T00:00:00.000000\nstep_always_runs: False")
    assert host.run("apply").code == 0
    assert host.trace == []


def test_a_step_listed_twice_runs_once(host: AgentHost) -> None:
    host.tracing("a.sh")
    host.applying(step("a.sh"), step("a.sh"))
    assert host.run("apply").code == 0
    assert host.trace == ["a.sh"]
    assert (host.record["ran"], host.record["skipped"]) == (1, 1)


def test_a_failing_step_stops_the_mode_without_a_flag(host: AgentHost) -> None:
    host.tracing("a.sh", "c.sh")
    host.script("b.sh", "exit 5")
    host.applying(step("a.sh"), step("b.sh"), step("c.sh"))
    done = host.run("apply")
    assert done.code == 1
    assert "FAILED: b.sh  5" in done.lines
    assert host.trace == ["a.sh"]
    assert host.flags == ["a.sh_W11fWzBd"]
    failure = {"name": "b.sh", "path": "b.sh", "exitCode": 5, "signal": None, "timedOut": False}
    assert host.record["failedStep"] == failure
    assert re.fullmatch(r"/var/log/skyhook/sk/demo/1\.0\.0/b\.sh-[-\d]+\.log", host.record["log"])


@pytest.mark.parametrize(
    ("body", "codes", "wanted", "shown"),
    [
        ("exit 3", (0, 3), 0, None),
        ("exit 3", (1,), 1, "FAILED: a.sh  3"),
        ("exit 0", (3,), 1, "FAILED: a.sh  0"),
        ("kill -9 $$", (0, -9), 1, "FAILED: a.sh  -9"),
        ("exit 126", (126,), 0, None),
        ("exit 1", (1.0,), 0, None),
    ],
)
def test_real_exit_codes_count(
    host: AgentHost, body: str, codes: tuple[float, ...], wanted: int, shown: str | None
) -> None:
    host.script("a.sh", body)
    host.applying(step("a.sh", codes=codes))
    done = host.run("apply")
    assert done.code == wanted
    assert shown is None or shown in done.lines


@pytest.mark.parametrize(
    ("content", "code"),
    [("#!/no/such/interpreter\n", 127), ("plain text\n", 126), ("#!/etc\n", 126)],
    ids=["no interpreter", "no shebang", "directory as interpreter"],
)
def test_a_step_that_cannot_start_has_failed(host: AgentHost, content: str, code: int) -> None:
    (host.package / "skyhook_dir/a.sh").write_text(content)
    host.applying(step("a.sh", codes=(0, 1, 126, 127)))
    done = host.run("apply")
    assert done.code == 1
    assert f"FAILED: a.sh  {code}" in done.lines
    assert "cannot start a.sh: " in done.err
    assert host.flags == []


def test_all_checks_run_and_their_results_are_kept(host: AgentHost) -> None:
    host.script("c1.sh", "exit 1")
    host.tracing("c2.sh")
    host.config(apply=[step("a.sh")], apply_check=[step("c1.sh"), step("c2.sh")])
    assert host.run("apply-check").code == 1
    assert host.trace == ["c2.sh"]
    own, shared = host.state / "flags/demo/1.0.0/check_results", host.state / "flags/check_results"
    assert own.read_text() == shared.read_text() == "c1.sh True\nc2.sh False"
    assert not (host.state / "flags/apply-check_ALL_CHECKED").exists()
    assert not (host.state / "history/demo.json").exists()
    assert host.record["failedStep"]["path"] == "c1.sh"

    host.script("c1.sh")
    assert host.run("apply-check").code == 0
    assert shared.read_text() == "c1.sh False\nc2.sh False"
    assert not own.exists()
    assert (host.state / "flags/apply-check_ALL_CHECKED").read_text() == ""
    history = (host.state / "history/demo.json").read_text()
    entry = re.fullmatch(
        rf'\{{"current-version": "1.0.0", "history": \[\{{"version": "1.0.0", "time": "({STAMP})\+00:00"\}}\]\}}',
        history,
    )
    assert entry is not None, history


def test_history_grows_at_its_head_and_uninstall_removes_the_flags(host: AgentHost) -> None:
    host.config(
        apply=[step("a.sh")],
        apply_check=[step("ok.sh")],
        uninstall=[step("u.sh")],
        uninstall_check=[step("ok.sh")],
    )
    for mode in ("apply", "apply-check", "apply-check", "uninstall", "uninstall-check"):
        assert host.run(mode).code == 0
    history = json.loads((host.state / "history/demo.json").read_text())
    assert history["current-version"] == "uninstalled"
    assert [entry["version"] for entry in history["history"]] == ["uninstalled", "1.0.0", "1.0.0"]
    assert host.flags == []


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"current-version": 1, "history": []}', "\xff"])
def test_a_history_that_is_none_is_moved_away(host: AgentHost, text: str) -> None:
    host.script("u.sh", f'echo "$1:$2:$PREVIOUS_VERSION" >> {host.inside}/trace')
    host.config(upgrade=[step("u.sh", upgrade_step=True)], upgrade_check=[step("u_check.sh")])
    file = host.state / "history/demo.json"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="latin-1")
    done = host.run("upgrade")
    assert done.code == 0
    assert f"Failed to load existing history, corrupt history file moved to {file}.backup..." in done.lines
    assert host.trace == [":1.0.0:"]
    assert Path(f"{file}.backup").read_text(encoding="latin-1") == text


def test_a_mode_without_steps_is_a_no_op(host: AgentHost) -> None:
    host.applying(step("a.sh"))
    done = host.run("config")
    assert done.code == 0
    assert done.err.endswith("WARNING:root: There are no config steps defined. This will be ran as a no-op.\n")
    assert host.record["result"] == "noop"
    assert host.run("upgrade-check").code == 0
    assert (host.state / "history/demo.json").exists()


def test_output_keeps_its_format(host: AgentHost) -> None:
    host.script("a.sh", "echo one; echo two; echo bad >&2; printf '\\377'")
    host.applying(step("a.sh"))
    done = host.run("apply")
    tail = done.out[done.out.index("[out]") :]
    assert re.fullmatch(rf"\[out\]{STAMP} one\n\[out\]{STAMP} two\n\[out\]{STAMP} �SUCEEDED: a.sh \n", tail), tail
    assert re.search(rf"\[err\]{STAMP} bad\n\[err\]{STAMP} ", done.err)
    (log,) = host.logs.glob("a.sh-*.log")
    assert log.read_text() == tail.removesuffix("SUCEEDED: a.sh \n")
    assert Path(f"{log}.err").read_text() in done.err


def test_a_character_may_be_split_over_chunks(host: AgentHost) -> None:
    host.script("a.sh", "printf 'aé€😀'")
    host.applying(step("a.sh"))
    done = host.run("apply", env={"SKYHOOK_AGENT_BUFFER_LIMIT": "1"})
    assert "aé€😀SUCEEDED" in done.out


def test_steps_get_the_documented_environment(host: AgentHost) -> None:
    names = ("STEP_ROOT", "SKYHOOK_DIR", "E1", "MULTI", "LC_CTYPE")
    shown = " ".join(f'"${{{name}-unset}}"' for name in names)
    host.script("a.sh", f'for v in "$PWD" {shown}; do printf "%s|" "$v"; done > {host.inside}/trace')
    host.applying(step("a.sh", env={"E1": "own", "STEP_ROOT": "no"}))
    env = {"MULTI": "l1\nX=2", "E1": "agent", "LANG": "C"}
    assert host.run("apply", env=env).code == 0
    package = host.inside / host.copy_dir[1:]
    wanted = f"{package}|{package}/skyhook_dir|{package}|own|l1\nX=2|unset|"
    assert (host.root / "trace").read_text() == wanted


def test_the_path_is_completed_in_order() -> None:
    from haulout.agent.environment import base_environment, with_host_folders

    assert with_host_folders("/bin:/x") == "/bin:/x:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin"
    base = base_environment({"PATH": "/p", "A": "1", "B": "2"}, {"PATH": "/p", "A": "1", "B": "other"})
    assert base == {"PATH": "/p:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "B": "2"}


def test_env_arguments_are_resolved_and_never_shown(host: AgentHost) -> None:
    host.script("a.sh", f'printf "%s|" "$@" > {host.inside}/trace; exit 1')
    host.applying(step("a.sh", "env:TOKEN", "plain", "env:EMPTY", "env:TOKENenv:X"))
    done = host.run("apply", env={"TOKEN": "s3cret", "EMPTY": ""})
    assert done.code == 1
    assert (host.root / "trace").read_text() == "s3cret|plain||s3cret|"
    assert "FAILED: a.sh env:TOKEN plain env:EMPTY env:TOKENenv:X 1" in done.lines
    assert "s3cret" not in done.out + done.err + host.record_file.read_text()


def test_every_missing_variable_is_named(host: AgentHost) -> None:
    host.tracing("a.sh")
    host.applying(step("a.sh", "env:NO1", "env:NO2"))
    done = host.run("apply")
    assert done.code == 1
    for name in ("NO1", "NO2"):
        assert f"a.sh: Expected environment variable did not exist: {name}" in done.lines
    assert host.trace == []
    assert host.record["failedStep"]["exitCode"] is None


@pytest.mark.parametrize("sent_in", ["first", "last"])
def test_sigterm_lets_the_step_finish_and_starts_no_other(host: AgentHost, sent_in: str) -> None:
    """Each step raises its flag file and waits until the test lets it go on."""
    for name in ("a", "b"):
        body = f"echo {name} >> {host.inside}/trace; until [ -e {host.inside}/go-{name} ]; do sleep 0.01; done"
        host.script(f"{name}.sh", body)
    host.applying(step("a.sh"), step("b.sh"))
    process = host.start("apply", str(host.root), host.copy_dir)
    for name in ["a"] if sent_in == "first" else ["a", "b"]:
        while name not in host.trace:
            time.sleep(0.01)
        if name == {"first": "a", "last": "b"}[sent_in]:
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            while "Received SIGTERM" not in process.stderr.readline():
                pass
        (host.root / f"go-{name}").touch()
    done = ended(process)
    assert done.code == (1 if sent_in == "first" else 0)
    assert host.trace == (["a"] if sent_in == "first" else ["a", "b"])
    assert host.record["result"] == ("terminated" if sent_in == "first" else "succeeded")
    assert "a.sh_W11fWzBd" in host.flags


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT], ids=lambda sent: sent.name)
def test_the_signal_that_was_received_is_named(host: AgentHost, sent: signal.Signals) -> None:
    host.script("a.sh", f"echo a >> {host.inside}/trace; until [ -e {host.inside}/go ]; do sleep 0.01; done")
    host.applying(step("a.sh"), step("a.sh", arguments=["again"]))
    process = host.start("apply", str(host.root), host.copy_dir)
    while "a" not in host.trace:
        time.sleep(0.01)
    process.send_signal(sent)
    assert process.stderr is not None
    received = next(line for line in process.stderr if line.startswith("Received"))
    assert received == f"Received {sent.name}, finishing the current step\n"
    (host.root / "go").touch()
    assert ended(process).code == 1


def test_a_step_that_hangs_is_ended_with_its_group(host: AgentHost) -> None:
    host.script("a.sh", f"sleep 600 & echo $! > {host.inside}/pid; wait")
    host.applying(step("a.sh"))
    done = host.run("apply", env={"SKYHOOK_AGENT_STEP_TIMEOUT": "0.5"})
    assert done.code == 1
    assert "TIMED OUT: a.sh after 0.5s" in done.lines
    assert "FAILED: a.sh  -15" in done.lines
    failure = {"name": "a.sh", "path": "a.sh", "exitCode": -15, "signal": 15, "timedOut": True}
    assert host.record["failedStep"] == failure
    assert not is_alive(int((host.root / "pid").read_text()))


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_daemon_does_not_hold_the_agent_up(host: AgentHost) -> None:
    host.script("a.sh", f"sleep 600 & echo $! > {host.inside}/pid")
    host.applying(step("a.sh"))
    assert host.run("apply").code == 0
    pid = int((host.root / "pid").read_text())
    assert is_alive(pid)
    os.kill(pid, signal.SIGKILL)


def test_old_logs_go_with_their_err(host: AgentHost) -> None:
    host.logs.mkdir(parents=True)
    for second in range(7):
        for suffix in (".log", ".log.err"):
            file = host.logs / f"a.sh-2020-01-01-00000{second}{suffix}"
            file.touch()
            os.utime(file, (1577836800 + second, 1577836800 + second))
    other = host.logs / "a.sh-x.sh-2020-01-01-000000.log"
    other.touch()
    host.applying(step("a.sh"))
    assert host.run("apply", env={"SKYHOOK_AGENT_LOG_KEEP": "3"}).code == 0
    kept = sorted(path.name for path in host.logs.glob("a.sh-2*"))
    assert len(kept) == 6
    assert kept[:4] == [f"a.sh-2020-01-01-00000{s}.log{e}" for s in (5, 6) for e in ("", ".err")]
    assert other.exists()


def test_logs_can_be_switched_off(host: AgentHost) -> None:
    host.applying(step("a.sh"))
    assert host.run("apply", env={"SKYHOOK_AGENT_WRITE_LOGS": "no"}).code == 0
    assert host.interrupt({"type": "service_restart", "services": []}, env={"SKYHOOK_AGENT_WRITE_LOGS": "no"}).code == 0
    assert not (host.root / "var/log").exists()


def test_the_original_s_directories_are_closed(host: AgentHost) -> None:
    for path in ("flags/demo/1.0.0/x.sh_W11fWzBd", "history/other.json", "interrupts/flags/id/a.complete"):
        file = host.state / path
        file.parent.mkdir(parents=True)
        file.write_text("x")
        file.chmod(0o644)
    for folder in (host.state, host.package, *(path for path in host.state.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    (host.root / "var/log/skyhook/sk/demo").mkdir(parents=True)
    old = host.root / "var/log/skyhook/sk/demo/old.log"
    old.write_text("x")
    old.chmod(0o644)
    host.applying(step("a.sh"))
    assert host.run("apply").code == 0

    def mode(path: Path) -> int:
        return path.stat().st_mode & 0o7777

    assert mode(host.state) == 0o711
    assert mode(host.package) == 0o700
    for name in ("flags", "history", "interrupts", "locks"):
        for found in ((host.state / name), *(host.state / name).rglob("*")):
            assert mode(found) == (0o700 if found.is_dir() else 0o600), found
    for found in (host.root / "var/log/skyhook/sk", *(host.root / "var/log/skyhook/sk").rglob("*")):
        assert mode(found) == (0o750 if found.is_dir() else 0o640), found
    assert mode(host.root / "var/log") == 0o755
    assert host.run("apply", env={"SKYHOOK_AGENT_COPY_MODE": "0755"}).code == 0
    assert mode(host.package) == 0o755


@pytest.mark.parametrize("name", ["SKYHOOK_ROOT_DIR", "SKYHOOK_LOG_DIR"])
def test_directories_of_the_host_keep_their_modes(local: AgentHost, name: str) -> None:
    for path in ("var", "var/log"):
        (local.root / path).mkdir(exist_ok=True)
        (local.root / path).chmod(0o777)
    local.applying(step("a.sh"))
    assert local.run("apply", env={name: "/var/log/"}).code == 0
    assert (local.root / "var/log").stat().st_mode & 0o777 == 0o777


def test_a_long_argument_gets_a_short_flag(host: AgentHost) -> None:
    host.tracing("a.sh")
    host.applying(step("a.sh", "x" * 300))
    assert host.run("apply").code == host.run("apply").code == 0
    assert host.trace == ["a.sh"]
    assert re.fullmatch(r"a\.sh_sha256-[0-9a-f]{64}", host.flags[0])


def test_old_copies_go_after_the_last_check(fresh: Fresh) -> None:
    host = fresh()
    host.config(config=[step("a.sh")], config_check=[step("a_check.sh")])
    own = host.env["SKYHOOK_RESOURCE_ID"].replace(f"{UID}-1", f"{UID}-9")
    other_uid = UID.replace("5", "6")
    kept = [
        f"demo-1.0.0-{UID}-9",
        f"demo-1.0.0-{UID}-8",
        f"demo-1.0.0-{UID}-10",
        f"demo-x-1.0.0-{UID}-2",
        f"demo-1.0.0-{other_uid}-2",
        "demo-1.0.0-backup",
    ]
    gone = [f"demo-1.0.0-{UID}-2", f"demo-0.9.0-rc.1-{UID}-7"]
    for name in (*kept, *gone):
        (host.state / name / "deep").mkdir(parents=True)
        (host.state / name / "deep/link").symlink_to(host.root / "etc")
    assert host.run("config-check", env={"SKYHOOK_RESOURCE_ID": own}).code == 0
    left = {path.name for path in host.state.iterdir()} - {"flags", "history", "locks"}
    # The copy that this run works on is generation 1 of the resource id's 9, and is not removed under its feet.
    assert left == {*kept, host.package.name}
    assert (host.root / "etc").exists()


def test_a_version_other_than_the_wanted_one_is_told(local: AgentHost) -> None:
    local.applying(step("a.sh"))
    done = local.run("apply", env={"SKYHOOK_RESOURCE_ID": f"sk-{UID}-1_demo_2.0.0"})
    assert done.code == 0
    assert "WARNING: package_version 1.0.0 differs from requested version 2.0.0" in done.err


def test_the_package_s_digest_is_checked_first(host: AgentHost) -> None:
    host.tracing("a.sh")
    host.applying(step("a.sh"))
    wanted = host.author("digest", str(host.package)).out.strip()
    (host.package / "configmaps").mkdir()
    (host.package / "configmaps/key").write_text("x")
    assert host.run("apply", env={"SKYHOOK_PACKAGE_TREE_DIGEST": wanted}).code == 0
    (host.package / "extra").write_text("x")
    done = host.run("apply", env={"SKYHOOK_PACKAGE_TREE_DIGEST": wanted})
    assert done.code == 1
    assert done.err.startswith(f"Package digest mismatch: expected {wanted}, got sha256:")
    assert host.trace == ["a.sh"]


def test_the_digest_of_the_specified_tree(local: AgentHost, tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "skyhook_dir").mkdir(parents=True)
    (package / "config.json").write_text("{}")
    (package / "skyhook_dir/a.sh").write_text("#!/bin/sh\n")
    (package / "skyhook_dir/b.sh").symlink_to("a.sh")
    wanted = "sha256:9c971e419963340ad69fa04f51570e31d2ca34c9c04a1bc0e3c029a9af629073"
    assert local.author("digest", str(package)).out == f"{wanted}\n"


def test_two_agents_do_not_work_on_one_package_at_once(host: AgentHost) -> None:
    host.script("a.sh", f"echo a >> {host.inside}/trace; until [ -e {host.inside}/go ]; do sleep 0.01; done")
    host.applying(step("a.sh"))
    first = host.start("apply", str(host.root), host.copy_dir)
    while not host.trace:
        time.sleep(0.01)
    second = host.start("apply", str(host.root), host.copy_dir)
    (host.root / "go").touch()
    assert ended(first).code == 0
    done = ended(second)
    assert done.code == 0
    assert any(line.startswith("Skipping a.sh because") for line in done.lines)
    assert host.trace == ["a"]


def test_a_package_that_is_not_on_the_host_is_copied(host: AgentHost, tmp_path: Path) -> None:
    host.tracing("a.sh")
    host.applying(step("a.sh"))
    data = tmp_path / "data"
    host.package.rename(data)
    (data / "link").symlink_to("config.json")
    assert host.run("apply", env={"SKYHOOK_DATA_DIR": str(data)}).code == 0
    assert host.trace == ["a.sh"]
    assert (host.package / "link").read_bytes() == (data / "config.json").read_bytes()
    assert not (host.package / "link").is_symlink()
    assert [path.name for path in host.state.iterdir() if path.name.startswith(".")] == []


def test_steps_may_run_outside_the_chroot_where_that_is_wanted(host: AgentHost) -> None:
    host.script("a.sh", f'echo "$SKYHOOK_DIR" > {host.root}/seen')
    host.applying(step("a.sh", on_host=False))
    assert host.run("apply", env={"SKYHOOK_AGENT_HONOR_ON_HOST": "true"}).code == 0
    assert (host.root / "seen").read_text() == f"{host.package}\n"


def test_a_step_that_removes_the_agents_state_still_gets_its_flag(local: AgentHost) -> None:
    local.script("a.sh", f"rm -r {local.state}/flags {local.state}/locks")
    local.applying(step("a.sh"))
    assert local.run("apply").code == 0
    assert local.flags == ["a.sh_W11fWzBd"]


@pytest.mark.parametrize(
    ("limits", "note"),
    [
        ({"SKYHOOK_AGENT_LOG_LINES": "2"}, "2 lines (SKYHOOK_AGENT_LOG_LINES)"),
        ({"SKYHOOK_AGENT_LOG_BYTES": "100"}, "100 bytes (SKYHOOK_AGENT_LOG_BYTES)"),
    ],
    ids=["lines", "bytes"],
)
def test_a_log_is_cut_at_its_limit_and_says_so(host: AgentHost, limits: dict[str, str], note: str) -> None:
    host.script("a.sh", "for i in 1 2 3 4 5 6 7 8 9; do echo äääääää $i; done; echo short >&2")
    host.applying(step("a.sh"))
    done = host.run("apply", env=limits)
    assert done.code == 0
    assert done.out.count("äääääää") == 9
    (log,) = host.logs.glob("a.sh-*.log")
    text = log.read_text()
    last = text.splitlines()[-1]
    assert (text.count("äääääää"), last) == (
        2,
        f"The log was cut here, at {note}. The log of the container has the rest.",
    )
    (err,) = host.logs.glob("a.sh-*.log.err")
    assert "cut here" not in err.read_text()


def test_a_log_without_a_limit_is_not_cut(local: AgentHost) -> None:
    local.script("a.sh", "i=0; while [ $i -lt 500 ]; do echo line; i=$((i + 1)); done")
    local.applying(step("a.sh"))
    assert local.run("apply", env={"SKYHOOK_AGENT_LOG_LINES": "0", "SKYHOOK_AGENT_LOG_BYTES": "0"}).code == 0
    (log,) = local.logs.glob("a.sh-*.log")
    assert log.read_text().count("line\n") == 500
