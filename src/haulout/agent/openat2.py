"""The system call openat2, which opens a path without letting it leave a directory (Linux 5.6) (decision 0041)."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from typing import Any

NUMBER = 437  # the same on every architecture
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_BENEATH = 0x08
REFUSED = (errno.ENOSYS, errno.EPERM)  # the errors of an old kernel, and of a seccomp profile without the call

Open = Callable[[int, str, int], int]


def find_openat2() -> Open | None:
    """Return a function (directory, path, flags) -> descriptor; None if this computer does not support openat2."""
    try:
        import ctypes

        call = ctypes.CDLL(None, use_errno=True).syscall
    except (ImportError, OSError, AttributeError):
        return None

    def open_beneath(directory: int, path: str, flags: int) -> int:
        how = struct.pack("QQQ", flags | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
        return _checked(call, ctypes, directory, os.fsencode(path), how)

    try:
        os.close(open_beneath(_here(), ".", os.O_RDONLY | os.O_DIRECTORY))
    except OSError as error:
        return None if error.errno in REFUSED else open_beneath
    return open_beneath


def _here() -> int:
    return -100  # AT_FDCWD


def _checked(call: Any, ctypes: Any, directory: int, path: bytes, how: bytes) -> int:
    found = int(call(ctypes.c_long(NUMBER), ctypes.c_int(directory), path, how, ctypes.c_size_t(len(how))))
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found
