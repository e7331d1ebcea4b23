"""The agent's positional arguments, in the current and in the legacy form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from haulout.agent.errors import UsageError
from haulout.agent.modes import INTERRUPT
from haulout.agent.settings import host_path

LEGACY_ROOT = "/root"
DRY_RUN = "--dry-run"


@dataclass(frozen=True, slots=True)
class Arguments:
    """One call of the agent."""

    mode: str
    root_mount: str
    copy_dir: str
    interrupt_data: str | None = None
    is_dry_run: bool = False


def parse_arguments(words: Sequence[str]) -> Arguments:
    # The option may stand at any place. As the last word it would otherwise be taken for interrupt data, and the mode
    # would really run.
    is_dry_run = DRY_RUN in words
    match [word for word in words if word != DRY_RUN]:
        case [mode, copy_dir]:
            return _call(mode, LEGACY_ROOT, copy_dir, None, is_dry_run)
        case [mode, copy_dir, data] if mode == INTERRUPT:
            return _call(mode, LEGACY_ROOT, copy_dir, data, is_dry_run)
        case [mode, root_mount, copy_dir]:
            return _call(mode, root_mount, copy_dir, None, is_dry_run)
        case [mode, root_mount, copy_dir, data]:
            return _call(mode, root_mount, copy_dir, data, is_dry_run)
        case _:
            raise UsageError("expected MODE ROOT_MOUNT COPY_DIR [INTERRUPT_DATA]")


def _call(mode: str, root_mount: str, copy_dir: str, data: str | None, is_dry_run: bool) -> Arguments:
    root = host_path(root_mount, "ROOT_MOUNT")
    return Arguments(mode, root, host_path(copy_dir, "COPY_DIR"), data, is_dry_run)
