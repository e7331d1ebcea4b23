"""The rules of the scheduler, one table each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from haulout.cluster.key import Key
from haulout.cluster.rows import Owner, PodDetails, PodRow, PodTraits
from haulout.cluster.view import MARK
from haulout.core.drain.options import Act
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.scheduler.budgets import BudgetShare, shares_of
from haulout.surfaces.notify.scheduler.choose import choose, exhausted_reason
from haulout.surfaces.notify.scheduler.estimate import Estimate, PodContext, PodWork, estimate
from haulout.surfaces.notify.scheduler.history import (
    MOST_SAMPLES,
    MOST_WORKLOADS,
    decode_history,
    encode_history,
    with_samples,
    workload_of,
)
from haulout.surfaces.notify.scheduler.score import score
from haulout.surfaces.notify.scheduler.standing import CANDIDATE, Candidate
from haulout.surfaces.notify.scheduler.windows import opening
from tests.build.notices import options
from tests.build.rows import node

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)  # a Monday
HOUR = 3600.0


def settings(drainer: Mapping[str, Any] | None = None, **scheduler: Any) -> Options:
    operators = {"scheduler": {"enabled": True, **scheduler}, "drainer": drainer or {}}
    return options(json.dumps({"slaPeriod": "8h", "operators": operators}))


def pod(age: float = 0.0, owner: str = "", kind: str = "Job", **fields: Any) -> PodRow:
    owners = (Owner(kind, owner, "u", controller=True),) if owner else ()
    details = PodDetails(
        started_at=NOW - timedelta(seconds=age),
        deadline_for=fields.pop("deadline", None),
        limits=fields.pop("limits", {}),
    )
    spec = PodTraits(grace_for=fields.pop("grace_for", None))
    key = Key("", "Pod", "ml", fields.pop("name", "p"))
    return PodRow(key=key, owners=owners, spec=spec, details=details, **fields)


def drain(row: PodRow, act: Act, blocked: bool = False, samples: tuple[float, ...] = (), **more: Any) -> float:
    found = estimate([row], lambda _: PodContext(act, blocked, samples), settings(**more), NOW)
    return found.drain_seconds(NOW)


END, LASTS = "haulout.dev/expected-end", "haulout.dev/expected-duration"
TEN = tuple(100.0 * number for number in range(1, 11))


@pytest.mark.parametrize(
    ("row", "act", "more", "seconds"),
    [
        (pod(deleting_at=NOW + timedelta(seconds=20)), Act.EVICT, {}, 20),
        (pod(deleting_at=NOW - timedelta(seconds=20)), Act.EVICT, {}, 0),
        (pod(annotations={END: "2026-03-02T12:10:00Z"}), Act.WAIT, {}, 600),
        (pod(annotations={END: "2026-03-02T11:00:00Z"}), Act.WAIT, {}, 0),
        (pod(300, annotations={LASTS: "15m"}), Act.WAIT, {}, 600),
        (pod(300, annotations={LASTS: "15m"}), Act.EVICT, {}, 600),
        (pod(annotations={LASTS: "soon"}, grace_for=5), Act.EVICT, {}, 5),
        (pod(450), Act.WAIT, {"samples": TEN}, 750 - 450),
        (pod(650), Act.WAIT, {"samples": TEN}, HOUR - 650),
        (pod(600, deadline=900), Act.WAIT, {}, 300),
        (pod(600), Act.WAIT, {}, HOUR - 600),
        (pod(36000), Act.WAIT, {}, 3600),
        (pod(), Act.BLOCK, {}, 8 * HOUR),
        (pod(), Act.EVICT, {}, 30),
        (pod(grace_for=5), Act.EVICT, {"blocked": True}, 605),
        (pod(), Act.IGNORE, {}, 0),
        (
            pod(annotations={LASTS: "99h"}),
            Act.WAIT,
            {"drainer": {"enabled": True, "pdbTimeout": "10m"}},
            8 * HOUR + 600,
        ),
        (pod(annotations={LASTS: "99h"}), Act.WAIT, {"drainer": {"enabled": True, "pdbTimeout": "-1s"}}, 99 * HOUR),
        (pod(annotations={LASTS: "99h"}), Act.WAIT, {"drainer": {"enabled": True, "afterSLA": "Keep"}}, 99 * HOUR),
    ],
    ids=[
        *("terminating", "overdue", "announced end", "end in the past", "announced length", "also of evicted ones"),
        *("unreadable length", "history", "too few longer samples", "deadline", "prior", "beyond the prior"),
        *("blocks until the SLA", "grace", "budget", "ignored", "forced", "never forced", "kept"),
    ],
)
def test_the_first_rule_that_applies_estimates_a_pod(row: PodRow, act: Act, more: Any, seconds: float) -> None:
    assert drain(row, act, **more) == pytest.approx(seconds)


def test_an_estimate_from_history_says_when_it_changes() -> None:
    found = estimate([pod(450)], lambda _: PodContext(Act.WAIT, False, TEN), settings(), NOW)
    assert found.changes_at == NOW + timedelta(seconds=50)


def test_the_slowest_pod_counts() -> None:
    pods = [pod(name="a", annotations={LASTS: "5m"}), pod(name="b", annotations={LASTS: "1h"})]
    assert estimate(pods, lambda _: PodContext(Act.WAIT), settings(), NOW).drain_seconds(NOW) == HOUR


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Estimate(), "score=1.000 likelihood=1.000 drain=0s"),
        (Estimate(constant=30), "score=0.977 likelihood=0.977 drain=30s"),
        (Estimate(works=(PodWork(NOW, NOW + timedelta(minutes=15)),)), "score=0.500 likelihood=0.500 drain=15m0s"),
        (Estimate(ends_at=NOW + timedelta(hours=1)), "score=0.062 likelihood=0.062 drain=1h0m0s"),
        (Estimate(constant=630, blocked=1), "score=0.566 likelihood=0.616 drain=10m30s"),
    ],
    ids=["empty", "evictable", "15m", "1h", "budget"],
)
def test_worked_values_of_the_score(found: Estimate, expected: str) -> None:
    assert str(score(found, NOW, 0, settings(), NOW)) == expected


@pytest.mark.parametrize(
    ("waited", "priority", "value"),
    [(36, 0, 1.25), (72, 0, 1.5), (700, 0, 1.5), (0, 50, 1.5), (0, -100, 0.0), (0, 999, 2.0)],
)
def test_age_and_priority_count(waited: float, priority: int, value: float) -> None:
    assert score(Estimate(), NOW - timedelta(hours=waited), priority, settings(), NOW).value == pytest.approx(value)


def test_work_that_the_sla_cuts_off_is_lost_by_the_device() -> None:
    started = NOW - timedelta(hours=3)
    long = PodWork(started, NOW + timedelta(hours=20), weight=4)
    short = PodWork(started, NOW + timedelta(hours=1), weight=4)
    found = Estimate(works=(long, short))
    assert found.lost_seconds(NOW, timedelta(hours=8)) == 4 * 3 * HOUR


@pytest.mark.parametrize(
    ("limits", "weight"),
    [({}, 1), ({"nvidia.com/gpu": "8"}, 8), ({"nvidia.com/gpu": "many"}, 1), ({"cpu": "4"}, 1)],
)
def test_devices_weigh(limits: dict[str, str], weight: int) -> None:
    [work] = estimate([pod(limits=limits)], lambda _: PodContext(Act.WAIT), settings(), NOW).works
    assert work.weight == weight


@pytest.mark.parametrize(
    ("row", "key"),
    [
        (pod(owner="train-17", kind="Job"), "ml/Job/train"),
        (pod(owner="nightly-2891234-3", kind="Job"), "ml/Job/nightly"),
        (pod(owner="train", kind="PyTorchJob"), "ml/PyTorchJob/train"),
        (pod(labels={"app": "game"}), "ml/Pod/game"),
        (pod(labels={"app.kubernetes.io/name": "match"}), "ml/Pod/match"),
        (pod(), "ml/Pod/p"),
    ],
)
def test_workloads_are_told_apart_by_their_controller(row: PodRow, key: str) -> None:
    assert workload_of(row) == key


def test_the_history_keeps_the_last_samples_of_the_workloads_used_last() -> None:
    grown = with_samples({}, [("a", float(number)) for number in range(MOST_SAMPLES + 5)])
    assert grown["a"] == tuple(float(number) for number in range(5, MOST_SAMPLES + 5))
    many = with_samples(grown, [(f"w{number}", 1.0) for number in range(MOST_WORKLOADS - 1)])
    assert "a" in many
    assert "a" not in with_samples(many, [("one more", 1.0)])
    assert "a" in with_samples(with_samples(many, [("a", 1.0)]), [("one more", 1.0)])


@pytest.mark.parametrize("text", ["", "nothing", '{"a": "b"}', "[1]"])
def test_a_history_that_cannot_be_read_is_none(text: str) -> None:
    assert decode_history(text) is None


def test_the_history_is_stored_as_it_is() -> None:
    history = with_samples({}, [("a", 1.5), ("b", 2.0)])
    assert decode_history(encode_history(history)) == history


BERLIN = {"days": ["Mon"], "start": "22:00", "end": "04:00", "timezone": "Europe/Berlin"}


@pytest.mark.parametrize(
    ("windows", "at", "reason"),
    [
        ([], "2026-03-02T12:00:00+00:00", ""),
        ([BERLIN], "2026-03-02T20:59:00+00:00", "OutsideWindow"),
        ([BERLIN], "2026-03-02T21:00:00+00:00", ""),
        ([BERLIN], "2026-03-03T02:59:00+00:00", ""),
        ([BERLIN], "2026-03-03T03:00:00+00:00", "OutsideWindow"),
        ([BERLIN], "2026-03-03T21:30:00+00:00", "OutsideWindow"),
        ([{**BERLIN, "nodeSelector": "pool=other"}], "2026-03-02T12:00:00+00:00", ""),
        ([{**BERLIN, "end": "22:00"}], "2026-03-03T20:59:00+00:00", ""),
        # On March 29 the clocks of Berlin go from 02:00 to 03:00: the window opens at 03:00, 01:00 UTC.
        ([{**BERLIN, "days": ["Sun"], "start": "02:30"}], "2026-03-29T00:59:00+00:00", "OutsideWindow"),
        ([{**BERLIN, "days": ["Sun"], "start": "02:30"}], "2026-03-29T01:30:00+00:00", ""),
    ],
    ids=[
        "none",
        "before",
        "opens",
        "after midnight",
        "closed",
        "another day",
        "other nodes",
        "24 h",
        "gap",
        "after gap",
    ],
)
def test_windows_are_weekly_on_local_clocks(windows: list[Any], at: str, reason: str) -> None:
    scheduler = settings(windows=windows).operators.scheduler
    assert opening(scheduler, {"pool": "batch"}, datetime.fromisoformat(at)).reason == reason


def test_a_blackout_wins_over_windows_and_ends_them() -> None:
    span = {"from": "2026-03-02T13:00:00Z", "to": "2026-03-02T14:00:00Z"}
    scheduler = settings(blackouts=[span]).operators.scheduler
    before = opening(scheduler, {}, NOW)
    assert (before.reason, before.closes_at) == ("", NOW + timedelta(hours=1))
    during = opening(scheduler, {}, NOW + timedelta(hours=1))
    assert (during.reason, during.until) == ("Blackout", NOW + timedelta(hours=2))


@pytest.mark.parametrize(
    ("budgets", "labels", "names"),
    [
        ([{"name": "all"}], {}, ["all"]),
        ([{"name": "all"}, {"name": "gpu", "nodeSelector": "gpu=yes"}], {"gpu": "yes"}, ["all", "gpu"]),
        ([{"name": "gpu", "nodeSelector": "gpu=yes"}], {}, ["default"]),
        ([{"name": "gpu", "nodeSelector": "gpu=yes"}], {"gpu": "yes"}, ["gpu"]),
        ([{"name": "default", "nodeSelector": "gpu=yes"}], {}, ["implicit-default"]),
    ],
    ids=["all", "both", "implicit", "one", "name taken"],
)
def test_a_node_is_under_every_budget_that_selects_it(budgets: list[Any], labels: Any, names: list[str]) -> None:
    scheduler = settings(budgets=budgets).operators.scheduler
    assert [share.budget for share in shares_of(scheduler, node("n", labels=labels))] == names


def candidate(name: str, minutes: float = 0, drains: float = 0, **fields: Any) -> Candidate:
    given: dict[str, Any] = {"node": f"node-{name}", "shares": (BudgetShare("all"),), "group": "g", **fields}
    return Candidate(
        key=Key("", MARK, CANDIDATE, name),
        place=name,
        since=NOW - timedelta(minutes=minutes),
        estimate=Estimate(constant=drains),
        **given,
    )


def outcomes(*candidates: Candidate, places: int = 1, chosen: str = "", **scheduler: Any) -> dict[str, str]:
    given = settings(budgets=[{"name": "all", "maxUnavailable": places}], **scheduler)
    standing = frozenset(filter(None, [chosen]))
    found = choose(candidates, (), standing, {"all": 0}, {"all": places}, given, NOW)
    return {each.candidate.place: each.reason for each in found.outcomes}


FULL = exhausted_reason("all")


@pytest.mark.parametrize(
    ("candidates", "more", "expected"),
    [
        ([candidate("a", drains=900), candidate("b")], {}, {"a": FULL, "b": "Selected"}),
        ([candidate("b", 1), candidate("a", 2)], {"weights": {"age": 0}}, {"a": "Selected", "b": FULL}),
        ([candidate("a"), candidate("u", drains=9000, unplanned=True)], {}, {"u": "Selected", "a": FULL}),
        (
            [candidate("a"), candidate("u", drains=9000, unplanned=True)],
            {"unplanned": {"first": False}},
            {"a": "Selected", "u": FULL},
        ),
        ([candidate("a", drains=9000, minutes=9000), candidate("b")], {}, {"a": "Selected", "b": FULL}),
        ([candidate("a", drains=9000)], {"minLikelihood": 0.5}, {"a": "UnlikelyToDrain"}),
        ([candidate("a", drains=9000, minutes=9000)], {"minLikelihood": 0.5}, {"a": "Selected"}),
        ([candidate("a"), candidate("b", drains=1, node="node-a")], {"places": 2}, {"a": "Selected", "b": "NodeBusy"}),
        ([candidate("a", drains=900), candidate("b")], {"chosen": "a"}, {"a": "Selected", "b": FULL}),
        ([candidate("a", out=True), candidate("b", drains=9)], {}, {"a": "Selected", "b": "Selected"}),
        (
            [candidate("x1", group="x"), candidate("x2", group="x"), candidate("y", drains=900, group="y")],
            {"places": 2},
            {"x1": "Selected", "y": "Selected", "x2": FULL},
        ),
        (
            [candidate("x1", group="x"), candidate("x2", group="x"), candidate("y", drains=900, group="y")],
            {"places": 2, "fairness": {"weights": {"x": 3, "y": 0.1}}},
            {"x1": "Selected", "y": "Selected", "x2": FULL},
        ),
    ],
    ids=[
        *("likely first", "older first", "unplanned first", "unplanned not first", "starved first", "unlikely"),
        *("starved although unlikely", "one node once", "chosen stays", "out already", "fair", "fair from nothing"),
    ],
)
def test_one_choice(candidates: list[Candidate], more: Any, expected: dict[str, str]) -> None:
    assert outcomes(*candidates, **more) == expected


@pytest.mark.parametrize(("weights", "first"), [({}, "a"), ({"lostWork": 0}, "b")], ids=["weighed", "without a weight"])
def test_of_scores_that_look_alike_less_lost_work_goes_first(weights: Any, first: str) -> None:
    def doomed(name: str, minutes: float, age: float) -> Candidate:
        work = PodWork(NOW - timedelta(hours=age), NOW + timedelta(hours=40), weight=8)
        return msgspec.structs.replace(candidate(name, minutes), estimate=Estimate(works=(work,)))

    found = outcomes(doomed("a", 1, 10), doomed("b", 2, 20), weights=weights)
    assert [place for place, reason in found.items() if reason == "Selected"] == [first]


def test_work_that_is_about_to_end_goes_first_although_scores_look_alike() -> None:
    ends = [("a", 3.5), ("b", 3.0)]
    found = outcomes(
        *(
            msgspec.structs.replace(
                candidate(name), estimate=Estimate(works=(PodWork(NOW, NOW + timedelta(hours=hours)),))
            )
            for name, hours in ends
        )
    )
    assert found == {"a": FULL, "b": "Selected"}


def test_a_place_is_kept_for_one_that_comes_first() -> None:
    """The unplanned one needs a place in a pool that is full; the rest of the pool's budget is closed to others."""
    first = candidate("u", unplanned=True, shares=(BudgetShare("all"), BudgetShare("rack", "r0")))
    given = settings(
        budgets=[{"name": "all", "maxUnavailable": 5}, {"name": "rack", "maxUnavailable": 1, "nodeSelector": "rack"}]
    )
    other = candidate("b", shares=(BudgetShare("all"), BudgetShare("rack", "r1")), out=True)
    used = {"all": 0, "rack": 1}
    found = choose([first, other], (), frozenset(), used, {"all": 5, "rack": 1}, given, NOW)
    assert {each.candidate.place: each.reason for each in found.outcomes} == {
        "u": exhausted_reason("rack"),
        "b": exhausted_reason("rack"),
    }


def test_a_choice_says_when_time_alone_may_change_it() -> None:
    given = settings(minLikelihood=0.5)
    waiting = Candidate(
        key=Key("", MARK, CANDIDATE, "a"),
        place="a",
        node="n",
        since=NOW,
        estimate=Estimate(ends_at=NOW + timedelta(hours=1)),
    )
    found = choose([waiting], (), frozenset(), {}, {}, given, NOW)
    assert found.until == NOW + timedelta(minutes=45)
