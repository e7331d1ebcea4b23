"""An interrupt as a generator of acts, without I/O: it yields each act, and the shell sends back the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from dataclasses import dataclass

from haulout.agent.acts import (
    Act,
    Answer,
    AwaitRestart,
    LockInterrupt,
    MoveState,
    Outcome,
    PruneLogs,
    RemoveState,
    RunCommand,
    Say,
    Tighten,
    WriteState,
)
from haulout.agent.logs import log_name
from haulout.agent.payload import NO_OP, REBOOT, Interrupt
from haulout.agent.record import Result, failure_result
from haulout.agent.settings import Settings
from haulout.agent.view import View

Acts = Generator[Act, Answer, Result]
Ending = Generator[Act, Answer, Result | None]
_BOOT_ID = re.compile(rb"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NO_BOOT_ID = (
    "cannot read the host's boot id, without which a reboot cannot be confirmed"
    " (SKYHOOK_AGENT_BOOT_ID_FILE names its file, SKYHOOK_AGENT_REBOOT_CONFIRM=legacy does without)"
)


@dataclass(frozen=True, slots=True)
class InterruptJob:
    """An interrupt of a host on behalf of a package."""

    interrupt: Interrupt
    settings: Settings

    @property
    def folder(self) -> str:
        """The directory of the interrupt's markers, below the state root."""
        return f"interrupts/flags/{self.settings.resource_id.text}"

    def log(self, name: str, view: View) -> str | None:
        owner = self.settings.resource_id
        stem = f"{owner.package}/{owner.version}/interrupts/{name}"
        return log_name(stem, view.utc_now()) if self.settings.write_logs else None


@dataclass(frozen=True, slots=True)
class Command:
    """One command of an interrupt, with the paths of its markers `pending` and `complete`."""

    job: InterruptJob
    index: int

    @property
    def argv(self) -> tuple[str, ...]:
        return self.job.interrupt.commands[self.index]

    @property
    def name(self) -> str:
        return f"{self.job.interrupt.kind}_{self.index}"

    @property
    def complete(self) -> str:
        return f"{self.job.folder}/{self.name}.complete"

    @property
    def pending(self) -> str:
        return f"{self.job.folder}/{self.name}.pending"

    @property
    def skipping(self) -> Say:
        resource = self.job.settings.resource_id.text
        return Say(f"Skipping interrupt {self.name} because it was already run for {resource}")


def interrupt_mode(job: InterruptJob, view: View) -> Acts:
    """Run the commands that are not marked as complete.

    A killed run is repeated, so a command may run more than once. A reboot is complete when the boot id has changed.
    """
    for warning in job.interrupt.warnings:
        yield Say(warning, is_error=True)
    yield LockInterrupt(job.folder)
    yield Tighten(has_package=False)
    if job.interrupt.kind == NO_OP:
        yield WriteState(f"{job.folder}/{NO_OP}.complete", timestamp(view), "there is nothing to run")
    ran = skipped = 0
    for index in range(len(job.interrupt.commands)):
        command = Command(job, index)
        if view.has_state(command.complete):
            yield from skip(command, view)
            skipped += 1
            continue
        is_over = yield from (reboot(command, view) if job.interrupt.kind == REBOOT else restart(command, view))
        if is_over is not None:
            return is_over
        ran += 1
    return Result("succeeded" if job.interrupt.commands else "noop", ran, skipped)


def skip(command: Command, view: View) -> Generator[Act, Answer, None]:
    # A run that was killed in `promote` has left both markers.
    if view.has_state(command.pending):
        yield RemoveState(command.pending, "the interrupt is complete")
    yield command.skipping


