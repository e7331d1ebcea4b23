"""Splits a streamed answer into lines of bounded length."""

from __future__ import annotations

from collections import deque

from haulout.kube.bounds import Bounds, Text
from haulout.kube.excerpt import Shape
from haulout.kube.http1.connection import HttpAnswer
from haulout.kube.http1.failures import WireError, failure
from haulout.kube.turns import Allowance, Turns


class Lines:
    """An iterator over the lines of a streamed answer, with their ends. None is longer than `bounds` allow."""

    def __init__(
        self,
        act: str,
        answer: HttpAnswer,
        bounds: Bounds,
        keep: Shape | None,
        turns: Turns | None,
        receiving: Allowance | None,
    ) -> None:
        self._act = act
        self._turns = turns
        self._receiving = receiving
        self._answer = answer
        self._bounds = bounds
        self._keep = keep
        self._begun = self._new_line()
        self._lines: deque[bytes] = deque()

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> bytes:
        while not self._lines:
            if self._receiving is not None:
                await self._receiving.wait()
            try:
                piece = await self._answer.readany()
            except WireError as error:
                raise failure(self._act, error) from error
            if not piece and not self._begun.length:
                raise StopAsyncIteration
            await self._split(piece)
        return self._lines.popleft()

    async def _split(self, piece: bytes) -> None:
        """Split a piece of the stream into lines. An empty piece is the end of the stream, and ends the last line."""
        start, end = 0, piece.find(b"\n") + 1
        if self._begun.length and (end or not piece):
            await self._begun.add(piece[:end])
            self._lines.append(self._begun.take())
            self._begun = self._new_line()
            start, end = end, piece.find(b"\n", end) + 1
        while end:
            self._lines.append(piece[start:end])
            start, end = end, piece.find(b"\n", end) + 1
        if start < len(piece):
            await self._begun.add(piece[start:])

    def _new_line(self) -> Text:
        return Text(self._act, self._bounds.object, self._bounds.most, self._keep, self._turns)
