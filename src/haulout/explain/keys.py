"""Reads single keys from the terminal while a picture is watched."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from haulout.explain.watch_state import DOWN, ENTER, ERASE, ESCAPE, UP

_SEQUENCES = {
    "\x1b[A": UP,
    "\x1bOA": UP,
    "\x1b[B": DOWN,
    "\x1bOB": DOWN,
    "\r": ENTER,
    "\n": ENTER,
    "\x7f": ERASE,
    "\b": ERASE,
}


def names_of(typed: str) -> Iterator[str]:
    """Yield the names of the keys in what a terminal has sent. A sequence of another key is left out."""
    while typed:
        if typed[:3] in _SEQUENCES:
            yield _SEQUENCES[typed[:3]]
            typed = typed[3:]
        elif typed[0] == "\x1b":
            if len(typed) > 1:
                return
            yield ESCAPE
            return
        else:
            yield _SEQUENCES.get(typed[0], typed[0])
            typed = typed[1:]


@contextmanager
def keys(on_key: Callable[[str], None]) -> Iterator[bool]:
    """Call `on_key` for each key that is pressed. Yield whether keys can be read: stdin is a terminal."""
    if not sys.stdin.isatty():
        yield False
        return
    import termios
    import tty

    source = sys.stdin.fileno()
    before = termios.tcgetattr(source)
    loop = asyncio.get_running_loop()

    def read() -> None:
        for name in names_of(os.read(source, 64).decode(errors="replace")):
            on_key(name)

    try:
        tty.setcbreak(source)
        loop.add_reader(source, read)
        yield True
    finally:
        loop.remove_reader(source)
        termios.tcsetattr(source, termios.TCSADRAIN, before)
