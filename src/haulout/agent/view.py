"""What the pure core may ask: the state of the host, the environment, the clocks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from haulout.agent.history import CORRUPT_HISTORY, NO_HISTORY, History, parse_history


class View(Protocol):
    """Answers questions at the moment at which they are asked: an earlier step may have changed anything."""

    @property
    def environ(self) -> Mapping[str, str]: ...

    def is_terminated(self) -> bool:
        """Whether SIGTERM has arrived."""

    def local_now(self) -> datetime: ...

    def utc_now(self) -> datetime: ...

    def boot_id(self) -> str:
        """Return the id of the host's current boot, or "" where it cannot be read."""

    def has_state(self, path: str) -> bool:
        """Whether a file of the state exists."""

    def read_state(self, path: str) -> bytes | None:
        """Return the content of a file of the state, or None."""

    def has_config_file(self, name: str) -> bool:
        """Whether the package's configmaps directory has a file."""

    def has_overlay(self) -> bool:
        """Whether the package has a root_dir."""


def read_history(view: View, path: str) -> tuple[History, bool]:
    """Return the history, and whether the file is there but corrupt."""
    text = view.read_state(path)
    if text is None:
        return NO_HISTORY, False
    history = parse_history(text)
    return (CORRUPT_HISTORY, True) if history is None else (history, False)
