"""The forecasts of a console: shared, one at a time, for as long as a page waits, and a share of them for each caller."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from haulout.console.forecasts import (
    ASKED_WITHIN,
    DONE,
    FAILED,
    FRESH_FOR,
    MOST_OF_CALLER,
    MOST_UNDER_WAY,
    RUNNING,
    WAITED_FOR,
    WAITING,
    Changes,
    Crowded,
    ForecastDocument,
    Forecasts,
)
from tests.build.clock import ManualClock
from tests.build.rows import START

PATIENCE = 30.0
# Stands for the process of a forecast: it notes that it has begun, tells how far it is, and ends when the test says so.
PROCESS = """
import json, os, pathlib, sys, time
folder, work = pathlib.Path(sys.argv[1]), json.load(sys.stdin)
name = work["changes"].get("maintain") or "fleet"
(folder / f"{name}.new").write_text(str(os.getpid()))
(folder / f"{name}.new").rename(folder / f"{name}.begun")
print(json.dumps({"what": "planning", "share": 0.5}), flush=True)
while not (folder / f"{name}.go").exists():
    time.sleep(0.01)
sys.stdout.write((folder / f"{name}.go").read_text())
"""
PLAN = '{"document": {"nodes": []}}'
FLEET = Changes()


def of(name: str) -> Changes:
    return Changes(maintain=name)


class Site:
    """The forecasts of a console, whose processes wait for the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock(START)
        (folder / "process.py").write_text(PROCESS)
        self.forecasts = Forecasts("", {}, self.clock, (sys.executable, str(folder / "process.py"), str(folder)))

    def begin(self, changes: Changes = FLEET, caller: str = "jane", seq: int = 1) -> str:
        return self.forecasts.begin(caller, seq, changes)

    def get(self, key: str) -> ForecastDocument:
        found = self.forecasts.get(key)
        assert found is not None
        return found

    def say(self, name: str, line: str = PLAN) -> None:
        (self.folder / "said").write_text(line + "\n")
        (self.folder / "said").rename(self.folder / f"{name}.go")

    def has_begun(self, name: str) -> bool:
        return (self.folder / f"{name}.begun").exists()

    def is_running(self, name: str) -> bool:
        return Path(f"/proc/{(self.folder / f'{name}.begun').read_text()}").exists()

    def later(self, seconds: float) -> None:
        self.clock.move_to(self.clock.now() + timedelta(seconds=seconds))

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():  # noqa: ASYNC110 - other processes and their files have no events
                await asyncio.sleep(0.01)

    async def finish(self, key: str, name: str) -> None:
        self.say(name)
        await self.ended(key, DONE)

    async def ended(self, key: str, state: str) -> None:
        """Wait until a forecast has ended, and its process with it."""
        await self.until(lambda: self.get(key).state == state)
        await self.until(lambda: f"forecast {key}" not in {task.get_name() for task in asyncio.all_tasks()})


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path)
    yield made
    tasks = [task for task in asyncio.all_tasks() if task.get_name().startswith("forecast")]
    made.forecasts.end_all()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_pages_of_a_fleet_that_moves_share_one_forecast(site: Site) -> None:
    keys = {site.begin(caller=f"c{seq}", seq=seq) for seq in range(20)}
    (key,) = keys
    await site.finish(key, "fleet")
    site.later(FRESH_FOR - 1)
    assert site.begin(seq=99) == key
    site.later(2)
    assert site.begin(seq=100) != key


async def test_a_what_if_is_about_the_fleet_of_now(site: Site) -> None:
    key = site.begin(of("a"))
    assert site.begin(of("a"), seq=2) == key
    await site.finish(key, "a")
    assert site.begin(of("a")) == key
    assert site.begin(of("a"), seq=2) != key


async def test_one_runs_at_a_time(site: Site) -> None:
    first, second = site.begin(of("a"), "jane"), site.begin(of("b"), "joe")
    await site.until(lambda: site.has_begun("a"))
    await site.until(lambda: site.get(first).progress == 0.5)
    assert (site.get(first).state, site.get(second).state) == (RUNNING, WAITING)
    assert not site.has_begun("b")
    await site.finish(first, "a")
    await site.until(lambda: site.has_begun("b"))


async def test_it_is_cancelled_when_no_page_waits(site: Site) -> None:
    left, awaited = site.begin(of("a"), "jane"), site.begin(of("b"), "joe")
    await site.until(lambda: site.has_begun("a"))
    site.later(WAITED_FOR - 1)
    site.get(awaited)
    site.later(2)
    await site.until(lambda: site.has_begun("b"))
    assert site.forecasts.get(left) is None
    assert not site.is_running("a")


async def test_it_may_take_minutes_while_a_page_asks(site: Site) -> None:
    key = site.begin()
    await site.until(lambda: site.has_begun("fleet"))
    for _ in range(60):
        site.later(10)
        assert site.get(key).state in (WAITING, RUNNING)
        await asyncio.sleep(0)
    assert site.is_running("fleet")
    await site.finish(key, "fleet")
    assert site.get(key).plan is not None


async def test_a_caller_has_a_share_and_the_console_a_limit(site: Site) -> None:
    callers = MOST_UNDER_WAY // MOST_OF_CALLER
    for number in range(MOST_UNDER_WAY):
        site.begin(of(f"n{number}"), f"c{number % callers}")
    with pytest.raises(Crowded):
        site.begin(of("more"), "c0")
    with pytest.raises(Crowded):
        site.begin(of("more"), "another")
    assert site.begin(caller="another")


async def test_a_caller_who_begins_another_loses_one_that_no_page_asks_for(site: Site) -> None:
    keys = [site.begin(of(f"n{number}")) for number in range(MOST_OF_CALLER)]
    site.later(ASKED_WITHIN + 1)
    site.get(keys[1])
    assert site.begin(of("more"))
    assert site.get(keys[1]).state in (WAITING, RUNNING)
    assert site.forecasts.get(keys[0]) is None


async def test_one_that_failed_is_made_again(site: Site) -> None:
    key = site.begin()
    site.say("fleet", '{"error": "the cluster cannot be read"}')
    await site.ended(key, FAILED)
    assert site.get(key).detail == "the cluster cannot be read"
    assert site.begin() != key


async def test_a_process_that_ends_without_a_word_is_a_failure(site: Site) -> None:
    key = site.begin()
    site.say("fleet", "{}")
    await site.ended(key, FAILED)
    assert "ended with 0" in site.get(key).detail


async def test_the_end_of_the_console_ends_them(site: Site) -> None:
    site.begin(of("a"))
    await site.until(lambda: site.has_begun("a"))
    site.forecasts.end_all()
    await site.until(lambda: not site.is_running("a"))
