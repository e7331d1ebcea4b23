"""Limits on how much of an answer is held in memory, counted after decompression."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from typing import Protocol

import msgspec

from haulout.kube.errors import TooLarge
from haulout.kube.excerpt import LONGEST_OBJECT, SLICE, Excerpting, Shape, count_values
from haulout.kube.turns import Allowance, Turns

# A text that is longer than this is read in turns with other clusters. Ordinary objects of other clusters are shorter.
LONG = 2**18


class Bounds(msgspec.Struct, frozen=True):
    """Limits on the memory that one answer may take. Lengths are in bytes, counted after decompression.

    `object`: the longest object, or line of a watch, that is held whole.
    `body`: the longest answer of any other kind, such as a page of a list.
    `most`: the longest answer or line that is read to its end if only an excerpt of it is held.
    `refusal`: the longest body of an error answer that is read.
    `ahead`: how much is read from the network before the reader asks for it.
    `compressed`: whether compressed answers are asked for and read.
    `values`: the most objects, arrays and strings in an answer that is decoded at once; 0 is any number.
    """

    object: int = LONGEST_OBJECT
    body: int = 8 * 2**20
    most: int = 64 * 2**20
    refusal: int = 256 * 2**10
    ahead: int = 2**19
    compressed: bool = True
    values: int = 0

    def check_values(self, act: str, text: bytes) -> None:
        """Raise `TooLarge` if a text has more values than may be decoded at once."""
        if self.values and count_values(text) > self.values:
            raise TooLarge(f"{act}: the answer has more than {self.values} values, and is not decoded")


HOME = Bounds()
# The bounds for clusters other than our own. There may be hundreds of them, and the owner of one may be hostile. A
# compressed answer can unpack to a thousand times its length. Refusing compression costs little: nearly all that is
# read there are watches, which are never compressed.
AWAY = Bounds(object=2**18, body=2**20, most=16 * 2**20, refusal=2**16, ahead=2**16, compressed=False, values=40_000)


class Readable(Protocol):
    """The body of an answer, in pieces."""

    async def readany(self) -> bytes:
        """Return the next piece, as it has arrived; nothing at the end."""
        ...


class Text:
    """A text that arrives in pieces. Up to `whole` bytes it is held whole, of a longer one only an excerpt is held.

    `keep`: which fields the excerpt has; without it, a text of more than `whole` bytes raises `TooLarge`.
    `most`: the length from which on even an excerpt raises `TooLarge`.
    `turns`: the turns in which long texts of several clusters are read; None reads without waiting for a turn.
    """

    def __init__(
        self, act: str, whole: int, most: int = 0, keep: Shape | None = None, turns: Turns | None = None
    ) -> None:
        self._act = act
        self._turns = turns
        self._whole = whole
        self._most = most if keep is not None else whole
        self._keep = keep
        # A BytesIO returns its whole content without a copy.
        self._held = io.BytesIO()
        self._excerpting: Excerpting | None = None
        self.length = 0

    async def read(self, content: Readable, receiving: Allowance | None = None) -> None:
        """Read a body to its end. Raises `TooLarge`, and the errors of the reader.

        `receiving`: the allowance for the time that receiving small TLS records takes.
        """
        while piece := await content.readany():
            await self.add(piece)
            if receiving is not None:
                await receiving.wait()

    async def add(self, piece: bytes) -> None:
        """Add the next piece of the text. Raises `TooLarge`."""
        self.length += len(piece)
        if self.length > self._most:
            raise TooLarge(f"{self._act}: the answer is longer than {self._most} bytes, and is not read any further")
        if self.length <= self._whole or self._keep is None:
            if self._turns is not None and self.length > LONG:
                async with self._turns.turn():
                    self._held.write(piece)
            else:
                self._held.write(piece)
            return
        if self._excerpting is None:
            self._excerpting = Excerpting(self._keep)
            piece = self._held.getvalue() + piece
            self._held = io.BytesIO()
        for start in range(0, len(piece), SLICE):
            await self._look_through(self._excerpting.feed(piece[start : start + SLICE]))

    async def _look_through(self, steps: Iterator[None]) -> None:
        """Parse a slice of a long text, and give other tasks a turn after each step.

        A long text takes many times as long to parse as all other work together.
        """
        if self._turns is None:
            for _ in steps:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            return
        more = True
        while more:
            async with self._turns.turn():
                more = next(steps, self) is not self

    def take(self) -> bytes:
        """Return the text, or its excerpt."""
        return self._held.getvalue() if self._excerpting is None else self._excerpting.finish()
