"""A node whose claimant is gone is given back as it was; one that may be claimed is not touched."""

from __future__ import annotations

import json
from typing import Any

import pytest

from haulout.acts.answers import Code, Done, Problem
from haulout.acts.orders import Order, perform
from haulout.acts.prepare import Target
from haulout.embedded import Json
from tests.build.acting import Desk
from tests.build.workloads import node

PLURAL = "nodemaintenances"
LET_GO = Order("let-go", Target("Node", "", "n1"))
EXCLUDED = "remediation.medik8s.io/exclude-from-remediation"
LEDGER, TAINT, CORDON = "haulout.dev/cordon", "medik8s.io/drain", "node.kubernetes.io/unschedulable"


def left(*taints: str, cordoned: bool = True, labels: Json | None = None, **ledger: Any) -> Json:
    body = node("n1", **(labels or {}))
    if ledger:
        body["metadata"]["annotations"] = {LEDGER: json.dumps({"before": False, "by": [], **ledger})}
    body["spec"] = {"unschedulable": cordoned, "taints": [{"key": key, "effect": "NoSchedule"} for key in taints]}
    return body


def maintenance(name: str, of: str) -> Json:
    return {
        "apiVersion": "nodemaintenance.medik8s.io/v1beta1",
        "kind": "NodeMaintenance",
        "metadata": {"name": name},
        "spec": {"nodeName": of},
    }


def taints(body: Json) -> list[str]:
    return [each["key"] for each in body["spec"].get("taints") or ()]


async def let_go(desk: Desk) -> Json:
    await done(desk)
    return await desk.get("/api/v1/nodes/n1")


async def done(desk: Desk) -> Done:
    answer = await perform(desk.caller(), LET_GO)
    assert isinstance(answer, Done), answer
    return answer


@pytest.fixture
def desk() -> Desk:
    return Desk(PLURAL)


async def test_what_the_ledger_remembers_is_restored(desk: Desk) -> None:
    desk.make(left(TAINT, CORDON, "own", cordoned=False, labels={"role": "changed"}))
    ledger = '{"before":false,"by":[],"taint":true,"labels":{"role":"web"}}'
    body = {"metadata": {"annotations": {LEDGER: ledger}}, "spec": {"unschedulable": True}}
    await desk.change("/api/v1/nodes/n1", body, by="haulout")
    found = await let_go(desk)
    assert "unschedulable" not in found["spec"]
    assert "own" in taints(found)
    assert not {TAINT, CORDON} & set(taints(found))
    assert found["metadata"]["labels"]["role"] == "web"
    assert LEDGER not in found["metadata"].get("annotations", {})


async def test_a_persons_cordon_stays(desk: Desk) -> None:
    desk.make(left(TAINT, before=True))
    found = await let_go(desk)
    assert found["spec"]["unschedulable"] is True
    assert TAINT not in taints(found)
    assert LEDGER not in found["metadata"].get("annotations", {})


async def test_a_taint_without_a_ledger_is_removed_and_the_cordon_stays(desk: Desk) -> None:
    desk.make(left(TAINT))
    found = await let_go(desk)
    assert (found["spec"]["unschedulable"], TAINT in taints(found)) == (True, False)


async def test_a_label_that_was_set_with_the_taint_is_removed_where_no_ledger_remembers_it(desk: Desk) -> None:
    desk.make(left(TAINT, labels={EXCLUDED: "true"}))
    assert EXCLUDED not in (await let_go(desk))["metadata"]["labels"]


async def test_a_label_beside_no_taint_stays(desk: Desk) -> None:
    desk.make(left(before=False, labels={EXCLUDED: "true"}))
    assert (await let_go(desk))["metadata"]["labels"][EXCLUDED] == "true"


async def test_no_command_is_named_that_would_undo_only_a_part(desk: Desk) -> None:
    desk.make(left(TAINT, cordoned=False))
    body = {"metadata": {"annotations": {LEDGER: '{"before":false,"by":[]}'}}, "spec": {"unschedulable": True}}
    await desk.change("/api/v1/nodes/n1", body, by="haulout")
    answer = await done(desk)
    assert answer.undo == ""
    assert [
        each.startswith("this cannot be undone: `kubectl cordon` keeps new pods away again") for each in answer.warnings
    ] == [True]


async def refused(desk: Desk) -> str:
    before = await desk.get("/api/v1/nodes/n1")
    answer = await perform(desk.caller(), LET_GO)
    assert isinstance(answer, Problem)
    assert answer.code is Code.NOT_POSSIBLE
    assert await desk.get("/api/v1/nodes/n1") == before
    return answer.detail


async def test_a_node_that_an_object_claims_stays(desk: Desk) -> None:
    desk.make(left(TAINT, before=False), maintenance("other", "n2"), maintenance("mine", "n1"))
    assert "NodeMaintenance mine holds it" in await refused(desk)


async def test_an_object_that_only_waits_for_the_node_refuses_nothing(desk: Desk) -> None:
    desk.make(left(cordoned=False), maintenance("waits", "n1"))
    body = {"metadata": {"annotations": {LEDGER: '{"before":false,"by":[]}'}}, "spec": {"unschedulable": True}}
    await desk.change("/api/v1/nodes/n1", body, by="haulout")
    found = await let_go(desk)
    assert "unschedulable" not in found["spec"]
    assert LEDGER not in found["metadata"].get("annotations", {})


async def test_what_has_vanished_leaves_a_node_at_which_a_profile_works_to_it(desk: Desk) -> None:
    at_work = {"cloud.sap/maintenance-state": "in-maintenance", EXCLUDED: "true"}
    desk.make(left(CORDON, TAINT, labels=at_work, before=False, by=["profiles"]))
    answer = await done(desk)
    found = await desk.get("/api/v1/nodes/n1")
    assert (CORDON in taints(found), TAINT in taints(found), found["spec"]["unschedulable"]) == (True, False, True)
    assert EXCLUDED not in found["metadata"]["labels"]
    assert json.loads(found["metadata"]["annotations"][LEDGER])["by"] == ["profiles"]
    assert ["goes on with its other maintenances" in each for each in answer.warnings] == [True]


async def test_what_cannot_be_listed_is_not_taken_for_absent(desk: Desk) -> None:
    desk.make(left(TAINT, before=False))
    desk.denied.add(f"get {PLURAL}")
    assert f"{PLURAL} cannot be listed" in await refused(desk)


async def test_a_node_at_which_a_profile_works_stays(desk: Desk) -> None:
    desk.make(left(labels={"cloud.sap/maintenance-state": "in-maintenance"}, before=False, by=["profiles"]))
    assert "a maintenance profile is at work on it" in await refused(desk)


async def test_a_node_that_no_surface_has_cordoned(desk: Desk) -> None:
    desk.make(left())
    assert "no surface has left a cordon" in await refused(desk)


async def test_a_node_that_changed_meanwhile_is_not_touched(desk: Desk) -> None:
    desk.make(left(TAINT, before=False))
    await perform(desk.caller(), LET_GO)
    (method, _, body), *_ = desk.writes
    assert method == "PATCH"
    assert body["metadata"]["resourceVersion"]
    assert body["metadata"]["uid"]
