"""Configures Python's cyclic garbage collector for a process with a large store that runs for months.

See decision 0070.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Never

# A collection begins when so many more containers were allocated than freed. Python's default is 700. Each request of a
# burst allocates a dozen containers that are freed without the collector, and scanning them again and again took a
# tenth of a drain's CPU. The price is that garbage in cycles stays longer: 20,000 objects are about 2 MiB.
YOUNG_OBJECTS = 20_000
# After so many collections of one generation the next older one is collected, too. Python's default is 10. With a
# smaller number there is less to scan each time.
OLDER_AFTER = 2
# How often all generations are collected. Garbage in cycles stays in memory for that long.
SWEEP_EVERY = 300.0


@contextmanager
def quick_collections() -> Iterator[None]:
    """Let the collector run less often, and let full collections scan only objects that are newer than the last one.

    A full collection blocks the event loop. With 150 workload clusters it took 110 ms, and a hostile cluster can cause
    one every few seconds by making us allocate objects. So objects that survive a full collection are set aside, and
    only `sweep` scans them again. Most of them have no cycles, and are freed as soon as they are not used any more.
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
    """Collect garbage among all objects every few minutes, including those that were set aside."""
    while True:
        await asyncio.sleep(every)
        _collect_all()


def _collect_all() -> None:
    gc.unfreeze()
    gc.collect()
    # Python begins the next full collection when there are a quarter as many new objects as the last one has kept. The
    # kept objects are frozen by now. So this second collection keeps few objects, and the next one comes soon.
    gc.collect()


def _set_survivors_aside(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
