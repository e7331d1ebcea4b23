"""The C library's allocator, set for a process whose tables grow and whose connections have large buffers."""

from __future__ import annotations

import contextlib
import ctypes

# The parameters of mallopt, from malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# uvloop gives each TLS connection a buffer of this size.
LARGE_BLOCK = 256 * 1024
# So much free memory at the end of the heap is kept, so that it is not asked of the system again and again.
KEPT_FREE = 512 * 1024


def map_large_blocks() -> None:
    """Let the allocator map each large block by itself, so that the system gets it back when it is freed.

    By default glibc does so until the first large block is freed. From then on it cuts blocks of that size from its
    heap. A table that has outgrown its memory leaves a hole there, and the buffer of a connection that only waits takes
    256 KiB that have been used before instead of the few KB that it writes to.

    C libraries other than glibc are left as they are.
    """
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGE_BLOCK)
        mallopt(_TRIM_THRESHOLD, KEPT_FREE)
