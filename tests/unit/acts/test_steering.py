"""Pause, resume and override: what they write, what they refuse, and the commands that take them back."""

from __future__ import annotations

import json

import pytest

from haulout.acts.answers import Code, Done, Problem
from haulout.acts.orders import Order, perform
from haulout.acts.prepare import NOTHING, Target
from haulout.core.budgets.override_registration import override_policy
from haulout.core.pause import ANNOTATION, pause_of
from haulout.core.steering import BUDGETS, OVERRIDE
from haulout.embedded import Json
from haulout.surfaces.nodemaintenance.acts import SETS
from tests.build.acting import Desk
from tests.build.rows import node as row
from tests.build.workloads import node

NODE, MAINTENANCE = Target("Node", "", "n1"), Target("NodeMaintenance", "", "m")
BUDGET = "/apis/haulout.dev/v1alpha1/nodedisruptionbudgets"
BLUE = "pool=blue,!spare"


@pytest.fixture
def desk() -> Desk:
    made = Desk("nodemaintenances", "nodedisruptionbudgets", "nodemaintenancesets")
    made.make(node("n1"), BUDGETS.manifest("night", {"maxUnavailable": 0}))
    made.make(
        {
            "apiVersion": "nodemaintenance.medik8s.io/v1beta1",
            "kind": "NodeMaintenance",
            "metadata": {"name": "m"},
            "spec": {"nodeName": "n1"},
        }
    )
    return made


async def done(desk: Desk, act: str, target: Target = NOTHING, reason: str = "disk", **args: str) -> Done:
    answer = await perform(desk.caller(), Order(act, target, args, reason))
    assert isinstance(answer, Done), answer
    return answer


async def refused(desk: Desk, act: str, target: Target = NOTHING, reason: str = "disk", **args: str) -> Problem:
    answer = await perform(desk.caller(), Order(act, target, args, reason))
    assert isinstance(answer, Problem), answer
    return answer


async def noted(desk: Desk, path: str) -> dict[str, str]:
    return dict((await desk.get(path))["metadata"].get("annotations") or {})


async def test_a_node_is_paused_and_resumed(desk: Desk) -> None:
    assert (await done(desk, "pause", NODE)).undo == "haulout resume node/n1"
    notes = await noted(desk, "/api/v1/nodes/n1")
    assert notes[ANNOTATION] == "disk"
    pause = pause_of(row("n1", annotations=notes))
    assert pause is not None
    assert (pause.by, pause.reason, pause.at is not None) == ("jane", "disk", True)
    assert (await refused(desk, "pause", NODE)).code is Code.NOT_POSSIBLE
    assert (await done(desk, "resume", NODE, "")).undo == "haulout pause node/n1 --reason disk"
    assert not await noted(desk, "/api/v1/nodes/n1")
    assert (await refused(desk, "resume", NODE)).code is Code.NOT_POSSIBLE


async def test_all_nodes_are_paused_by_a_budget_of_its_own(desk: Desk) -> None:
    assert (await done(desk, "pause")).undo == "haulout resume --all"
    spec: Json = (await desk.get(f"{BUDGET}/haulout-paused"))["spec"]
    assert (set(spec), spec["paused"]["reason"], spec["paused"]["by"]) == ({"paused"}, "disk", "jane")
    assert (await refused(desk, "pause")).code is Code.NOT_POSSIBLE
    assert (await done(desk, "resume")).undo == "haulout pause --all --reason disk"
    assert [each["metadata"]["name"] for each in (await desk.get(BUDGET))["items"]] == ["night"]


async def test_the_nodes_of_a_selector(desk: Desk) -> None:
    assert (await done(desk, "pause", selector=BLUE)).undo == "haulout resume --selector 'pool=blue,!spare'"
    (made,) = [each for each in (await desk.get(BUDGET))["items"] if each["metadata"]["name"] != "night"]
    assert made["metadata"]["name"].startswith("haulout-paused-")
    expected = {"matchLabels": {"pool": "blue"}, "matchExpressions": [{"key": "spare", "operator": "DoesNotExist"}]}
    assert made["spec"]["selector"] == expected
    assert "not paused" in (await refused(desk, "resume")).detail
    await done(desk, "resume", selector=BLUE)


