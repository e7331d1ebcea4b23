"""What the agent may do, as values. Paths of state are relative to the state root, paths of logs to the log root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from haulout.agent.package import Step


@dataclass(frozen=True, slots=True)
class Say:
    """Print a line."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class LockPackage:
    """Keep other agents from working on the same package until this process ends."""

    package_name: str


@dataclass(frozen=True, slots=True)
class LockInterrupt:
    """Make the directory of an interrupt's markers, and keep other agents from it until this process ends."""

    folder: str


@dataclass(frozen=True, slots=True)
class Tighten:
    """Take permissions of others away from the agent's directories; give the copy of the package its mode."""

    has_package: bool


@dataclass(frozen=True, slots=True)
class Overlay:
    """Copy the package's root_dir onto the host."""


@dataclass(frozen=True, slots=True)
class WriteState:
    """Write a file of the state. A durable one survives a crash of the host once the act has ended."""

    path: str
    text: str
    why: str
    is_durable: bool = True


@dataclass(frozen=True, slots=True)
class RemoveState:
    """Remove a file of the state, if it is there."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class MoveState:
    """Rename a file of the state."""

    path: str
    new_path: str
    why: str


@dataclass(frozen=True, slots=True)
class Reserve:
    """Make room on the disk for a flag, so that a full disk stops a step before it runs and not after."""

    package_name: str
    flag: str


@dataclass(frozen=True, slots=True)
class Release:
    """Give up the room of a flag, because the step failed."""

    package_name: str


@dataclass(frozen=True, slots=True)
class RaiseFlag:
    """Turn the reserved room into the flag."""

    package_name: str
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Sleep before a step."""

    seconds: float


@dataclass(frozen=True, slots=True)
class SkipStep:
    """Leave a step out."""

    step: Step
    why: str


@dataclass(frozen=True, slots=True)
class RunStep:
    """Run a step. The arguments may hold secrets, so that they are in no representation."""

    step: Step
    why: str
    log: str | None
    arguments: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Run a command of an interrupt."""

    argv: tuple[str, ...]
    why: str
    log: str | None


@dataclass(frozen=True, slots=True)
class AwaitRestart:
    """Wait for the host to go down. Answered only if it did not: "expired" or "terminated"."""

    seconds: float


@dataclass(frozen=True, slots=True)
class RemoveCopies:
    """Remove the copies of earlier generations of the package."""


Act = (
    Say
    | LockPackage
    | LockInterrupt
    | Tighten
    | Overlay
    | WriteState
    | RemoveState
    | MoveState
    | Reserve
    | Release
    | RaiseFlag
    | Wait
    | SkipStep
    | RunStep
    | RunCommand
    | AwaitRestart
    | RemoveCopies
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended. A code below zero is the signal that killed it. One that did not start always failed."""

    code: int
    is_started: bool = True
    has_timed_out: bool = False

    @property
    def signal(self) -> int | None:
        return -self.code if self.is_started and self.code < 0 else None


Answer = Outcome | str | None
