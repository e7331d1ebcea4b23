"""The life of a package with an interrupt, disturbed at each of its writes: it ends as if nothing had been."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from string import ascii_lowercase

import pytest

from haulout.embedded import Json
from haulout.kernel.requests import Answer, Change, Lost, Refused
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.surface import sources
from tests.build.package_life import STAGES, HastyLife, JobLife, Life, OperatorKilled
from tests.build.skyhooks import About, Skyhooks, pkg

CarryOut = Callable[[], Answer]
KINDS = sorted(source.kind for source in sources(Options()))


@cache
def undisturbed() -> Life:
    return Life().live()


@cache
def undisturbed_in_jobs() -> Life:
    return JobLife().live()


def before(carry_out: CarryOut) -> Answer:
    raise OperatorKilled


def after(carry_out: CarryOut) -> Answer:
    carry_out()
    raise OperatorKilled


def lost(carry_out: CarryOut) -> Answer:
    return Lost("timed out")


def lost_when_done(carry_out: CarryOut) -> Answer:
    carry_out()
    return Lost("timed out")


def refused(code: int, retry_after: float | None = None) -> Callable[[CarryOut], Answer]:
    return lambda carry_out: Refused(code, "no", retry_after)


DISTURBANCES = {
    "killed before": before,
    "killed after": after,
    "409": refused(409),
    "429 with Retry-After": refused(429, 3.0),
    "500": refused(500),
    "time-out, not carried out": lost,
    "time-out, carried out": lost_when_done,
}


# One write in so many is disturbed in a life; as many lives disturb each write once.
STRIDE = 6


def disturbed(first: int, how: Callable[[CarryOut], Answer], kind: type[Life] = Life) -> Life:
    life = kind()
    life.disturb = lambda number, body, carry_out: how(carry_out) if number % STRIDE == first else carry_out()
    return life.live()


def test_undisturbed_each_stage_runs_once() -> None:
    life = undisturbed()
    assert life.stages == STAGES
    assert (life.ops.failures, life.ops.refusals) == ([], [])


@pytest.mark.parametrize("first", range(STRIDE))
@pytest.mark.parametrize("how", DISTURBANCES.values(), ids=DISTURBANCES)
def test_disturbed_at_any_write_it_ends_the_same(how: Callable[[CarryOut], Answer], first: int) -> None:
    """The stages are the same too, so that no interrupt has a second pod; pods are evicted once."""
    plain, life = undisturbed(), disturbed(first, how)
    assert life.ops.failures == []
    assert life.stages == STAGES
    assert life.pictures == plain.pictures
    assert len(life.evicted) == len(plain.evicted)


@pytest.mark.parametrize("first", range(STRIDE))
@pytest.mark.parametrize("how", [before, after, lost_when_done], ids=["before", "after", "time-out"])
def test_disturbed_at_any_write_it_ends_the_same_in_jobs(how: Callable[[CarryOut], Answer], first: int) -> None:
    plain, life = undisturbed_in_jobs(), disturbed(first, how, JobLife)
    assert life.ops.failures == []
    assert life.stages == STAGES
    assert life.pictures == plain.pictures
    assert len(life.evicted) == len(plain.evicted)


@pytest.mark.parametrize(("kind", "calm"), [(Life, undisturbed), (JobLife, undisturbed_in_jobs)], ids=["pods", "jobs"])
def test_killed_after_every_write_it_ends_the_same(kind: Callable[[], Life], calm: Callable[[], Life]) -> None:
    """Each operator makes one write."""
    plain, life = calm(), kind()
    life.disturb = lambda number, body, carry_out: after(carry_out)
    life.live()
    assert (life.stages, life.pictures) == (STAGES, plain.pictures)


@pytest.mark.parametrize("late", KINDS)
def test_killed_under_a_hasty_user_each_stage_runs_once(late: str) -> None:
    """Answers take their time, and each new operator lists one kind after all others."""
    life = HastyLife()
    life.ops.late = {late: timedelta(seconds=0.2)}
    life.ops.latency = lambda body: timedelta(seconds=1.5 if isinstance(body, Change) else 0.5)
    life.disturb = lambda number, body, carry_out: before(carry_out) if number % 7 == 5 else carry_out()
    life.live()
    assert (life.stages, life.ops.failures) == (STAGES, [])


@pytest.mark.parametrize(
    ("package", "fails", "most"),
    [(pkg(), False, 4), (pkg(), True, 6), (pkg(interrupt={"type": "noop"}), False, 12)],
    ids=["plain", "each fails once", "interrupt"],
)
def test_a_stage_costs_at_most_three_writes_of_its_node(package: Json, fails: bool, most: int) -> None:
    """Two stages, or four; at rest nothing is written."""
    ops = Skyhooks()

    def fails_once(about: About) -> str:
        ops.world.time.at(ops.world.time.now() + ops.takes, lambda: ops.finish(about, restarts=1))
        return "fail"

    ops.fate = fails_once if fails else ops.fate
    ops.make("demo", {"base": package}).run(60)
    counts = Counter(kind for _, kind in ops.writes)
    assert ops.phase("demo") == "complete"
    assert counts["Node"] + counts["Node/status"] <= most
    assert counts["NodeMetadataConfigMap"] <= len({about.name for about in ops.made}) + 1
    before = len(ops.writes)
    assert len(ops.run(60).writes) == before


def test_many_packages_of_one_node_are_not_slowed_down() -> None:
    """Each ends at an instant of its own, so that the node is written for each."""
    ops = Skyhooks()

    def ends_later(about: About) -> str:
        later = timedelta(milliseconds=50 * (ord(about.package[1]) - ord("a")))
        ops.world.time.at(ops.world.time.now() + later, lambda: ops.finish(about))
        return "later"

    ops.fate = ends_later
    ops.make("demo", {f"p{letter}": pkg() for letter in ascii_lowercase[:20]}).run(60)
    assert (ops.phase("demo"), ops.slowed) == ("complete", [])
