"""A running operator, as far as the demo looks at it."""

from __future__ import annotations

from typing import Protocol

from haulout.base.clock import Clock
from haulout.kernel.kernel import Kernel


class Operator(Protocol):
    """A running operator, as far as the demo looks at it."""

    kernel: Kernel
    clock: Clock

    async def run(self) -> int: ...

    def stop(self) -> None: ...
