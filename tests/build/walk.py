"""Long random walks that shrink: a string of bytes chooses every move, so that thousands of steps take only a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import note
from hypothesis import strategies as st

T = TypeVar("T")
Move = Callable[[], None]


def tapes(least: int = 60, most: int = 140) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=least, max_size=most)


class Tape:
    """A string of bytes that makes choices, read from left to right. Beyond its end every choice is the first."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def __bool__(self) -> bool:
        return self._position < len(self._content)

    def pick(self, options: Sequence[T]) -> T:
        chosen = self._content[self._position] if self else 0
        self._position += 1
        return options[chosen % len(options)]


class Walk:
    """A random walk.

    Subclasses return the possible moves, the harmless ones first, and check what must hold after each.
    """

    def __init__(self, tape: bytes) -> None:
        self.tape = Tape(tape)

    def moves(self) -> Sequence[Move]:
        raise NotImplementedError

    def check(self) -> None:
        """Assert what must hold after every move."""

    def finish(self) -> None:
        """Assert what must hold in the end, once everything under way has arrived."""

    def go(self) -> None:
        self.check()
        while self.tape:
            move = self.tape.pick(self.moves())
            note(getattr(move, "__name__", repr(move)))
            move()
            self.check()
        note("finish")
        self.finish()
