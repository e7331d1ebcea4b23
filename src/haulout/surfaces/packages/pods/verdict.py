"""The result of a package's pod, from the states of its init containers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import Enum

import msgspec

# The kubelet's waiting reasons for a container that cannot be started.
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


class PodResult(Enum):
    """How far a pod has come."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class InitContainer(msgspec.Struct, frozen=True, gc=False):
    """The state of one init container.

    `exit_code`: None while it has not ended.
    `waits_for`: the kubelet's reason why it waits.
    `failure`: why it failed, in the agent's words.
    `ended_at`: when it ended; None if its status does not say.
    `last_exit_code`: the exit code of its last run, also while it waits to be started again.
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
        """Return why the container failed: the agent's text, else the exit code, else the reason for which it waits."""
        if self.failure or not self.last_exit_code:
            return self.failure or self.waits_for
        return f"exit code {self.last_exit_code}"

    @property
    def has_failed(self) -> bool:
        if self.exit_code is not None:
            return self.exit_code != 0
        return self.waits_for == CRASHING or self.is_unstartable

    @property
    def is_unstartable(self) -> bool:
        """Whether the kubelet cannot start the container. It tries again, so the container has not failed for good."""
        return self.exit_code is None and self.waits_for in UNSTARTABLE


class PodVerdict(msgspec.Struct, frozen=True):
    """The result of a pod. `container`: the init container that decides the result."""

    result: PodResult
    container: InitContainer = InitContainer()


def verdict(containers: Iterable[InitContainer]) -> PodVerdict:
    """Return the result of a pod. The first failed container decides; if none failed, the last listed one."""
    listed = tuple(containers)
    for each in listed:
        if each.has_failed:
            return PodVerdict(PodResult.FAILED, each)
    if not listed:
        return PodVerdict(PodResult.WAITING)
    last = listed[-1]
    if last.exit_code == 0:
        return PodVerdict(PodResult.SUCCEEDED, last)
    running = next((each for each in listed if each.running), None)
    return PodVerdict(PodResult.RUNNING, running) if running is not None else PodVerdict(PodResult.WAITING, last)
