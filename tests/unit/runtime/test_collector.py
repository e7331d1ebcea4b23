"""Full garbage collections look only at new objects. Those that were set aside are looked at now and then."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import suppress

import pytest

from haulout.runtime.collector import quick_collections, sweep
from tests.build.virtual import virtual


class Ring:
    """An object that keeps itself alive."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    with quick_collections():
        yield


def test_what_survives_a_full_collection_is_not_looked_at_by_the_next() -> None:
    rings = [Ring() for _ in range(1000)]
    before = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() - before >= len(rings)
    assert len(gc.get_objects()) < len(rings)


def test_new_garbage_is_collected_at_once() -> None:
    lost = weakref.ref(Ring())
    gc.collect()
    assert lost() is None


@virtual
async def test_garbage_that_was_set_aside_is_collected_by_the_next_sweep() -> None:
    ring = Ring()
    lost = weakref.ref(ring)
    gc.collect()
    del ring
    gc.collect()
    assert lost() is not None
    with suppress(TimeoutError):
        await asyncio.wait_for(sweep(every=10.0), 15.0)
    assert lost() is None


def test_nothing_stays_aside_afterwards() -> None:
    with quick_collections():
        pass
    assert gc.get_freeze_count() == 0
