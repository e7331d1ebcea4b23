"""Facts: probed because a decision reads them, as often as the most demanding reader wants, and forgotten without readers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import FactDemand, View
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.runtime.probes import Prober
from tests.build.objects import Objects
from tests.build.rows import node
from tests.build.shell import Shell
from tests.build.virtual import virtual

PACE = 10.0


def demand(pace: float) -> FactDemand:
    return FactDemand("weather", "here", timedelta(seconds=pace))


FACT = demand(PACE).key


class Station:
    """Nodes whose label `reads` says how often they want the weather, and the probe that finds it out."""

    def __init__(self) -> None:
        self.shell = Shell(Objects(), Decider("reader", "Node", self.decide))
        self.store = self.shell.kernel.store
        self.weather: Any = "sunny"
        self.probed: list[float] = []
        self.takes = 0.0
        self.read: list[Value] = []
        self.version = 0
        self.prober = Prober(self.store, self.shell.kernel.loop, {"weather": self.probe}, self.shell.wake.poke)

    def decide(self, key: Key, view: View, now: datetime) -> Decision:
        row = view.get(key, NodeRow)
        if row is not None and "reads" in row.labels:
            self.read.append(view.fact(demand(float(row.labels["reads"]))))
        return NOTHING

    async def probe(self, argument: Any) -> Any:
        assert argument == "here"
        self.probed.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.takes)
        if isinstance(self.weather, Exception):
            raise self.weather
        return self.weather

    def put(self, name: str, **labels: str) -> None:
        self.version += 1
        self.store.put(node(name, version=self.version, labels=labels))
        self.shell.wake.poke()

    def known(self) -> tuple[str, object]:
        row = self.store.row(FACT)
        return (row.state, row.value) if isinstance(row, Value) else ("forgotten", None)

    @asynccontextmanager
    async def running(self, **labels: str) -> AsyncIterator[Station]:
        self.store.begin_list("", "Node")
        self.put("a", **labels)
        self.store.end_list("", "Node", 1)
        async with asyncio.TaskGroup() as group, self.shell.running():
            self.shell.driver.after_asking.append(lambda: self.prober.follow(group))
            self.shell.wake.poke()
            await asyncio.sleep(0.5)
            yield self
            self.prober.stop()


@virtual
async def test_reading_is_the_demand_and_the_answer_wakes_the_reader() -> None:
    async with Station().running(reads="10") as station:
        assert [(row.state, row.value) for row in station.read] == [("unknown", None), ("fresh", "sunny")]


@virtual
async def test_nobody_reads_nobody_is_asked() -> None:
    async with Station().running() as station:
        await asyncio.sleep(100)
        assert not station.probed
        assert station.store.row(FACT) is None


@virtual
async def test_it_is_probed_at_its_pace_and_the_same_answer_wakes_nobody() -> None:
    async with Station().running(reads="10") as station:
        await asyncio.sleep(35)
        assert [round(at) for at in station.probed] == [0, 10, 20, 30]
        assert len(station.read) == 2
        station.weather = "rain"
        await asyncio.sleep(10)
        assert station.read[-1].value == "rain"


@virtual
async def test_the_most_eager_reader_sets_the_pace() -> None:
    async with Station().running(reads="10") as station:
        station.put("b", reads="2")
        await asyncio.sleep(9)
        assert [round(at) for at in station.probed] == [0, 0, 2, 4, 6, 8]


@virtual
async def test_it_is_forgotten_within_one_pace_after_the_last_reader_has_gone() -> None:
    async with Station().running(reads="10") as station:
        station.put("a")
        await asyncio.sleep(PACE - 1)
        assert station.known() == ("fresh", "sunny")
        await asyncio.sleep(1)
        assert station.known() == ("forgotten", None)
        assert not station.prober._tasks
        await asyncio.sleep(100)
        assert len(station.probed) == 1


@virtual
async def test_who_reads_again_within_the_pace_finds_what_was_known() -> None:
    async with Station().running(reads="10") as station:
        station.put("a")
        await asyncio.sleep(5)
        station.put("a", reads="10")
        await asyncio.sleep(0.1)
        assert (station.read[-1].state, station.read[-1].value) == ("fresh", "sunny")
        await asyncio.sleep(10)
        assert len(station.probed) == 2


@virtual
async def test_what_was_forgotten_is_probed_anew_when_it_is_read_again() -> None:
    async with Station().running(reads="10") as station:
        station.put("a")
        await asyncio.sleep(20)
        station.weather = "rain"
        station.put("a", reads="10")
        await asyncio.sleep(0.1)
        assert [(row.state, row.value) for row in station.read[-2:]] == [("unknown", None), ("fresh", "rain")]


@virtual
async def test_a_node_that_is_gone_reads_nothing() -> None:
    async with Station().running(reads="10") as station:
        station.store.remove(node_key("a"), 99)
        station.shell.wake.poke()
        await asyncio.sleep(11)
        assert station.known() == ("forgotten", None)


@virtual
async def test_a_probe_that_fails_leaves_the_last_answer_stale_and_then_unknown() -> None:
    async with Station().running(reads="10") as station:
        station.weather = OSError("no route")
        seen = []
        for _ in range(4):
            await asyncio.sleep(10)
            seen.append(station.known())
        assert seen == [("stale", "sunny"), ("stale", "sunny"), ("unknown", None), ("unknown", None)]
        station.weather = "rain"
        await asyncio.sleep(10)
        assert station.known() == ("fresh", "rain")


@virtual
async def test_what_was_never_answered_is_never_stale() -> None:
    station = Station()
    station.weather = OSError("no route")
    async with station.running(reads="10"):
        for _ in range(5):
            assert station.known() == ("unknown", None)
            await asyncio.sleep(10)
        row = station.store.row(FACT)
        assert isinstance(row, Value)
        assert row.error == "OSError: no route"


@virtual
async def test_a_probe_that_does_not_answer_is_given_up_after_its_pace() -> None:
    station = Station()
    station.takes = 1000.0
    async with station.running(reads="10"):
        await asyncio.sleep(10)
        row = station.store.row(FACT)
        assert isinstance(row, Value)
        assert (row.state, row.error) == ("unknown", "TimeoutError")


@virtual
async def test_a_question_that_no_probe_answers_is_said_to_be_one() -> None:
    station = Station()
    station.prober._probes = {}
    async with station.running(reads="10"):
        row = station.store.row(FACT)
        assert isinstance(row, Value)
        assert (row.state, row.error) == ("unknown", "there is no probe named weather")
