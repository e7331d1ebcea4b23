"""Facts of the outside world: probed while a decision reads them, as often as it demands."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from haulout.base.clock import SystemClock
from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import FactDemand, View
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.kernel.actor import Actor
from haulout.kernel.loop import Loop
from haulout.runtime.probes import ProbeContext, ProbeFailed, Prober, named_probe
from tests.build.objects import Objects
from tests.build.rows import START, node

DEMAND = FactDemand("p", "question", timedelta(milliseconds=20))


class Asking:
    """One node that reads one fact, and a probe that answers what the test says."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.seen: list[Value] = []
        self.asked = asyncio.Event()
        self.store = Store()
        actor = Actor(self.store)
        self.loop = Loop(self.store, [Decider("d", "Node", self.decide)], actor)
        actor.loop = self.loop
        self.store.set_listing("", "Node", Listing.LISTED)
        self.store.put(node("n"))
        self.prober = Prober(self.store, self.loop, {"p": self.probe}, self.run)

    def decide(self, key: Key, view: View, now: datetime) -> Decision:
        view.node(key.name)
        self.seen.append(view.fact(DEMAND))
        self.asked.set()
        return NOTHING

    async def probe(self, argument: Any) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self) -> None:
        self.loop.run(START)

    async def go(self, most: int) -> list[Value]:
        """Run until the probe has been called so often."""
        self.run()
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            self.prober.follow(group)
            while len(self.seen) < most:
                self.asked.clear()
                await self.asked.wait()
            self.prober.stop()
        return self.seen


async def test_before_the_first_answer_nothing_is_known() -> None:
    first, second = await Asking("yes").go(2)
    assert (first.state, first.value) == ("unknown", None)
    assert (second.state, second.value) == ("fresh", "yes")


async def test_an_answer_may_be_waited_for_longer_than_the_pace() -> None:
    async def slow(argument: str) -> str:
        # Longer than a probe without a time of its own has to answer, whatever its pace.
        await asyncio.sleep(1.1)
        return "yes"

    prober = Prober(Store(), Asking().loop, {"p": slow}, lambda: None)
    patient = msgspec.structs.replace(DEMAND, answer_for=timedelta(seconds=30))
    late, there = await asyncio.gather(prober._probe(DEMAND, 0.02), prober._probe(patient, 0.02))
    assert (late.state, late.error) == ("unknown", "TimeoutError")
    assert (there.state, there.value) == ("fresh", "yes")


async def test_the_same_answer_wakes_nobody() -> None:
    asking = Asking("yes", "yes", "yes", "no")
    await asking.go(3)
    assert [seen.value for seen in asking.seen] == [None, "yes", "no"]


async def test_each_failure_is_news_until_it_recovers() -> None:
    asking = Asking(*[ProbeFailed("in words")] * 3, "yes")
    seen = (await asking.go(5))[1:]
    assert [(each.failures, each.error) for each in seen] == [
        (1, "in words"),
        (2, "in words"),
        (3, "in words"),
        (0, ""),
    ]


async def test_what_fails_without_words_is_told_with_its_type() -> None:
    assert (await Asking(ValueError("odd"), "yes").go(2))[1].error == "ValueError: odd"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        pytest.param("no_such.module:probe", "No module named 'no_such'", id="module"),
        pytest.param("haulout.clients.prometheus:none", "has no attribute 'none'", id="function"),
    ],
)
async def test_a_named_probe_that_cannot_be_loaded_says_so(path: str, error: str) -> None:
    probe = named_probe(path, ProbeContext(SystemClock(), Objects()))
    with pytest.raises(ProbeFailed, match=rf"^the probe {path} cannot be loaded: .*{error}"):
        await probe("question")


@pytest.mark.parametrize("kind", [ProbeFailed, ValueError])
async def test_an_error_that_quotes_a_server_is_one_short_line(kind: type[Exception]) -> None:
    asking = Asking(kind("bytes \udcff\n2026-01-01 forged\x1b[2J " + "x " * 100_000))
    error = (await asking.go(2))[-1].error
    assert (error.isprintable(), len(error)) == (True, 1000)
