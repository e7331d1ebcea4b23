"""Opens the console in the person's browser, without the secret in a command line that others on the computer can read."""

from __future__ import annotations

import contextlib
import html
import os
import tempfile
import threading
import webbrowser
from pathlib import Path

# The browser has read the file long before.
GONE_AFTER = 30.0


def open_page(link: str) -> None:
    """Open the link, through a file that only this user can read and that is soon deleted."""
    handle, name = tempfile.mkstemp(prefix="haulout-console-", suffix=".html")
    with os.fdopen(handle, "w") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(link)}">')
    path = Path(name)
    timer = threading.Timer(GONE_AFTER, _remove, (path,))
    timer.daemon = True
    timer.start()
    threading.Thread(target=_open, args=(path,), daemon=True).start()


def _open(path: Path) -> None:
    with contextlib.suppress(webbrowser.Error, OSError):
        webbrowser.open(path.as_uri())


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
