"""The history of a package on a host: which version is installed, and when each version was installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

UNINSTALLED = "uninstalled"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class History:
    """The history of a package. `NO_HISTORY` and `CORRUPT_HISTORY` stand for a missing and an unreadable file."""

    current_version: str
    entries: tuple[Mapping[str, Any], ...] = ()


NO_HISTORY = History(UNKNOWN)
CORRUPT_HISTORY = History("")


def history_path(package_name: str) -> str:
    """Return the path of a package's history file below the state root."""
    return f"history/{package_name}.json"


def parse_history(text: bytes) -> History | None:
    """Return the history in a file's content; None if it is not valid."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match document:
        case {"current-version": str(version), "history": [*entries]} if all(isinstance(one, dict) for one in entries):
            return History(version, tuple(entries))
        case _:
            return None


def history_text(before: History, version: str, utc_now: datetime) -> str:
    """Return the content of the history file with a new entry, which comes first."""
    entry = {"version": version, "time": utc_now.isoformat(timespec="microseconds")}
    return json.dumps({"current-version": version, "history": [entry, *before.entries]})
