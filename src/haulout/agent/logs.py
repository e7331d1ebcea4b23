"""The names of log files, and which of them are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

STAMP = r"-\d{4}-\d\d-\d\d-\d{6}\.log"
STAMP_LENGTH = len("-YYYY-mm-dd-HHMMSS.log")


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
