"""Deadlines by a clock that runs in suspend, when the loop itself was late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from haulout.kube.deadline import LOOK_EVERY, Deadline
from tests.build.clock import ManualClock


class LateLoop(asyncio.SelectorEventLoop):
    """A loop whose clock can be moved on, as by a long computation: every timer until then is due at once."""

    late_for = 0.0

    def time(self) -> float:
        return super().time() + self.late_for


async def _stalled(clock: ManualClock, seconds: float, stall: float) -> str:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LateLoop)
    try:
        async with Deadline(clock, seconds):
            # Let the timers be set before the loop is late.
            await asyncio.sleep(0)
            loop.late_for = stall
            clock.move_to(clock.now() + timedelta(seconds=stall))
            await asyncio.Event().wait()
    except TimeoutError:
        return "timed out"
    raise AssertionError


@pytest.mark.parametrize("seconds", [LOOK_EVERY / 2, LOOK_EVERY, LOOK_EVERY * 2], ids=["before", "with", "after"])
def test_a_deadline_that_passes_in_a_stall_ends_without_an_error_in_a_callback(seconds: float) -> None:
    errors: list[dict[str, Any]] = []
    factory: Callable[[], LateLoop] = LateLoop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: errors.append(context))
        clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        assert runner.run(_stalled(clock, seconds, stall=60.0)) == "timed out"
    assert errors == []
