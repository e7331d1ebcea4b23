"""The agent's standard output and error, written without buffering so that their lines keep their order."""

from __future__ import annotations

import contextlib

from haulout.agent.files import write_all

OUT, ERR = 1, 2


def write_out(data: bytes) -> None:
    _write(OUT, data)


def write_err(data: bytes) -> None:
    _write(ERR, data)


def say(text: str, *, is_error: bool = False) -> None:
    data = f"{text}\n".encode(errors="surrogateescape" if _is_escaped(text) else "backslashreplace")
    _write(ERR if is_error else OUT, data)


def _is_escaped(text: str) -> bool:
    """Whether the only surrogates in a text stand for bytes of the command line or of a file name."""
    return all(not "\ud800" <= char <= "\udfff" or "\udc80" <= char <= "\udcff" for char in text)


def _write(fd: int, data: bytes) -> None:
    # A closed pipe must not stop a step halfway.
    with contextlib.suppress(OSError):
        write_all(fd, data)
