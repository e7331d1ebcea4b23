"""A file that is read again when it changes, also if it is a symbolic link that gets another target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Stat = tuple[int, int, int]


class WatchedFile:
    """A file that is read again while the process runs.

    `on_change` is called with the content, or with the error if it cannot be read: at the first `look`, and at each
    `look` that finds a change.
    """

    def __init__(self, path: Path, on_change: Callable[[bytes | OSError], None]) -> None:
        self._path = path
        self._on_change = on_change
        self._stat: Stat | None = None
        self._content: bytes | str | None = None

    def look(self, *, closely: bool = False) -> None:
        """Read the file if its stat has changed, which is cheap to check. `closely`: read it in any case."""
        try:
            found = self._path.stat()
            stat = (found.st_mtime_ns, found.st_ino, found.st_size)
            if stat == self._stat and not closely:
                return
            content: bytes | OSError = self._path.read_bytes()
            self._stat = stat
        except OSError as error:
            self._stat, content = None, error
        known = str(content) if isinstance(content, OSError) else content
        if known != self._content:
            self._content = known
            self._on_change(content)
