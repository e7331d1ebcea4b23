"""The questions that a mode may ask about its host: state files, the package, the environment and the clocks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from haulout.agent.history import CORRUPT_HISTORY, NO_HISTORY, History, parse_history


class View(Protocol):
    """A view of the host, read anew at each question, because each step may have changed it."""

    @property
    def environ(self) -> Mapping[str, str]: ...

    def is_terminated(self) -> bool:
        """Whether SIGTERM has arrived."""

    def local_now(self) -> datetime: ...

    def utc_now(self) -> datetime: ...

    def boot_id(self) -> str:
        """Return the id of the host's current boot, or "" where it cannot be read."""

    def has_state(self, path: str) -> bool:
        """Whether a state file exists. `path` is relative to the state root."""

    def read_state(self, path: str) -> bytes | None:
        """Return the content of a state file, or None if it does not exist."""

    def has_config_file(self, name: str) -> bool:
        """Whether the package's configmaps directory has a file of that name."""

    def has_overlay(self) -> bool:
        """Whether the package has a root_dir."""


def read_history(view: View, path: str) -> tuple[History, bool]:
    """Return the history of a package, and whether its file exists but is corrupt."""
    text = view.read_state(path)
    if text is None:
        return NO_HISTORY, False
    history = parse_history(text)
    return (CORRUPT_HISTORY, True) if history is None else (history, False)
