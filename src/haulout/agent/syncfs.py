"""The system call syncfs, which writes everything that is cached of one file system to the disk (decision 0044)."""

from __future__ import annotations

import os
from collections.abc import Iterable

FEW = 8


def sync_files(fds: Iterable[int]) -> None:
    """Write open files to the disk: a few with one fsync each, many with one syncfs for each file system.

    Each fsync waits for the disk to empty its cache, 3 ms on a virtual disk. 10,000 files took half a minute.
    """
    found = list(fds)
    if len(found) > FEW and _sync_file_systems(found):
        return
    for fd in found:
        os.fsync(fd)


def _sync_file_systems(fds: list[int]) -> bool:
    """Call syncfs for each file system of the files. Return False if that was not possible."""
    try:
        import ctypes

        call = ctypes.CDLL(None, use_errno=True).syncfs
    except (ImportError, OSError, AttributeError):
        return False
    return all(call(fd) == 0 for fd in {os.fstat(fd).st_dev: fd for fd in fds}.values())
