"""Runs commands without privileges, as the manifests ask for: any uid, no capability, no writable file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Directories that every Linux has, and that neither the program nor a test has a use for.
FOLDER, STAGE = Path("/srv"), Path("/media")
NEEDED = (Path(sys.base_prefix), ROOT)
DROP = ("--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")


def locked(words: Iterable[str], folder: Path, uid: int) -> list[str]:
    """Return the command line that runs `words` without privileges, with `folder` mounted at FOLDER. Only root can run it.

    Everything happens in a mount namespace of its own, which ends with the command.
    """
    lines = [f"mount --bind {_quoted(folder)} {FOLDER}", *_opened()]
    # No file system is writable for the program. Those that cannot be remounted are the kernel's own.
    lines.append(
        "awk '{print $2}' /proc/self/mounts | while read -r at; do mount -o remount,bind,ro \"$at\" || :; done"
    )
    drop = ("setpriv", f"--reuid={uid}", f"--regid={uid}", *DROP)
    lines.append(f"cd / && exec {shlex.join((*drop, *words))}")
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", "\n".join(lines)]


def _opened() -> list[str]:
    """Return the lines that make interpreter and program readable where a parent directory is closed to others."""
    closed = {parent for path in NEEDED for parent in path.parents if not parent.stat().st_mode & 0o001}
    outermost = {path for path in closed if not closed & set(path.parents)}
    if not outermost:
        return []
    lines = [f"mount -t tmpfs -o mode=755 stage {STAGE}"]
    lines += [
        f"mkdir {STAGE}/{number} && mount --bind {_quoted(path)} {STAGE}/{number}" for number, path in enumerate(NEEDED)
    ]
    lines += [f"mount -t tmpfs -o mode=755 opened {_quoted(path)}" for path in sorted(outermost)]
    lines += [
        f"mkdir -p {_quoted(path)} && mount --bind {STAGE}/{number} {_quoted(path)}"
        for number, path in enumerate(NEEDED)
        if outermost & set(path.parents)
    ]
    return lines


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