async def test_a_pause_of_a_budget_that_people_made_leaves_the_budget(desk: Desk) -> None:
    night = Target("NodeDisruptionBudget", "", "night")
    await done(desk, "pause", night)
    resumed = await done(desk, "resume")
    assert [(write.verb, write.name) for write in resumed.writes] == [("patch", "night")]
    assert (await desk.get(f"{BUDGET}/night"))["spec"] == {"maxUnavailable": 0}


async def test_a_set_is_paused_for_a_reason_and_resumed_from_both_of_its_pauses(desk: Desk) -> None:
    body = SETS.manifest("roll", {"nodes": ["n1"], "paused": True})
    desk.make(body)
    roll, path = Target("NodeMaintenanceSet", "", "roll"), "/apis/haulout.dev/v1alpha1/nodemaintenancesets/roll"
    assert (await refused(desk, "pause", roll, "")).code is Code.INVALID
    assert (await done(desk, "pause", roll)).undo == "haulout resume nodemaintenanceset/roll"
    assert (await noted(desk, path))[ANNOTATION] == "disk"
    assert (await done(desk, "resume", roll)).undo == "haulout pause nodemaintenanceset/roll --reason disk"
    assert (not await noted(desk, path), (await desk.get(path))["spec"]["paused"]) == (True, False)
    assert (await refused(desk, "resume", roll)).code is Code.NOT_POSSIBLE


async def test_an_override_names_its_budget_and_its_end(desk: Desk) -> None:
    made = await done(desk, "override", MAINTENANCE, limit="night", **{"for": "2h"})
    value = json.loads((await noted(desk, "/apis/nodemaintenance.medik8s.io/v1beta1/nodemaintenances/m"))[OVERRIDE])
    assert (set(value), value["limit"], value["reason"]) == ({"limit", "reason", "until"}, "night", "disk")
    assert made.undo.startswith("kubectl annotate nodemaintenances.nodemaintenance.medik8s.io m haulout.dev/override-")
    assert "override nodedisruptionbudgets" in desk.reviews


async def test_an_override_warns_where_nothing_guards_overrides(desk: Desk) -> None:
    made = await done(desk, "override", MAINTENANCE, limit="night", **{"for": "2h"})
    assert [each for each in made.warnings if "NO EFFECT" in each]
    desk.make(*override_policy())
    made = await done(desk, "override", MAINTENANCE, limit="night", **{"for": "3h"})
    assert len(made.warnings) == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"limit": "night", "for": "25h"}, "longer than 24h"),
        ({"limit": "night", "for": "-1h"}, "longer than 0"),
        ({"limit": "night", "for": "soon"}, "for:"),
        ({"limit": "noon", "for": "1h"}, "no NodeDisruptionBudget named noon"),
        ({"limit": "night"}, "for is missing"),
    ],
    ids=str,
)
async def test_what_an_override_refuses(desk: Desk, args: dict[str, str], words: str) -> None:
    answer = await refused(desk, "override", MAINTENANCE, **args)
    assert words in answer.detail


async def test_the_refusal_names_the_verb_override(desk: Desk) -> None:
    desk.denied.add("override nodedisruptionbudgets")
    answer = await refused(desk, "override", MAINTENANCE, limit="night", **{"for": "1h"})
    assert (answer.code, answer.verb, answer.resource) == (Code.MISSING_RIGHT, "override", "nodedisruptionbudgets")
    assert not desk.writes


@pytest.mark.parametrize("act", ["pause", "override"])
async def test_a_reason_is_needed(desk: Desk, act: str) -> None:
    args = {"limit": "night", "for": "1h"} if act == "override" else {}
    assert (await refused(desk, act, MAINTENANCE, "", **args)).code is Code.INVALID


@pytest.mark.parametrize("kind", ["Skyhook", "NodeWright"])
async def test_packages_are_paused_by_the_switch_of_their_original_too(kind: str) -> None:
    desk, group, plural = Desk("skyhooks", "nodewrights"), f"{kind.lower()}.nvidia.com", f"{kind.lower()}s"
    body = {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": "tune"}, "spec": {"packages": {}}}
    desk.make(body)
    path, target = f"/apis/{group}/v1alpha1/{plural}/tune", Target(kind, "", "tune")
    await done(desk, "pause", target)
    assert (await noted(desk, path))[f"{group}/pause"] == "true"
    assert ANNOTATION in await noted(desk, path)
    await done(desk, "resume", target)
    assert not await noted(desk, path)
