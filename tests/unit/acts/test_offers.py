"""Which acts are offered for an object, and what is said about the others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from haulout.acts.answers import Missing, Offer, Offers
from haulout.acts.declared import act_names, declared_acts
from haulout.acts.offers import offers_for, permissions
from haulout.acts.prepare import LONGEST_SHOWN, Target
from haulout.kube.transport import Reply
from tests.build.acting import REVIEWS, Desk
from tests.build.workloads import budget, node, pod, replica_set

PLURAL = "nodemaintenances"
NODE = Target("Node", "", "n1")


@pytest.fixture
def desk() -> Desk:
    made = Desk(PLURAL)
    made.make(node("n1"))
    return made


async def offer(desk: Desk, target: Target, act: str, way: str = "") -> Offer:
    answer = await offers_for(desk.caller(), target)
    assert isinstance(answer, Offers)
    (found,) = [each for each in answer.acts if each.act == act and each.with_ == way]
    return found


async def test_an_act_that_is_possible_shows_its_writes_and_its_undo(desk: Desk) -> None:
    found = await offer(desk, NODE, "start", "nodemaintenance")
    assert (found.allowed, found.missing, found.why) == (True, None, "")
    assert json.loads(msgspec.json.encode(found))["writes"] == [
        {"verb": "create", "resource": PLURAL, "namespace": "", "name": "n1"}
    ]
    assert found.undo == "haulout cancel nodemaintenance/n1"
    assert desk.writes == []


async def test_a_missing_right_is_named(desk: Desk) -> None:
    desk.denied.add(f"create {PLURAL}")
    found = await offer(desk, NODE, "start", "nodemaintenance")
    assert found.allowed is False
    assert found.missing == Missing("create", "nodemaintenance.medik8s.io", PLURAL, "")


async def test_a_review_that_does_not_answer_is_not_a_denial(desk: Desk) -> None:
    desk.unanswered.add(f"create {PLURAL}")
    found = await offer(desk, NODE, "start", "nodemaintenance")
    assert (found.allowed, found.missing) == (None, None)


class Together(Desk):
    """A person before an API server that answers no review before each of the rights has been asked about."""

    def __init__(self, rights: int) -> None:
        super().__init__(PLURAL)
        self.left = rights
        self.asked = asyncio.Event()

    async def request(self, method: str, path: str, **more: Any) -> Reply:
        if path.endswith(REVIEWS):
            self.left -= 1
            if not self.left:
                self.asked.set()
            await self.asked.wait()
        return await super().request(method, path, **more)


async def test_the_rights_of_all_acts_are_asked_about_at_the_same_time() -> None:
    rights = {need for each in declared_acts() for need in each.act.needs}
    async with asyncio.timeout(20):
        found = await permissions(Together(len(rights)).caller())
    assert {each.allowed for each in found.values()} == {True}


async def test_the_state_of_the_object_is_the_reason(desk: Desk) -> None:
    held = node("n2")
    held["spec"] = {"taints": [{"key": "medik8s.io/drain", "effect": "NoSchedule"}]}
    desk.make(held)
    found = await offer(desk, Target("Node", "", "n2"), "start", "nodemaintenance")
    assert "holds node n2 already" in found.why
    assert found.writes == ()


async def test_no_text_is_longer_than_people_read(desk: Desk) -> None:
    held = node("n3")
    held["metadata"]["annotations"] = {"haulout.dev/paused": "W" * 200_000}
    desk.make(held)
    target = Target("Node", "", "n3")
    assert len((await offer(desk, target, "pause")).why) == LONGEST_SHOWN
    resume = await offer(desk, target, "resume")
    assert resume.undo == ""
    assert "no command undoes it" in resume.warnings[-1]


async def test_what_a_drain_would_disturb_is_said(desk: Desk) -> None:
    desk.make(replica_set("web", 1), budget("web", minAvailable=1))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    running = pod("web-1", app="web", nodeName="n1")
    running["metadata"]["ownerReferences"] = [owner]
    desk.make(running)
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await desk.change("/api/v1/namespaces/default/pods/web-1/status", ready)
    found = await offer(desk, NODE, "start", "nodemaintenance")
    assert found.warnings == (
        "1 pod on node n1 will be evicted",
        "ReplicaSet default/web: the only replica is on this node",
        "PodDisruptionBudget default/web allows no disruption now: 1 pod cannot leave now",
    )


async def test_pods_that_may_not_be_listed_are_said_to_be_unknown(desk: Desk) -> None:
    desk.denied.add("get pods")
    found = await offer(desk, NODE, "start", "nodemaintenance")
    assert found.warnings == ("pods cannot be listed: what will be disturbed is not known",)


async def test_what_a_person_may_do_in_general(desk: Desk) -> None:
    desk.unanswered.add(f"create {PLURAL}")
    found = await permissions(desk.caller())
    assert tuple(found) == act_names()
    assert found["start"].allowed is not False
