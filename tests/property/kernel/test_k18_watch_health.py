"""K18, second sentence: a listed table whose watch has been in trouble for a minute is unreadable again."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.project import Keep
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import NotListed, Record, View
from haulout.kube.errors import ConnectionFailed, KubeError
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump
from haulout.runtime.tables import UNREADABLE_AFTER
from tests.build.clusters import Way
from tests.build.examples import examples
from tests.build.fakeapi import Server, refusal
from tests.build.virtual import LoopClock, VirtualLoop

FAULTS: dict[str, KubeError | None] = {
    "well": None,
    "away": ConnectionFailed("refused"),
    "failing": refusal(503, "ServiceUnavailable"),
    "throttled": refusal(429, "TooManyRequests", retry_after="40"),
    "unauthorized": refusal(401, "Unauthorized"),
}
# The longest wait between two attempts, and what the last one before it asked for.
COMES_BACK_WITHIN = 30.0 + 40.0 + 2.0
PERIODS = st.lists(
    st.tuples(st.sampled_from(sorted(FAULTS)), st.sampled_from([1, 20, 58, 63, 100, 200])), min_size=1, max_size=6
)


class World:
    def __init__(self) -> None:
        self.server = Server()
        self.server.put("a")
        self.way = Way(self.server)
        self.store = Store()
        self.pump = Pump(self.store, LoopClock(), Metrics(), lambda: None)
        self.since = asyncio.get_running_loop().time()

    @property
    def listing(self) -> Listing:
        return self.store.table("", "Node").listing

    def is_readable(self) -> bool:
        """Whether a decision can read the table."""
        with suppress(NotListed):
            View(self.store, Record()).require("Node")
            return True
        return False

    def turn(self, condition: str) -> None:
        if (self.way.fault is None) != (FAULTS[condition] is None):
            self.since = asyncio.get_running_loop().time()
        self.way.fault = FAULTS[condition]
        if self.way.fault is not None:
            self.server.cut()
            self.server.put("b")

    def check(self) -> None:
        lasted = asyncio.get_running_loop().time() - self.since
        if self.way.fault is None and lasted > COMES_BACK_WITHIN:
            assert self.is_readable()
            rows = {row.key.name: str(row.version) for row in self.store.rows("", "Node")}
            assert rows == self.server.picture()
        if self.way.fault is not None and lasted > UNREADABLE_AFTER + 1:
            assert self.listing is Listing.UNREADABLE
            assert not self.is_readable()


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(PERIODS)
def test_k18_table_is_unreadable_after_a_minute_of_trouble_and_listed_when_the_watch_is_well(
    periods: list[tuple[str, int]],
) -> None:
    async def scenario() -> None:
        world = World()
        async with asyncio.TaskGroup() as group:
            world.pump.open(group, world.way, "", "Node", Keep())
            await asyncio.sleep(1)
            assert world.is_readable()
            for condition, seconds in [*periods, ("well", 100)]:
                world.turn(condition)
                for _ in range(seconds):
                    await asyncio.sleep(1)
                    world.check()
            world.pump.close_all()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())


@settings(max_examples=examples(20), deadline=None, derandomize=True)
@given(st.integers(0, 300), st.booleans())
def test_k18_silent_watch_is_noticed_within_two_bookmarks(silent_from: int, streaming: bool) -> None:
    """The connection is half open: no event comes, and no error. Lists are answered all the time."""

    async def scenario() -> None:
        world = World()
        world.server.streaming = "works" if streaming else "422"
        async with asyncio.TaskGroup() as group:
            world.pump.open(group, world.way, "", "Node", Keep())
            await asyncio.sleep(1 + silent_from)
            for stream in world.server.streams:
                stream.stalled = True
            world.server.put("b")
            await asyncio.sleep(95)
            assert {row.key.name for row in world.store.rows("", "Node")} == {"a", "b"}
            assert world.is_readable()
            world.pump.close_all()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())
