"""The interface of a running operator that the demo uses. The composition root passes one in."""

from __future__ import annotations

from typing import Protocol

from haulout.base.clock import Clock
from haulout.kernel.kernel import Kernel


class Operator(Protocol):
    """A running operator, with the parts of its interface that the demo uses."""

    kernel: Kernel
    clock: Clock

    async def run(self) -> int: ...

    def stop(self) -> None: ...
