"""Configures the C library's memory allocator for growing tables and connections with large buffers."""

from __future__ import annotations

import contextlib
import ctypes

# The parameters of mallopt, from malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# uvloop gives each TLS connection a buffer of this size.
LARGE_BLOCK = 256 * 1024
# So many free bytes at the end of the heap are kept. Otherwise they would be requested from the system again and again.
KEPT_FREE = 512 * 1024


def map_large_blocks() -> None:
    """Let the allocator map each large block by itself, so that the system gets it back when it is freed.

    By default glibc does so until the first large block is freed. From then on it cuts blocks of that size from its
    heap. A table that grows leaves a hole there. And the buffer of an idle connection then takes 256 KiB of memory that
    has been used before, instead of the few KB that it writes to.

    With another C library than glibc this does nothing.
    """
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGE_BLOCK)
        mallopt(_TRIM_THRESHOLD, KEPT_FREE)
