"""Python's cyclic garbage collector, set for a process that keeps a large store and runs for months."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Never

# A collection begins when so many more containers were made than freed; Python's own number is 700. Each request of a
# burst makes a dozen containers that end without the collector, which took a tenth of a drain's CPU to look at them
# again and again. Garbage in cycles stays longer: 20,000 objects are about 2 MiB.
YOUNG_OBJECTS = 20_000
# After so many collections of one generation the next older one is collected too. Python's own number is 10; a smaller
# one leaves less to look at each time.
OLDER_AFTER = 2
# How often all generations are collected. Garbage in cycles stays in memory for that long.
SWEEP_EVERY = 300.0


@contextmanager
def quick_collections() -> Iterator[None]:
    """Let the collector run less often, and full collections look only at objects that are newer than the last one.

    A full collection stops the event loop. Among 150 workload clusters it took 110 ms, and objects that a hostile
    cluster makes us allocate cause one every few seconds. So what survives a full collection is set aside, and only
    `sweep` looks at it again. Most of it has no cycles, and is freed as soon as it is not used any more.
    """
    before = gc.get_threshold()
    gc.set_threshold(YOUNG_OBJECTS, OLDER_AFTER, OLDER_AFTER)
    gc.callbacks.append(_set_survivors_aside)
    try:
        _collect_all()
        yield
    finally:
        gc.callbacks.remove(_set_survivors_aside)
        gc.set_threshold(*before)
        gc.unfreeze()


async def sweep(every: float = SWEEP_EVERY) -> Never:
    """Collect garbage among all objects, from time to time."""
    while True:
        await asyncio.sleep(every)
        _collect_all()


def _collect_all() -> None:
    gc.unfreeze()
    gc.collect()
    # Python waits with the next full collection until there are a quarter as many new objects as this one has kept. The
    # kept objects are frozen now, so that the next full collection comes soon and has little to look at.
    gc.collect()


def _set_survivors_aside(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
