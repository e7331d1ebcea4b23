"""Long random walks that shrink: a string of bytes chooses every move, so that thousands of steps cost a second."""

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
    """Read from left to right; beyond its end every choice is the first."""

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
    """Subclasses say which moves there are at the moment, the harmless ones first, and what must hold after each."""

    def __init__(self, tape: bytes) -> None:
        self.tape = Tape(tape)

    def moves(self) -> Sequence[Move]:
        raise NotImplementedError

    def check(self) -> None:
        """Holds after every move."""

    def finish(self) -> None:
        """Holds in the end, once all that is under way has arrived."""

    def go(self) -> None:
        self.check()
        while self.tape:
            move = self.tape.pick(self.moves())
            note(getattr(move, "__name__", repr(move)))
            move()
            self.check()
        note("finish")
        self.finish()
