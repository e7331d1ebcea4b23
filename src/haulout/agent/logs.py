"""The names of log files, and which of them are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

STAMP = r"-\d{4}-\d\d-\d\d-\d{6}\.log"
STAMP_LENGTH = len("-YYYY-mm-dd-HHMMSS.log")


class LogBound:
    """The limits of one log file: a number of bytes, and a number of lines. A limit of 0 is none."""

    def __init__(self, most_bytes: int, most_lines: int) -> None:
        self._most_bytes = most_bytes
        self._most_lines = most_lines
        self._bytes = self._lines = 0
        self._is_cut = False

    def keep(self, data: bytes) -> bytes:
        """Return what still goes into the log. At a limit it ends with a line that says so; after that it is empty."""
        if self._is_cut:
            return b""
        part, limit = data, ""
        if self._most_lines and self._lines + part.count(b"\n") > self._most_lines:
            part = first_lines(part, self._most_lines - self._lines)
            limit = f"{self._most_lines} lines (SKYHOOK_AGENT_LOG_LINES)"
        if self._most_bytes and self._bytes + len(part) > self._most_bytes:
            part = part[: self._most_bytes - self._bytes].decode(errors="ignore").encode()  # no half characters
            limit = f"{self._most_bytes} bytes (SKYHOOK_AGENT_LOG_BYTES)"
        self._bytes += len(part)
        self._lines += part.count(b"\n")
        if not limit:
            return part
        self._is_cut = True
        return part + f"\nThe log was cut here, at {limit}. The log of the container has the rest.\n".encode()


def first_lines(data: bytes, count: int) -> bytes:
    return b"\n".join(data.split(b"\n", count)[:count])


def log_name(stem: str, utc_now: datetime) -> str:
    return f"{stem}-{utc_now:%Y-%m-%d-%H%M%S}.log"


def superfluous(log: str, files: Iterable[tuple[str, float]], keep: int) -> list[str]:
    """Return the names of the logs to delete, from the (name, mtime) pairs of a directory.

    `log` is the name of the newest log of the same program. A log and its .err are kept or deleted together.
    """
    pattern = re.compile(re.escape(log[:-STAMP_LENGTH]) + STAMP + r"(\.err)?")
    runs: dict[str, tuple[float, list[str]]] = {}
    for name, mtime in files:
        if pattern.fullmatch(name):
            run = name.removesuffix(".err")
            newest, names = runs.get(run, (mtime, []))
            runs[run] = (max(newest, mtime), [*names, name])
    ordered = sorted(runs, key=lambda run: (runs[run][0], run), reverse=True)
    return [name for run in ordered[keep:] for name in runs[run][1]]
