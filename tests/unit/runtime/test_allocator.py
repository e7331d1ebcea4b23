"""Large blocks of memory are mapped separately, also after others of their size have been freed."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

CODE = """
import ctypes, re, sys
from pathlib import Path
from haulout.runtime.allocator import LARGE_BLOCK, map_large_blocks

def heap():
    (place,) = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) .*\\[heap\\]$", Path("/proc/self/maps").read_text(), re.MULTILINE)
    return range(int(place[0], 16), int(place[1], 16))

if sys.argv[1] == "set":
    map_large_blocks()
library = ctypes.CDLL(None)
library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
library.free(library.malloc(16 * LARGE_BLOCK))
print(library.malloc(LARGE_BLOCK) in heap())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
@pytest.mark.parametrize(("setting", "is_in_heap"), [("set", "False"), ("unset", "True")])
def test_a_large_block_is_mapped_after_a_larger_one_was_freed(setting: str, is_in_heap: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, setting], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == (is_in_heap, "")
