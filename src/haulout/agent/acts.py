"""Acts: everything that the agent can do on a host, as values (decision 0040).

Paths of state files are relative to the state root, paths of logs to the log root.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from haulout.agent.package import Step


@dataclass(frozen=True, slots=True)
class Say:
    """Print a line on standard output, or on standard error."""

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
    """Take the permissions of other users away from the agent's directories, and set the mode of the package's copy."""

    has_package: bool


@dataclass(frozen=True, slots=True)
class Overlay:
    """Copy the package's root_dir onto the host."""


@dataclass(frozen=True, slots=True)
class WriteState:
    """Write a state file. A durable one survives a crash of the host once the act has ended. `why`: for dry runs."""

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
    """Reserve disk space for a step's flag, so that a full disk stops the step before it runs and not after."""

    package_name: str
    flag: str


@dataclass(frozen=True, slots=True)
class Release:
    """Free the disk space that was reserved for a flag, because the step failed."""

    package_name: str


@dataclass(frozen=True, slots=True)
class RaiseFlag:
    """Turn the reserved file into the flag of a step that succeeded."""

    package_name: str
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Sleep before a step."""

    seconds: float


@dataclass(frozen=True, slots=True)
class SkipStep:
    """Skip a step. The act changes nothing; a dry run prints it with its reason."""

    step: Step
    why: str


@dataclass(frozen=True, slots=True)
class RunStep:
    """Run a step. Arguments and variables may hold secrets, so `repr` does not show them."""

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
class PruneLogs:
    """Remove the oldest logs of the program that wrote this log. A log that cannot be removed only causes a warning."""

    log: str


@dataclass(frozen=True, slots=True)
class AwaitRestart:
    """Wait for the host to restart, which kills the agent.

    The answer is "expired" if the host did not restart in time, and "terminated" if SIGTERM arrived.
    """

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
    | PruneLogs
    | AwaitRestart
    | RemoveCopies
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended. A negative code is the signal that killed it. A process that did not start has failed."""

    code: int
    is_started: bool = True
    has_timed_out: bool = False

    @property
    def signal(self) -> int | None:
        return -self.code if self.is_started and self.code < 0 else None


Answer = Outcome | str | None
