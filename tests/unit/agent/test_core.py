"""The pure core, without a host: which acts follow from which state; and --dry-run, which prints them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from haulout.agent import acts
from haulout.agent.flags import judge
from haulout.agent.package import Package, Step
from haulout.agent.record import Result
from haulout.agent.settings import read_settings
from haulout.agent.step_mode import StepJob, step_mode
from tests.build.agent import AgentHost, encoded
from tests.build.agent import step as document

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)


@dataclass
class Table:
    """A view of a host that reads its facts from a table."""

    state: dict[str, bytes] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    is_terminating: bool = False

    def is_terminated(self) -> bool:
        return self.is_terminating

    def local_now(self) -> datetime:
        return NOW.replace(tzinfo=None)

    def utc_now(self) -> datetime:
        return NOW

    def boot_id(self) -> str:
        return "boot-1"

    def has_state(self, path: str) -> bool:
        return path in self.state

    def read_state(self, path: str) -> bytes | None:
        return self.state.get(path)

    def has_config_file(self, name: str) -> bool:
        return name in self.files

    def has_overlay(self) -> bool:
        return False


def step(path: str, *, idempotence: bool = False) -> Step:
    return Step(path, path, (), (0,), on_host=True, idempotence=idempotence, upgrade_step=False)


def job(mode: str, *steps: Step, files: tuple[str, ...] = (), **env: str) -> StepJob:
    settings = read_settings({"SKYHOOK_RESOURCE_ID": "sk-uid-1_demo_1.0.0", "SKYHOOK_ROOT_DIR": "/state", **env})
    return StepJob(mode, Package("demo", "1.0.0", files, {mode: steps}), settings, "/root")


def follow(one: StepJob, view: Table, *codes: int) -> tuple[list[str], Result]:
    """Answer each step with the next code. Return the names of the acts and the result."""
    left = list(codes)
    names: list[str] = []
    sequence, answer = step_mode(one, view), None
    while True:
        try:
            act = sequence.send(answer)
        except StopIteration as end:
            return names, end.value
        names.append(type(act).__name__)
        answer = acts.Outcome(left.pop(0)) if isinstance(act, acts.RunStep) else None


BEFORE = ["LockPackage", "Tighten", "WriteState"]
RUN = ["Reserve", "Say", "Wait", "RunStep"]
REPORT = ["Say", "PruneLogs"]


def test_a_mode_of_two_steps() -> None:
    names, result = follow(job("apply", step("a"), step("b")), Table(), 0, 0)
    assert names == [*BEFORE, *RUN, "RaiseFlag", *REPORT, *RUN, "RaiseFlag", *REPORT]
    assert (result.result, result.ran) == ("succeeded", 2)


def test_a_failure_ends_the_mode() -> None:
    names, result = follow(job("apply", step("a"), step("b")), Table(), 1)
    assert names == [*BEFORE, *RUN, "Release", *REPORT]
    assert result.exit_code == 1


def test_after_sigterm_nothing_starts() -> None:
    names, result = follow(job("apply", step("a")), Table(is_terminating=True))
    assert names == BEFORE
    assert result.result == "terminated"


def test_a_missing_config_file_ends_the_mode_before_it_begins() -> None:
    names, result = follow(job("apply", step("a"), files=("x",)), Table())
    assert names == ["LockPackage", "Tighten", "Say"]
    assert result.error == "Expected config file x not found in configmaps directory."


def test_a_check_writes_results_and_history() -> None:
    names, _ = follow(job("apply-check", step("a"), step("b")), Table(), 0, 0)
    check = ["Say", "Wait", "RunStep", *REPORT]
    assert names == [*BEFORE, *check, *check, "WriteState", "RemoveState", "WriteState", "Say", "WriteState"]


LINES = {
    "always": "WARNING: F exists for a but OVERLAY_ALWAYS_RUN_STEP flag is set so running anyway.",
    "mode": "Flag exists but CONFIG, UNINSTALL, and UPGRADE mode don't support idempotence so running step anyway.",
    "own": "Flag exists but idempotence is Idempotence.Disabled so running step.",
    "skip": "Skipping a because F exists.",
}


@pytest.mark.parametrize("mode", ["apply", "post-interrupt", "config", "uninstall", "upgrade"])
@pytest.mark.parametrize("idempotence", [False, True])
@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("has_flag", [False, True])
def test_the_decision_table(mode: str, idempotence: bool, always: bool, has_flag: bool) -> None:
    rows = [
        (not has_flag, True, None),
        (always, True, LINES["always"]),
        (mode in ("config", "uninstall", "upgrade"), True, LINES["mode"]),
        (idempotence, True, LINES["own"]),
        (True, False, LINES["skip"]),
    ]
    _, runs, line = next(row for row in rows if row[0])
    verdict = judge(mode, step("a", idempotence=idempotence), "F", has_flag=has_flag, always_run=always)
    assert (verdict.runs, verdict.line) == (runs, line)


def test_a_dry_run_says_what_and_why_and_changes_nothing(host: AgentHost) -> None:
    host.applying(document("a.sh"), document("b.sh"), document("b.sh"), document("c.sh", idempotence=True))
    (host.package / "root_dir/etc").mkdir(parents=True)
    (host.package / "root_dir/etc/f").write_text("x")
    flag = host.state / "flags/demo/1.0.0/a.sh_W11fWzBd"
    flag.parent.mkdir(parents=True)
    flag.touch()
    before = host.tree()
    done = host.dry_run("apply", env={"COPY_RESOLV": "true"})
    assert done.code == 0
    assert done.out.splitlines() == [
        "would copy the agent's /etc/resolv.conf to the host: COPY_RESOLV is true",
        "would lock the package demo",
        "would copy root_dir/etc/f to the host: it is not there, or differs",
        "would write flags/START: every mode writes it",
        "would skip a.sh: its flag exists",
        "would run b.sh: it has no flag",
        "would write flags/demo/1.0.0/b.sh_W11fWzBd: the step succeeded",
        "would skip b.sh: its flag exists",
        "would run c.sh: it has no flag",
        "would write flags/demo/1.0.0/c.sh_W11fWzBd: the step succeeded",
    ]
    assert host.tree() == before
    assert not host.record_file.exists()


@pytest.mark.parametrize("mode", ["apply-check", "uninstall-check", "upgrade", "config-check"])
def test_a_dry_run_of_any_mode_changes_nothing(local: AgentHost, mode: str) -> None:
    checks = [document("ok_check.sh")]
    local.config(
        apply=[document("ok.sh")],
        apply_check=checks,
        config_check=checks,
        uninstall_check=checks,
        upgrade=[document("ok.sh", upgrade_step=True)],
        upgrade_check=checks,
    )
    before = local.tree()
    assert local.dry_run(mode).code == 0
    assert local.tree() == before


def test_a_dry_run_of_a_reboot(local: AgentHost) -> None:
    before = local.tree()
    done = local.dry_run("interrupt", encoded({"type": "node_restart"}))
    assert done.code == 0
    assert "would run reboot: it has no marker" in done.lines
    assert local.tree() == before
    assert local.commands == []
