"""State on the host in the original's layout: the agent honours it, and writes the very same bytes."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from haulout.agent import acts
from haulout.agent.config import StepFile, load
from haulout.agent.interrupt_mode import InterruptJob, interrupt_mode
from haulout.agent.payload import parse_interrupt
from haulout.agent.settings import read_settings
from haulout.agent.step_mode import Acts, StepJob, step_mode
from tests.build.agent import AgentHost, encoded, step
from tests.unit.agent.test_core import Table

GOLDEN = Path(__file__).parent / "golden"
RESOURCE = next((GOLDEN / "interrupts/flags").iterdir()).name
AT = datetime(2026, 1, 31, 10, 0, 0, 123456, tzinfo=UTC)
APPLY = [step("a.sh"), step("apply.sh", "apply"), step("odd.sh", "???>>>"), step("own.sh", "é", idempotence=True)]
CHECKS = [step("a_check.sh"), step("b_check.sh")]
SERVICES = {"type": "service_restart", "services": ["a"]}


class At(Table):
    """A view whose clock stands at the time of the golden files."""

    def local_now(self) -> datetime:
        return AT.replace(tzinfo=None)

    def utc_now(self) -> datetime:
        return AT


def write(sequence: Acts, view: At) -> None:
    """Follow a mode, and keep what it writes as the state."""
    answer: acts.Answer = None
    while True:
        try:
            act = sequence.send(answer)
        except StopIteration:
            return
        match act:
            case acts.WriteState() | acts.RaiseFlag():
                view.state[act.path] = act.text.encode()
            case acts.MoveState():
                view.state[act.new_path] = view.state.pop(act.path)
            case acts.RemoveState():
                view.state.pop(act.path, None)
        answer = acts.Outcome(0) if isinstance(act, acts.RunStep | acts.RunCommand) else None


def test_the_agent_writes_what_the_original_would(local: AgentHost) -> None:
    local.config(apply=APPLY, apply_check=CHECKS)
    package = load((local.package / "config.json").read_bytes(), lambda _: StepFile.REGULAR, lambda _: None)
    settings = read_settings({"SKYHOOK_RESOURCE_ID": RESOURCE, "SKYHOOK_AGENT_REBOOT_CONFIRM": "legacy"})
    view = At()
    for mode in ("apply", "apply-check"):
        write(step_mode(StepJob(mode, package, settings, "/root"), view), view)
    for payload in ({"type": "node_restart"}, SERVICES, {"type": "no_op"}):
        write(interrupt_mode(InterruptJob(parse_interrupt(encoded(payload)), settings), view), view)
    golden = {str(path.relative_to(GOLDEN)): path.read_bytes() for path in GOLDEN.rglob("*") if path.is_file()}
    assert view.state == golden


@pytest.fixture
def settled(host: AgentHost) -> AgentHost:
    """A host on which the original's agent has been at work."""
    shutil.copytree(GOLDEN, host.state, dirs_exist_ok=True)
    host.env["SKYHOOK_RESOURCE_ID"] = RESOURCE
    host.tracing("a.sh", "apply.sh", "odd.sh", "own.sh")
    host.script("up.sh", f'echo "$PREVIOUS_VERSION" >> {host.inside}/trace')
    host.config(apply=APPLY, apply_check=CHECKS, upgrade=[step("up.sh")], upgrade_check=CHECKS)
    return host


def test_the_agent_honours_what_the_original_wrote(settled: AgentHost) -> None:
    assert settled.run("apply").code == 0
    assert settled.trace == ["own.sh"]
    assert settled.run("upgrade").code == 0
    assert settled.trace == ["own.sh", "1.0.0"]
    payloads: list[Any] = [{"type": "node_restart"}, SERVICES, {"type": "no_op"}]
    assert [settled.interrupt(payload).code for payload in payloads] == [0, 0, 0]
    assert settled.commands == []
