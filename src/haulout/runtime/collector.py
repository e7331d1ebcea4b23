"""Python's cyclic garbage collector, set for a process that keeps a large store and runs for months."""

from __future__ import annotations

import gc

# So many more containers made than freed start a collection; Python's own number is 700. A burst of requests makes
# a dozen containers each, which all end without the collector: it only looked at them again and again, a tenth of
# the CPU of a drain. Garbage in cycles waits for longer: 20,000 objects are about 2 MiB.
YOUNG_OBJECTS = 20_000


def set_up_collector() -> None:
    """Let the collector run less often, and leave out the modules and classes that are loaded by now."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
