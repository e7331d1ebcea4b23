"""What a package's pod has come to, by the states of its init containers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import Enum

import msgspec

# The kubelet's reasons for a container that cannot be started. An exit code other than 0 is a failure too.
UNSTARTABLE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
CRASHING = "CrashLoopBackOff"


class Result(Enum):
    """How far the containers of a pod have come."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class InitContainer(msgspec.Struct, frozen=True, gc=False):
    """How one init container stands.

    `exit_code` None: it has not ended. `ended_at`: when it did, where its end says so.
    `failure`: why it failed, in the agent's words. `last_exit_code`: that of its last end, also while it waits to run again.
    """

    name: str = ""
    exit_code: int | None = None
    waits_for: str = ""
    running: bool = False
    restarts: int = 0
    failure: str = ""
    ended_at: datetime | None = None
    last_exit_code: int | None = None

    @property
    def cause(self) -> str:
        """Return why it failed, as far as its status says: the step, else the exit code, else what it waits for."""
        if self.failure or not self.last_exit_code:
            return self.failure or self.waits_for
        return f"exit code {self.last_exit_code}"

    @property
    def has_failed(self) -> bool:
        if self.exit_code is not None:
            return self.exit_code != 0
        return self.waits_for == CRASHING or self.waits_for in UNSTARTABLE


class Verdict(msgspec.Struct, frozen=True):
    """The result of a pod. `container`: the one that it follows from."""

    result: Result
    container: InitContainer = InitContainer()


def verdict(containers: Iterable[InitContainer]) -> Verdict:
    """Return what a pod has come to. The first failure counts; without one, the last container that is listed."""
    listed = tuple(containers)
    for each in listed:
        if each.has_failed:
            return Verdict(Result.FAILED, each)
    if not listed:
        return Verdict(Result.WAITING)
    last = listed[-1]
    if last.exit_code == 0:
        return Verdict(Result.SUCCEEDED, last)
    running = next((each for each in listed if each.running), None)
    return Verdict(Result.RUNNING, running) if running is not None else Verdict(Result.WAITING, last)
