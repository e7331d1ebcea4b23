"""What a Skyhook may run on hosts, and what its pods are given: the settings of an administrator hold everywhere."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from haulout.cluster.key import node_key
from haulout.cluster.rows import Value
from haulout.cluster.view import FactDemand
from haulout.embedded import PODS, Json
from haulout.surfaces.packages.node.failure_log import PACE_FOR, PROBE
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.rows import PREPULL
from haulout.surfaces.packages.specs.image_rules import NOT_BELOW
from haulout.surfaces.packages.wire import skyhook_key
from tests.build.original import NAME, NODE, Original, entry
from tests.build.skyhooks import P, Skyhooks, pkg

REBOOT = {"type": "reboot"}
TOKENLESS = {"automountServiceAccountToken": False, "enableServiceLinks": False}


def access(pod: Json) -> dict[str, Any]:
    return {name: pod["spec"].get(name) for name in TOKENLESS}


class TestPodsWithoutToken:
    def test_no_pod_of_a_life_has_a_token_of_the_api_server(self) -> None:
        ops = Skyhooks()
        removable = pkg(interrupt=REBOOT, uninstall={"enabled": True})
        ops.make("demo", {"base": removable, "tune": pkg()}).run(60)
        ops.packages("demo", {"tune": pkg("1.1.0")}).run(60)
        ops.packages("demo", {"tune": pkg("1.0.0")}).run(60)
        ops.packages("demo", {"base": pkg(interrupt=REBOOT, uninstall={"enabled": True, "apply": True})}).run(60)
        assert {about.stage for about in ops.made} == {
            *("apply", "config", "interrupt", "post-interrupt", "upgrade", "uninstall", "uninstall-interrupt"),
        }
        assert all(access(about.pod) == TOKENLESS for about in ops.made)

    def test_a_pod_with_a_token_is_left_to_its_end(self) -> None:
        """It was made by the original, or by this operator in an older version."""
        original = Original(pkg()).stands("in_progress", entry("apply", "in_progress")).runs("apply")
        (pod,) = original.ops.world.objects.list(PODS, "skyhook")
        assert access(pod) != TOKENLESS
        ops = original.taken_over(60)
        assert [about.pod["metadata"]["uid"] for about in ops.pods()] == [pod["metadata"]["uid"]]
        assert (ops.made, ops.state(NODE, NAME)) == ([], {"base|1.0.0": "apply/in_progress"})


class TestOutput:
    def test_the_output_of_a_failing_step_is_not_copied_by_default(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "fail"
        ops.make("demo", {"base": pkg()}).run(10)
        (pod,) = ops.pods()
        name = pod.pod["metadata"]["name"]
        fact = FactDemand(PROBE, ("skyhook", name, "base-init", 1), PACE_FOR).key
        ops.kernel.store.write(Value(key=fact, value="password=1234", state="fresh"))
        ops.run(10)
        assert ops.annotation(NODE, "lastError_demo") is None
        assert [note for note in ops.told if "1234" in note] == []
        (reason,) = ops.explain("packages-nodes", node_key(NODE))
        assert [each.act for each in reason.because] == [f"kubectl logs -n skyhook {name} -c base-init"]

    def test_what_an_older_operator_has_copied_is_removed(self) -> None:
        ops = Skyhooks(Options(keep_failure_logs=True))
        ops.fate = lambda about: "fail"
        ops.make("demo", {"base": pkg()}).run(10)
        ops.change_node(NODE, {"metadata": {"annotations": {f"{P}lastError_demo": "password=1234"}}}).run(10)
        assert ops.annotation(NODE, "lastError_demo") == "password=1234"
        (pod,) = ops.pods()
        ops.options = Options()
        ops.begin().run(10)
        assert (ops.annotation(NODE, "lastError_demo"), ops.shows("demo", NODE)) == (None, ["erroring"])
        assert [about.pod["metadata"]["uid"] for about in ops.pods()] == [pod.pod["metadata"]["uid"]]


DIGEST = "sha256:" + "0123456789abcdef" * 4
OURS, THEIRS = "reg.test/ours", "reg.test/ours-not"
RULED = Options(allowed_image_prefixes=(OURS, "reg.test/agents"))
PINNED = Options(require_container_sha=True)
NO_OVERRIDE = Options(forbid_agent_image_override=True)


def image(repository: str = f"{OURS}/tool", version: str = "1.0.0", **more: Any) -> Json:
    return {**pkg(version, **more), "image": repository}


ALLOWED = [
    pytest.param(Options(), image(THEIRS), id="nothing is ruled"),
    pytest.param(RULED, image(), id="below a prefix"),
    pytest.param(RULED, image(agentImageOverride="reg.test/agents/agent:2"), id="agent below a prefix"),
    pytest.param(PINNED, image(containerSHA=DIGEST), id="digest beside the image"),
    pytest.param(PINNED, image(f"{THEIRS}@{DIGEST}"), id="digest in the image"),
    pytest.param(PINNED, image(containerSHA=DIGEST, agentImageOverride=f"x/agent@{DIGEST}"), id="agent with a digest"),
    pytest.param(NO_OVERRIDE, image(THEIRS), id="no override"),
]
REFUSED = [
    pytest.param(RULED, image(THEIRS), f"image {THEIRS}:1.0.0", id="beside the prefix"),
    pytest.param(RULED, image(f"{OURS}.evil/tool"), f"image {OURS}.evil/tool:1.0.0", id="longer host"),
    pytest.param(RULED, image(agentImageOverride="evil/agent:1"), "agentImageOverride evil/agent:1", id="agent"),
    pytest.param(PINNED, image(), f"image {OURS}/tool:1.0.0", id="tag"),
    pytest.param(PINNED, image(containerSHA="sha256:0123"), f"image {OURS}/tool@sha256:0123", id="short digest"),
    pytest.param(
        PINNED,
        image(containerSHA=DIGEST, agentImageOverride="x/agent:1"),
        "agentImageOverride x/agent:1",
        id="agent's tag",
    ),
    pytest.param(NO_OVERRIDE, image(agentImageOverride="x/agent:1"), "agentImageOverride", id="override"),
]


class TestImageRules:
    @pytest.mark.parametrize(("options", "package"), ALLOWED)
    def test_an_allowed_image_runs(self, options: Options, package: Json) -> None:
        ops = Skyhooks(options).make("demo", {"base": package}).run(30)
        assert (ops.phase("demo"), ops.condition("demo", "ImageNotAllowed")) == ("complete", None)

    @pytest.mark.parametrize(("options", "package", "named"), REFUSED)
    def test_what_slipped_past_the_webhook_runs_nothing_and_says_why(
        self, options: Options, package: Json, named: str
    ) -> None:
        ops = Skyhooks(options).make("bad", {"base": package}, priority=1)
        good = image(containerSHA=DIGEST)
        ops.make("good", {"base": good}).run(60)
        assert {about.skyhook for about in ops.made} == {"good"}
        assert (ops.phase("good"), ops.failures, ops.slowed) == ("complete", [], [])
        condition = ops.condition("bad", "ImageNotAllowed")
        assert condition is not None
        assert condition[:2] == ("True", "ImageNotAllowed")
        assert condition[2].startswith(f'package "base": {named}')
        (reason, *_) = ops.explain("packages", skyhook_key("bad"))
        assert (reason.code, reason.text) == ("image-not-allowed", condition[2])
        before = len(ops.writes)
        ops.run(600)
        assert ops.writes[before:] == []

    @pytest.mark.parametrize("state", ['{"base|1.0.0":{"name":"base","version":"1.0.0","stage":"apply"}}', "{"])
    def test_it_holds_up_no_other_where_nothing_of_it_runs(self, state: str) -> None:
        ops = Skyhooks(RULED)
        ops.change_node(NODE, {"metadata": {"annotations": {f"{P}nodeState_bad": state}}})
        ops.make("bad", {"base": image(THEIRS)}, priority=1).make("good", {"base": image()}).run(60)
        assert {about.pod["metadata"]["labels"][f"{P}name"] for about in ops.made} == {"good"}
        assert ops.phase("good") == "complete"

    def test_a_refused_skyhook_runs_once_its_image_is_allowed(self) -> None:
        ops = Skyhooks(RULED).make("demo", {"base": image(THEIRS)}).run(30)
        assert ops.made == []
        ops.packages("demo", {"base": image()}).run(30)
        assert (ops.phase("demo"), ops.condition("demo", "ImageNotAllowed")) == ("complete", None)

    def test_new_rules_stop_what_comes_next_and_repeat_nothing(self) -> None:
        ops = Skyhooks(nodes=2)
        ops.fate = lambda about: "hang"
        ops.make("half", {"base": image(THEIRS)}, interruptionBudget={"count": 1}).run(10)
        (running,) = ops.pods()
        ops.options = RULED
        ops.begin().run(10)
        assert [about.pod["metadata"]["uid"] for about in ops.pods()] == [running.pod["metadata"]["uid"]]
        ops.finish(running)
        ops.run(60)
        assert (ops.trail(), ops.pods()) == (["base/apply"], [])
        assert ops.state(running.node, "half") == {"base|1.0.0": "apply/complete"}
        ops.options = Options()
        ops.fate = lambda about: "ok"
        ops.begin().run(60)
        assert (ops.phase("half"), ops.trail(node=running.node)) == ("complete", ["base/apply", "base/config"])

    def test_what_is_complete_stays_complete_under_new_rules(self) -> None:
        ops = Skyhooks().make("demo", {"base": image(THEIRS)}).run(30)
        made = len(ops.made)
        ops.options = RULED
        ops.begin().run(60)
        assert (ops.phase("demo"), len(ops.made)) == ("complete", made)
        condition = ops.condition("demo", "ImageNotAllowed")
        assert condition is not None
        assert THEIRS in condition[2]

    def test_a_removed_package_is_not_uninstalled_from_an_image_that_is_not_allowed(self) -> None:
        ops = Skyhooks().make("demo", {"base": image(), "old": image(THEIRS)}).run(30)
        ops.options = RULED
        ops.begin().packages("demo", {"old": None}).run(60)
        assert [about.name for about in ops.made if about.stage == "uninstall"] == []
        condition = ops.condition("demo", "ImageNotAllowed")
        assert condition is not None
        assert condition[2] == f'node n0: package "old": image {THEIRS}:1.0.0 {NOT_BELOW}'
        (reason,) = ops.explain("packages-nodes", node_key("n0"))
        assert [each.code for each in reason.because] == ["image-not-allowed"]
        ops.options = Options()
        ops.begin().run(60)
        assert (ops.phase("demo"), ops.condition("demo", "ImageNotAllowed")) == ("complete", None)
        assert ops.trail(package="old")[-1] == "old/uninstall"

    def test_no_image_is_pulled_that_is_not_allowed(self) -> None:
        options = msgspec.structs.replace(RULED, pre_pull=True, pre_pull_timeout=timedelta(minutes=1))
        ops = Skyhooks().make("demo", {"base": image(interrupt=REBOOT), "old": image(THEIRS)}).run(60)
        seen: list[Json] = []
        ops.world.objects.subscribe(PODS, lambda change: seen.append(change.object))
        ops.options = options
        ops.begin().packages("demo", {"old": None, "base": image(version="1.1.0", interrupt=REBOOT)}).run(60)
        pulling = [pod for pod in seen if PREPULL in pod["metadata"]["labels"]]
        pulled = {container["image"] for pod in pulling for container in pod["spec"]["containers"]}
        assert all(access(pod) == TOKENLESS for pod in pulling)
        assert f"{OURS}/tool:1.1.0" in pulled
        assert [each for each in pulled if each.startswith(THEIRS)] == []