def restart(command: Command, view: View) -> Ending:
    """Mark a command as pending, run it, and mark it as complete. Return None if it succeeded."""
    yield WriteState(command.pending, timestamp(view), "a run that is killed must repeat the command")
    log = command.job.log(command.name, view)
    outcome = yield RunCommand(command.argv, "it has no marker", log)
    assert isinstance(outcome, Outcome)
    if outcome.code == 0:
        yield MoveState(command.pending, command.complete, "the command succeeded")
    else:
        yield RemoveState(command.pending, "the command failed")
    yield from prune(log)
    return None if outcome.code == 0 else (yield from report(command, outcome))


def prune(log: str | None) -> Generator[Act, Answer, None]:
    if log is not None:
        yield PruneLogs(log)


def reboot(command: Command, view: View) -> Ending:
    if not command.job.settings.confirms_by_boot_id:
        return (yield from legacy_reboot(command, view))
    boot_id = view.boot_id()
    if not boot_id:
        yield Say(NO_BOOT_ID, is_error=True)
        return failure_result(NO_BOOT_ID)
    asked_in = pending_boot_id(view.read_state(command.pending))
    if asked_in not in (None, boot_id):
        return (yield from promote(command, view))
    why = "it has no marker" if asked_in is None else "the host has not restarted since it was asked to"
    if asked_in is None:
        marker = json.dumps({"boot_id": boot_id, "time": view.utc_now().timestamp()})
        yield WriteState(command.pending, marker, "the next run compares the boot id")
    log = command.job.log(command.name, view)
    outcome = yield RunCommand(command.argv, why, log)
    assert isinstance(outcome, Outcome)
    yield from prune(log)
    # A host that goes down kills its processes. So if the command was killed by a signal, the marker stays, and the
    # next run decides by the boot id.
    if outcome.code == 0:
        return (yield from await_restart(command))
    if outcome.signal is None:
        yield RemoveState(command.pending, "the command failed")
    return (yield from report(command, outcome))


def promote(command: Command, view: View) -> Ending:
    """Mark a reboot as complete. The new marker is written before the old one is removed, in case the run is killed."""
    yield WriteState(command.complete, timestamp(view), "the boot id has changed")
    yield RemoveState(command.pending, "the interrupt is complete")
    yield command.skipping
    return Result("succeeded", skipped=1)


def await_restart(command: Command) -> Ending:
    seconds = command.job.settings.reboot_wait
    ending = yield AwaitRestart(seconds)
    if ending == "terminated":
        return Result("terminated", ran=1)
    text = f"INTERRUPT FAILED: reboot was accepted but the host did not restart within {seconds:g}s"
    yield Say(text)
    return failure_result(text)


def legacy_reboot(command: Command, view: View) -> Ending:
    """Reboot as the original agent does: mark it as complete first, and trust that the command restarts the host."""
    yield WriteState(command.complete, timestamp(view), "legacy bookkeeping marks a reboot before it")
    log = command.job.log(command.name, view)
    outcome = yield RunCommand(command.argv, "it has no marker", log)
    assert isinstance(outcome, Outcome)
    yield from prune(log)
    if outcome.code == 0:
        return None
    if outcome.code != -15:
        yield RemoveState(command.complete, "the command failed")
    return (yield from report(command, outcome))


def report(command: Command, outcome: Outcome) -> Generator[Act, Answer, Result]:
    text = f"INTERRUPT FAILED: {list(command.argv)!r} return_code: {outcome.code}"
    yield Say(text)
    return failure_result(text)


def timestamp(view: View) -> str:
    return str(view.utc_now().timestamp())


def pending_boot_id(marker: bytes | None) -> str | None:
    """Return the id of the boot in which the reboot was requested; None without a readable marker.

    The marker of the original since v7 has the id, too, in a form that is not known. There it is found by its looks.
    """
    try:
        document = json.loads(marker or b"null")
    except (ValueError, RecursionError):
        document = None
    boot_id = document.get("boot_id") if isinstance(document, dict) else None
    if isinstance(boot_id, str) and boot_id:
        return boot_id
    found = _BOOT_ID.search(marker or b"")
    return found[0].decode().lower() if found is not None else None
