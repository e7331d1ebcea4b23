"""Operators in virtual time that are killed at a write."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from haulout.kernel.requests import Answer, Body, ListPods, Look
from haulout.plan.virtual import VirtualDriver


class KilledAtWrite(Exception):
    """The operator was killed just before or just after a write."""


class MortalDriver(VirtualDriver):
    """A driver that can die at a write.

    `writes`: how many there were. `dies_at`: the number of the write at which it dies, before (False) or after it (True).
    """

    writes = 0
    dies_at = (0, False)

    def _carried_out(self, body: Body) -> Answer:
        if isinstance(body, Look | ListPods):
            return super()._carried_out(body)
        self.writes += 1
        number, is_after = self.dies_at
        if self.writes == number and not is_after:
            raise KilledAtWrite
        answer = super()._carried_out(body)
        if self.writes == number:
            raise KilledAtWrite
        return answer


def every_kill(writes: int) -> Iterator[tuple[int, bool]]:
    """Return all kills of a life with so many writes: before and after each."""
    return ((number, is_after) for number in range(1, writes + 1) for is_after in (False, True))


def outlive(act: Callable[[], object], restart: Callable[[], object]) -> bool:
    """Act, and if the operator is killed meanwhile, start another one and act again. Return whether it was killed."""
    try:
        act()
    except KilledAtWrite:
        restart()
        act()
        return True
    return False
