"""The agent's positional arguments, in the current and in the legacy form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from haulout.agent.errors import UsageError
from haulout.agent.modes import INTERRUPT
from haulout.agent.settings import host_path

LEGACY_ROOT = "/root"
DRY_RUN = (
    "--dry-run"  # for authors alone: as the last word it would be taken for interrupt data, and the mode would run
)


@dataclass(frozen=True, slots=True)
class Arguments:
    """One call of the agent."""

    mode: str
    root_mount: str
    copy_dir: str
    interrupt_data: str | None = None


def parse_arguments(words: Sequence[str]) -> Arguments:
    match [*words]:
        case [mode, copy_dir]:
            return _call(mode, LEGACY_ROOT, copy_dir, None)
        case [mode, copy_dir, data] if mode == INTERRUPT:
            return _call(mode, LEGACY_ROOT, copy_dir, data)
        case [mode, root_mount, copy_dir]:
            return _call(mode, root_mount, copy_dir, None)
        case [mode, root_mount, copy_dir, data]:
            return _call(mode, root_mount, copy_dir, data)
        case _:
            raise UsageError("expected MODE ROOT_MOUNT COPY_DIR [INTERRUPT_DATA]")


def _call(mode: str, root_mount: str, copy_dir: str, data: str | None) -> Arguments:
    root = host_path(root_mount, "ROOT_MOUNT")
    return Arguments(mode, root, host_path(copy_dir, "COPY_DIR"), data)
