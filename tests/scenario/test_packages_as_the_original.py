"""What a Skyhook and its packages see of their nodes, as the original shows it."""

import json
from typing import Any

import pytest

from haulout.embedded import PODS
from haulout.kernel.requests import Answer, Body, Change
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods import names
from tests.build.skyhooks import CONFIG_MAPS, About, P, Skyhooks, pkg

STRATEGY = {"exponential": {"initialBatch": 1, "growthFactor": 2}}
POLICY = {"default": {"budget": {"count": 2}, "strategy": STRATEGY}, "resetBatchStateOnCompletion": True}


def metadata(ops: Skyhooks, node: str) -> dict[str, Any]:
    """Return what a package finds in its node's metadata."""
    found = ops.world.objects.get(CONFIG_MAPS, "skyhook", names.metadata_config_map("demo", node))
    assert found is not None
    return {name.removesuffix(".json"): json.loads(text) for name, text in found["data"].items()}


def unable(ops: Skyhooks, about: About, reason: str) -> None:
    """Let the kubelet report that it cannot start the containers of a pod."""
    statuses = [
        {"name": each["name"], "ready": False, "restartCount": 0, "state": {"waiting": {"reason": reason}}}
        for each in about.pod["spec"]["initContainers"]
    ]
    meta = about.pod["metadata"]
    body = {"status": {"initContainerStatuses": [{**each, "image": "", "imageID": ""} for each in statuses]}}
    ops.world.objects.patch(PODS, meta["namespace"], meta["name"], body, subresource="status")


@pytest.mark.parametrize("alone", [True, False], ids=["as", "run"])
def test_every_stage_finds_the_state_of_its_node(alone: bool) -> None:
    ops = Skyhooks(Options(alone=alone))
    seen: dict[str, str] = {}

    def look(about: About) -> str:
        entries = json.loads(metadata(ops, "n0")["annotations"][f"{P}nodeState_demo"])
        seen[about.name] = "/".join(entries["base|1.0.0"][word] for word in ("stage", "state"))
        return "ok"

    ops.fate = look
    ops.make("demo", {"base": pkg(interrupt={"type": "noop"})}).run(60)
    assert ops.phase("demo") == "complete"
    assert seen == {
        f"base/{stage}": f"{stage}/in_progress" for stage in ("apply", "config", "interrupt", "post-interrupt")
    }


def test_a_node_without_packages_keeps_its_place_in_the_status() -> None:
    ops = Skyhooks().make("demo", {"base": pkg()}).run(30)
    ops.packages("demo", {"base": None}).run(30)
    assert (ops.annotation("n0", "nodeState_demo"), ops.status("demo")["nodeState"]) == ("{}", {"n0": {}})


def test_the_last_batch_is_shown_before_the_batches_are_reset() -> None:
    ops, shown = Skyhooks(nodes=3), list[tuple[str, int, int]]()

    def note(body: Body, carry_out: Any) -> Answer:
        answer: Answer = carry_out()
        if isinstance(body, Change) and body.subresource == "status" and body.target.kind == "Skyhook":
            record = ops.status("demo")["compartmentStatuses"]["__default__"]
            shown.append((ops.phase("demo"), record["completed"], record["batchState"]["currentBatch"]))
        return answer

    ops.way = note
    ops.policy("waves", **POLICY).make("demo", {"base": pkg()}, deploymentPolicy="waves").run(60)
    assert shown[-2:] == [("in_progress", 3, 3), ("complete", 3, 1)]


def test_a_skyhook_whose_nodes_are_complete_already_is_complete_at_once() -> None:
    ops = Skyhooks(nodes=2).policy("waves", **POLICY).make("demo", {"base": pkg()}, deploymentPolicy="waves").run(60)
    ops.delete("demo").run(30)
    ops.make("demo", {"base": pkg()}, deploymentPolicy="waves").run(0.9)
    assert ops.phase("demo") == "complete"


@pytest.mark.parametrize(("fails", "shows"), [(False, "in_progress"), (True, "erroring")])
@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError"])
def test_a_container_that_cannot_start_fails_only_if_the_setting_says_so(fails: bool, shows: str, reason: str) -> None:
    ops = Skyhooks(Options(unstartable_fails=fails))
    ops.fate = lambda about: "hang"
    ops.make("demo", {"base": pkg()}).run(5)
    unable(ops, ops.made[0], reason)
    ops.run(5)
    assert (ops.shows("demo", "n0"), ops.state("n0", "demo")) == ([shows], {"base|1.0.0": f"apply/{shows}"})
    ops.finish(ops.made[0])
    ops.fate = lambda about: "ok"
    ops.run(30)
    assert ops.phase("demo") == "complete"


def test_a_container_that_crashes_and_then_cannot_start_fails() -> None:
    ops = Skyhooks()
    ops.fate = lambda about: "fail"
    ops.make("demo", {"base": pkg()}).run(5)
    unable(ops, ops.made[0], "ErrImagePull")
    ops.run(5)
    assert ops.state("n0", "demo") == {"base|1.0.0": "apply/erroring"}
