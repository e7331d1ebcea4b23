"""Leader election: which candidate leads when, what the Lease contains, and until when the leader may write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from haulout.kube.lease import Election, Terms
from tests.build.fakeapi import refusal
from tests.build.objects import Objects
from tests.build.virtual import LoopClock, virtual

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/haulout"


class Candidate:
    def __init__(self, objects: Objects, identity: str, **options: Any) -> None:
        self.clock = LoopClock()
        self.election = Election(
            objects, self.clock, namespace="ns", name="haulout", identity=identity, random=Random(1), **options
        )
        self.told: list[str] = []
        self.task = asyncio.create_task(
            self.election.run(lambda: self.told.append("gained"), lambda: self.told.append("lost"))
        )

    @property
    def may_write(self) -> bool:
        until = self.election.may_write_until()
        return until is not None and self.clock.monotonic() < until

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def candidates(objects: Objects, *names: str, **options: Any) -> AsyncIterator[list[Candidate]]:
    started = [Candidate(objects, name, **options) for name in names]
    await asyncio.sleep(0.5)
    try:
        yield started
    finally:
        for candidate in started:
            await candidate.stop()


def spec(objects: Objects) -> dict[str, Any]:
    found: dict[str, Any] = objects.stored[PATH]["spec"]
    return found


@virtual
async def test_first_creates_the_lease_and_leads() -> None:
    objects = Objects()
    async with candidates(objects, "a") as (a,):
        assert a.told == ["gained"]
        assert (a.election.leading, a.election.holder) == (True, "a")
        assert spec(objects) == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.010000Z",
            "renewTime": "2026-01-01T00:00:00.010000Z",
            "leaseTransitions": 0,
        }
        assert a.election.may_write_until() == 10.0
        assert a.election.lease_ends_at() == 15.0


@virtual
async def test_leader_renews_with_one_request() -> None:
    objects = Objects()
    async with candidates(objects, "a") as (a,):
        await asyncio.sleep(4)
        assert objects.short == ["GET haulout", "POST leases", "PUT haulout", "PUT haulout"]
        assert spec(objects)["renewTime"] > spec(objects)["acquireTime"]
        until = a.election.may_write_until()
        assert until is not None
        assert 13.9 < until < 14.1


@virtual
async def test_second_waits_until_the_first_has_been_silent_for_the_duration() -> None:
    objects = Objects()
    async with candidates(objects, "a", "b") as (a, b):
        await asyncio.sleep(60)
        assert (a.told, b.told) == (["gained"], [])
        await a.stop()
        stopped_at = asyncio.get_running_loop().time()
        while not b.told:
            assert spec(objects)["holderIdentity"] == "a"
            await asyncio.sleep(0.1)
        # At most one wait of the leader's before its end, one of the candidate's after it.
        assert 15 - 2 <= asyncio.get_running_loop().time() - stopped_at <= 15 + 2 * 2.2
        assert spec(objects)["leaseTransitions"] == 1
        assert b.election.holder == "b"


@virtual
async def test_never_do_two_write_at_once_whatever_the_network_does() -> None:
    objects = Objects()
    random = Random(7)
    led: set[str] = set()
    async with candidates(objects, "a", "b", "c") as everyone:
        for _ in range(2000):
            objects.reachable = random.random() < 0.9
            objects.takes = random.choice([0.01, 0.01, 1.0, 6.0])
            objects.lost_answers = random.choice([0, 0, 0, 1])
            await asyncio.sleep(0.5)
            writing = [candidate for candidate in everyone if candidate.may_write]
            assert len(writing) <= 1
            led |= {candidate.election.holder for candidate in writing}
    assert len(led) > 1


@virtual
async def test_released_lease_is_taken_at_the_next_look() -> None:
    objects = Objects()
    async with candidates(objects, "a", "b", release=True) as (a, b):
        await asyncio.sleep(10)
        await a.stop()
        assert a.told == ["gained", "lost"]
        assert (spec(objects)["holderIdentity"], spec(objects)["leaseDurationSeconds"]) == ("", 1)
        assert a.election.may_write_until() is None
        await asyncio.sleep(4.5)
        assert b.told == ["gained"]
        assert spec(objects)["leaseTransitions"] == 1


@virtual
async def test_lease_is_kept_at_the_end_unless_told_to_release() -> None:
    objects = Objects()
    async with candidates(objects, "a") as (a,):
        await a.stop()
        assert spec(objects)["holderIdentity"] == "a"


@virtual
async def test_follower_that_ends_releases_nothing() -> None:
    objects = Objects()
    async with candidates(objects, "a", "b", release=True) as (_, b):
        await b.stop()
        assert spec(objects)["holderIdentity"] == "a"


@virtual
async def test_leader_that_cannot_renew_stops_before_its_lease_ends_and_returns() -> None:
    objects = Objects()
    async with candidates(objects, "a") as (a,):
        objects.reachable = False
        await asyncio.sleep(9)
        assert a.may_write
        await asyncio.sleep(1)
        assert not a.may_write
        await asyncio.sleep(2)
        assert a.told == ["gained", "lost"]
        objects.reachable = True
        await asyncio.sleep(5)
        assert a.told == ["gained", "lost", "gained"]
        assert spec(objects)["leaseTransitions"] == 0


@virtual
async def test_suspended_leader_may_not_write_when_it_wakes() -> None:
    objects = Objects()
    async with candidates(objects, "a") as (a,):
        a.clock.skew += 11
        assert not a.may_write
        await asyncio.sleep(2.5)
        assert a.told == ["gained", "lost", "gained"]


@virtual
async def test_leader_whose_lease_was_taken_loses_it_at_once() -> None:
    objects = Objects()
    async with candidates(objects, "a") as (a,):
        objects.put(PATH, {**objects.stored[PATH], "spec": {**spec(objects), "holderIdentity": "x"}})
        await asyncio.sleep(2.1)
        assert a.told == ["gained", "lost"]
        assert a.election.holder == "x"


@virtual
async def test_deleted_lease_is_made_again() -> None:
    objects = Objects()
    async with candidates(objects, "a") as (a,):
        del objects.stored[PATH]
        await asyncio.sleep(2.5)
        assert spec(objects)["holderIdentity"] == "a"
        assert a.told == ["gained"]


@virtual
async def test_renewal_whose_answer_was_lost_is_no_loss() -> None:
    objects = Objects()
    async with candidates(objects, "a") as (a,):
        objects.lost_answers = 1
        await asyncio.sleep(6)
        assert a.told == ["gained"]
        assert objects.short[2:6] == ["PUT haulout", "PUT haulout", "GET haulout", "PUT haulout"]


@pytest.mark.parametrize(
    "lease",
    [
        {},
        {"spec": None},
        {"spec": []},
        {"spec": {"holderIdentity": 7, "leaseTransitions": "many", "acquireTime": 1}},
        {"spec": {"holderIdentity": ""}},
    ],
)
@virtual
async def test_malformed_lease_is_nobodys(lease: dict[str, Any]) -> None:
    objects = Objects()
    objects.put(PATH, lease)
    async with candidates(objects, "a") as (a,):
        assert a.told == ["gained"]
        assert spec(objects)["leaseTransitions"] == 1


@virtual
async def test_whatever_else_stands_in_the_lease_is_kept() -> None:
    objects = Objects()
    objects.put(PATH, {"metadata": {"annotations": {"x": "y"}}, "spec": {"strategy": "OldestEmulationVersion"}})
    async with candidates(objects, "a"):
        assert spec(objects)["holderIdentity"] == "a"
        assert spec(objects)["strategy"] == "OldestEmulationVersion"
        assert objects.stored[PATH]["metadata"]["annotations"] == {"x": "y"}


@virtual
async def test_anothers_own_duration_is_honoured_and_its_clock_is_not() -> None:
    objects = Objects()
    objects.put(
        PATH,
        {"spec": {"holderIdentity": "x", "leaseDurationSeconds": 40, "renewTime": "1999-01-01T00:00:00.000000Z"}},
    )
    async with candidates(objects, "a") as (a,):
        await asyncio.sleep(39)
        assert a.told == []
        await asyncio.sleep(6)
        assert a.told == ["gained"]


@virtual
async def test_refusals_are_waited_out(caplog: pytest.LogCaptureFixture) -> None:
    objects = Objects()
    objects.faults += [refusal(403, "Forbidden"), refusal(429, "TooManyRequests"), None, refusal(409, "AlreadyExists")]
    async with candidates(objects, "a") as (a,):
        await asyncio.sleep(15)
        assert a.told == ["gained"]
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "lease attempt failed"
    ] * 2


@pytest.mark.parametrize("terms", [(15, 15, 2), (15, 10, 9), (15, 10, 0), (0, 0, 0)])
def test_terms_that_cannot_work_are_refused(terms: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="lease: duration"):
        Terms(*terms)


@virtual
async def test_an_earlier_state_of_the_lease_is_reported_by_leader_and_follower() -> None:
    objects, reports = Objects(), list[str]()
    objects.put(PATH, {"metadata": {"uid": "1"}, "spec": {}})
    report = {name: (lambda name=name: reports.append(name)) for name in "ab"}
    async with candidates(objects, "a", on_rewound=report["a"]), candidates(objects, "b", on_rewound=report["b"]):
        await asyncio.sleep(10)
        backup, version = json.loads(json.dumps(objects.stored[PATH])), objects._version
        await asyncio.sleep(10)
        assert reports == []
        objects.stored[PATH], objects._version = backup, version
        await asyncio.sleep(5)
    assert sorted(set(reports)) == ["a", "b"]
