"""A Skyhook and a NodeWright of one name are one unit: nothing runs again because of a rename, in either direction."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from haulout.embedded import PODS, Json
from haulout.kernel.requests import Answer, Body, Look
from haulout.surfaces.packages.groups import NODEWRIGHT, SKYHOOK, Group
from haulout.surfaces.packages.wire import MIRRORED_FROM, MIRRORED_GENERATION
from tests.build.examples import FULL
from tests.build.skyhooks import CONFIG_MAPS, Counting, pkg
from tests.build.units import JOBS, Units, copy_directory, entry, job, resource_id

WAYS = pytest.mark.parametrize(("first", "second"), [(SKYHOOK, NODEWRIGHT), (NODEWRIGHT, SKYHOOK)], ids=["S-N", "N-S"])
PACKAGES = {"base": pkg()}
DONE = {"base|1.0.0": "config/complete"}


def settled(first: Group, nodes: int = 2, **more: Any) -> Units:
    ops = Units(nodes=nodes).create(first, PACKAGES, **more)
    ops.run(60)
    assert ops.counts(first) == ("complete", f"{nodes}/{nodes}")
    return ops


def test_a_nodewright_alone_is_as_a_skyhook_under_its_own_prefix() -> None:
    ops = settled(NODEWRIGHT)
    found = ops.object(NODEWRIGHT)
    assert found is not None
    assert found["metadata"]["finalizers"] == ["nodewright.nvidia.com/nodewright"]
    for kind in ("Ready", "nodewright.nvidia.com/Ready"):
        assert ops.has_condition(NODEWRIGHT, kind) == ("True", "NodesConverged")
    assert ops.entries("n0", NODEWRIGHT) == DONE
    assert ops.node("n0")["metadata"]["labels"]["nodewright.nvidia.com/status_demo"] == "complete"
    assert ops.keys("n0", SKYHOOK) == set()
    assert {each["type"] for each in found["status"]["conditions"] if "skyhook" in each["type"]} == set()
    assert ops.failures == []


def test_a_skyhook_that_had_the_condition_with_the_prefix_keeps_it_true() -> None:
    ops = settled(NODEWRIGHT, 1)
    ops.create(SKYHOOK, PACKAGES).run(30)
    ops.remove(NODEWRIGHT).run(30)
    ops.fate = lambda about: "hangs"
    ops.change(SKYHOOK, {"spec": {"packages": {"base": {"version": "1.1.0"}}}}).run(30)
    for kind in ("Ready", "skyhook.nvidia.com/Ready"):
        assert ops.has_condition(SKYHOOK, kind) == ("False", "Progressing")


def test_a_skyhook_alone_has_its_own_prefix_only() -> None:
    ops = settled(SKYHOOK)
    assert ops.keys("n0", NODEWRIGHT) == set()


@WAYS
def test_an_equal_object_of_the_other_group_joins_without_a_run(first: Group, second: Group) -> None:
    ops = settled(first)
    made = len(ops.made)
    ops.create(second, PACKAGES).run(30)
    assert (ops.counts(first), ops.counts(second)) == (("complete", "2/2"),) * 2
    assert [ops.entries(node, group) for node in ("n0", "n1") for group in (first, second)] == [DONE] * 4
    assert len(ops.made) == made
    before = len(ops.writes)
    ops.run(300)
    assert ops.writes[before:] == []
    assert ops.failures == []


@WAYS
def test_the_object_that_is_deleted_first_takes_only_its_own_keys_along(first: Group, second: Group) -> None:
    ops = settled(first)
    made = len(ops.made)
    ops.create(second, PACKAGES).run(30)
    mine = {first.prefix + "pool": "x", first.prefix + "ignore": "false"}
    ops.change_node("n1", {"metadata": {"labels": mine}, "spec": {"unschedulable": True}})
    ops.remove(first).run(10)
    assert ops.object(first) is None
    assert [ops.keys(node, first) for node in ("n0", "n1")] == [set()] * 2
    assert mine.items() <= ops.node("n1")["metadata"]["labels"].items()
    assert ops.node("n1")["spec"]["unschedulable"]
    assert [ops.entries(node, second) for node in ("n0", "n1")] == [DONE] * 2
    assert ops.owners() == {second.kind}
    assert (ops.counts(second), len(ops.made)) == (("complete", "2/2"), made)


def swapped(ops: Units, old: Group, new: Group) -> None:
    found = ops.object(old)
    assert found is not None
    ops.create(new, found["spec"]["packages"])
    ops.remove(old)


@WAYS
def test_a_pod_that_runs_during_the_swap_stays_and_counts_once(first: Group, second: Group) -> None:
    ops = Units()
    ops.fate = lambda about: "hangs"
    ops.create(first, {"base": pkg(configMap={"a": "1"})}).run(5)
    (pod,) = ops.pods()
    swapped(ops, first, second)
    ops.run(30)
    assert ops.object(first) is None
    assert [each.pod["metadata"]["uid"] for each in ops.pods()] == [pod.pod["metadata"]["uid"]]
    assert ops.entries("n0", second) == {"base|1.0.0": "apply/in_progress"}
    ops.fate = lambda about: "ok"
    ops.finish(pod)
    ops.run(60)
    assert ops.trail() == ["base/apply", "base/config"]
    assert ops.counts(second) == ("complete", "1/1")
    assert (ops.keys("n0", first), ops.owners()) == (set(), {second.kind})


@WAYS
def test_an_interrupt_that_is_not_recorded_keeps_its_identity(first: Group, second: Group) -> None:
    ops = Units()
    ops.fate = lambda about: "hangs" if about.stage == "interrupt" else "ok"
    ops.create(first, {"base": pkg(interrupt={"type": "reboot"})}).run(30)
    (pod,) = ops.pods()
    swapped(ops, first, second)
    ops.run(10)
    ops.world.objects.delete(PODS, ops.options.namespace, pod.pod["metadata"]["name"], grace=0)
    ops.fate = lambda about: "ok"
    ops.run(60)
    again = [each for each in ops.made if each.stage == "interrupt"]
    assert len(again) == 2
    assert len({(resource_id(each), copy_directory(each)) for each in again}) == 1
    assert ops.trail() == ["base/apply", "base/config", "base/interrupt", "base/interrupt", "base/post-interrupt"]
    assert ops.counts(second) == ("complete", "1/1")
    assert not ops.node("n0")["spec"].get("unschedulable")
    assert {
        key for group in (first, second) for key in ops.keys("n0", group) if "cordon" in key or "Id" in key
    } == set()


def test_a_nodewright_with_another_spec_wins_and_the_skyhook_says_so() -> None:
    ops = settled(SKYHOOK)
    ops.create(NODEWRIGHT, {"base": pkg("1.1.0")}).run(60)
    assert ops.counts(NODEWRIGHT) == ops.counts(SKYHOOK) == ("complete", "2/2")
    assert ops.entries("n0", NODEWRIGHT) == {"base|1.1.0": "config/complete"}
    assert ops.has_condition(SKYHOOK, "Superseded") == ("True", "SameNameInOtherGroup")
    follower = ops.object(SKYHOOK)
    assert follower is not None
    seen = {each.get("observedGeneration", 1) for each in follower["status"]["conditions"]}
    assert (follower["status"]["observedGeneration"], follower["metadata"]["generation"], seen) == (1, 1, {1})
    assert sorted(ops.trail())[-2:] == ["base/upgrade", "base/upgrade"]
    made = len(ops.made)
    ops.change(SKYHOOK, {"spec": {"packages": {"base": {"version": "1.2.0"}}}}).run(30)
    assert len(ops.made) == made
    ops.remove(NODEWRIGHT).run(60)
    assert ops.object(NODEWRIGHT) is None
    assert ops.entries("n0", SKYHOOK) == {"base|1.2.0": "config/complete"}
    assert ops.has_condition(SKYHOOK, "Superseded") is None


@WAYS
def test_a_pause_of_either_object_pauses_both(first: Group, second: Group) -> None:
    ops = Units().create(first, PACKAGES, annotations={first.prefix + "pause": "true"}).create(second, PACKAGES)
    ops.run(30)
    assert (ops.counts(first)[0], ops.counts(second)[0], ops.made) == ("paused", "paused", [])
    ops.annotate(first, pause=None).run(60)
    assert (ops.counts(first), ops.counts(second)) == (("complete", "1/1"),) * 2


def test_the_deletion_of_one_of_two_objects_uninstalls_nothing() -> None:
    packages = {"base": pkg(uninstall={"enabled": True})}
    ops = Units().create(SKYHOOK, packages).create(NODEWRIGHT, packages)
    ops.run(60)
    ops.remove(NODEWRIGHT).run(60)
    assert (ops.object(NODEWRIGHT), ops.trail()) == (None, ["base/apply", "base/config"])
    ops.remove(SKYHOOK).run(60)
    assert (ops.object(SKYHOOK), ops.trail()[-1]) == (None, "base/uninstall")


# Packages that are removed


def test_a_nodewright_runs_nothing_for_a_removed_package() -> None:
    ops = Units().create(NODEWRIGHT, {"base": pkg(), "more": pkg()})
    ops.run(60)
    made = len(ops.made)
    ops.change(NODEWRIGHT, {"spec": {"packages": {"base": None}}}).run(60)
    assert (ops.counts(NODEWRIGHT), len(ops.made)) == (("complete", "1/1"), made)
    assert ops.entries("n0", NODEWRIGHT) == {"base|1.0.0": "config/complete", "more|1.0.0": "config/complete"}


def test_a_skyhook_that_follows_a_nodewright_uninstalls_nothing_that_was_left_over() -> None:
    ops = Units().create(NODEWRIGHT, {"base": pkg(), "more": pkg()})
    ops.run(60)
    ops.change(NODEWRIGHT, {"spec": {"packages": {"base": None}}}).run(30)
    ops.create(SKYHOOK, {"more": pkg()}).run(30)
    ops.remove(NODEWRIGHT).run(60)
    assert ops.trail().count("base/uninstall") == 0
    ops.change(SKYHOOK, {"spec": {"packages": {"more": None}}}).run(60)
    assert [each for each in ops.trail() if each.endswith("uninstall")] == ["more/uninstall"]


def test_what_an_original_since_v016_has_left_over_is_never_uninstalled() -> None:
    ops = Units()
    ops.stamp("n0", SKYHOOK, entry() | entry(name="beta"))
    ops.create(SKYHOOK, PACKAGES, annotations={"skyhook.nvidia.com/version": "v0.17.1"}).run(60)
    ops.begin()
    ops.run(60)
    assert (ops.counts(SKYHOOK), ops.made) == (("complete", "1/1"), [])
    ops.change(SKYHOOK, {"spec": {"packages": {"base": None}}}).run(60)
    assert ops.trail() == ["base/uninstall"]
    assert ops.entries("n0", SKYHOOK) == {"beta|1.0.0": "config/complete"}


def test_a_downgrade_without_uninstallation_is_not_repeated_after_a_rename() -> None:
    ops = Units()
    ops.stamp("n0", SKYHOOK, entry() | entry("1.1.0"))
    ops.create(SKYHOOK, PACKAGES, annotations={"skyhook.nvidia.com/version": "v0.17.1"}).run(60)
    assert (ops.counts(SKYHOOK), ops.made) == (("complete", "1/1"), [])
    ops.change(SKYHOOK, {"spec": {"packages": {"base": {"version": "1.1.0"}}}}).run(60)
    assert ops.trail() == ["base/upgrade", "base/config"]
    assert ops.entries("n0", SKYHOOK) == {"base|1.1.0": "config/complete"}
    ops.change(SKYHOOK, {"spec": {"packages": {"base": None}}}).run(60)
    assert ops.trail()[2:] == ["base/uninstall"]


def test_a_package_that_was_left_over_and_comes_back_is_uninstalled_when_it_is_removed() -> None:
    ops = Units()
    ops.stamp("n0", SKYHOOK, entry() | entry(name="beta"))
    ops.create(SKYHOOK, PACKAGES, annotations={"skyhook.nvidia.com/version": "v0.17.1"}).run(60)
    ops.change(SKYHOOK, {"spec": {"packages": {"beta": pkg()}}}).run(60)
    assert ops.made == []
    ops.change(SKYHOOK, {"spec": {"packages": {"beta": None}}}).run(60)
    assert ops.trail() == ["beta/uninstall"]


# What the original leaves behind


def mirrored(ops: Units, mine: str, theirs: str) -> Units:
    ops.create(
        SKYHOOK,
        {"base": pkg(mine)},
        finalizers=[SKYHOOK.finalizer],
        annotations={"skyhook.nvidia.com/version": "v0.17.1"},
    )
    notes = {MIRRORED_FROM: "demo", MIRRORED_GENERATION: "1", "nodewright.nvidia.com/version": "v0.20.0"}
    return ops.create(NODEWRIGHT, {"base": pkg(theirs)}, finalizers=[NODEWRIGHT.finalizer], annotations=notes)


def told(ops: Units, group: Group, nodes: int) -> None:
    status = {"status": "complete", "observedGeneration": 1, "completeNodes": f"{nodes}/{nodes}"}
    ops.change(group, {"status": status}, subresource="status")


def taken_over(mine: str = "1.0.0", theirs: str = "1.0.0") -> Units:
    ops = Units()
    ops.change_node("n0", {"metadata": {"labels": {"x": "y"}}})
    ops.stamp("n0", SKYHOOK, entry("0.9.0")).stamp("n0", NODEWRIGHT, entry(theirs))
    mirrored(ops, mine, theirs)
    told(ops, NODEWRIGHT, 1)
    return ops


def test_a_mirrored_skyhook_gets_its_status_and_leads_again() -> None:
    ops = taken_over()
    ops.run(20)
    assert (ops.counts(SKYHOOK), ops.made) == (("complete", "1/1"), [])
    ops.change(SKYHOOK, {"spec": {"packages": {"base": {"version": "1.1.0"}}}}).run(60)
    assert ops.entries("n0", SKYHOOK) == ops.entries("n0", NODEWRIGHT) == {"base|1.1.0": "config/complete"}
    mirror = ops.object(NODEWRIGHT)
    assert mirror is not None
    assert mirror["spec"]["packages"]["base"]["version"] == "1.1.0"
    assert ops.has_condition(NODEWRIGHT, "Superseded") is None
    assert ops.failures == []


def test_a_mirror_that_is_only_written_otherwise_is_untouched() -> None:
    """The original writes a mirror from its Go types."""
    ops = Units()
    cpu = {"cpuRequest": "1000m", "cpuLimit": "1000m"}
    memory = {"memoryRequest": "64Mi", "memoryLimit": "64Mi"}
    package = pkg(gracefulShutdown="1m", stageTimeout="90s", resources={**cpu, **memory})
    ops.create(SKYHOOK, {"base": package}, pause=True, annotations={"skyhook.nvidia.com/version": "v0.17.1"})
    again = {
        **package,
        "gracefulShutdown": "1m0s",
        "stageTimeout": "1m30s",
        "resources": {**dict.fromkeys(cpu, "1"), **memory},
    }
    notes = {MIRRORED_FROM: "demo", MIRRORED_GENERATION: "1"}
    more: dict[str, Any] = {"interruptionBudget": {}, "drainConfig": {"force": True}}
    ops.create(NODEWRIGHT, {"base": {**again, "uninstall": {"enabled": False}}}, annotations=notes, **more).run(30)
    assert ops.has_condition(SKYHOOK, "Superseded") is None
    ops.change(SKYHOOK, {"spec": {"packages": {"base": {"version": "1.1.0"}}}}).run(60)
    assert ops.entries("n0", SKYHOOK) == {"base|1.1.0": "config/complete"}


def test_an_edited_mirror_leads() -> None:
    ops = taken_over(theirs="1.2.0")
    ops.run(20)
    assert (ops.counts(NODEWRIGHT), ops.counts(SKYHOOK), ops.made) == (("complete", "1/1"), ("complete", "1/1"), [])
    assert ops.has_condition(SKYHOOK, "Superseded") == ("True", "SameNameInOtherGroup")


TAGGED = {"base": {"version": "1.0.0", "image": "reg.test/agentless:1.0.0"}}


def test_an_untouched_mirror_with_a_tag_follows_and_loses_the_tag() -> None:
    """A Skyhook that was stored before there was a webhook has its tag, and so has the mirror that the original made of it."""
    ops = Units()
    ops.stamp("n0", SKYHOOK, entry()).stamp("n0", NODEWRIGHT, entry())
    ops.create(SKYHOOK, TAGGED, finalizers=[SKYHOOK.finalizer])
    notes = {MIRRORED_FROM: "demo", MIRRORED_GENERATION: "1"}
    ops.create(NODEWRIGHT, TAGGED, finalizers=[NODEWRIGHT.finalizer], annotations=notes)
    told(ops, NODEWRIGHT, 1)
    ops.run(20)
    assert (ops.counts(SKYHOOK), ops.counts(NODEWRIGHT), ops.made) == (("complete", "1/1"), ("complete", "1/1"), [])
    ops.change(SKYHOOK, {"spec": {"packages": {"base": {"version": "1.1.0"}}}}).run(60)
    assert ops.entries("n0", SKYHOOK) == ops.entries("n0", NODEWRIGHT) == {"base|1.1.0": "config/complete"}
    mirror = ops.object(NODEWRIGHT)
    assert mirror is not None
    assert mirror["spec"]["packages"]["base"] == {"version": "1.1.0", "image": "reg.test/agentless"}
    assert (ops.has_condition(SKYHOOK, "Superseded"), ops.has_condition(NODEWRIGHT, "Superseded")) == (None, None)
    assert ops.failures == []


def test_a_mirror_with_a_tag_that_was_edited_leads_and_says_what_is_wrong() -> None:
    ops = taken_over(theirs="1.2.0")
    ops.change(NODEWRIGHT, {"spec": {"packages": {"base": {"image": "reg.test/agentless:1.2.0"}}}}).run(20)
    found = ops.object(NODEWRIGHT)
    assert found is not None
    (text,) = [each["message"] for each in found["status"]["conditions"] if each["reason"] == "SpecInvalid"][:1]
    assert text == "the image of package base has a tag or a digest: remove it, the package's version is the tag"
    assert ops.has_condition(SKYHOOK, "Superseded") == ("True", "SameNameInOtherGroup")


def at_work(*, suspend: bool = False, **notes: str) -> Units:
    """Return a world that NodeWright v0.20 has left: the stage `apply` of a package is in a Job."""
    ops = Units()
    ops.stamp("n0", NODEWRIGHT, entry(stage="apply", state="in_progress"), status="in_progress")
    ops.create(NODEWRIGHT, PACKAGES, finalizers=[NODEWRIGHT.finalizer], annotations=notes)
    owner = ops.object(NODEWRIGHT)
    assert owner is not None
    status = {"status": "in_progress", "nodePriority": {"n0": "2026-10-01T00:00:00Z"}}
    ops.change(NODEWRIGHT, {"status": status}, subresource="status")
    ops.world.objects.create(JOBS, job(owner, "apply", suspend=suspend))
    return ops


def job_of(ops: Units) -> Json:
    found = ops.world.objects.get(JOBS, "skyhook", "demo-base-apply")
    assert found is not None
    return found


def test_nothing_runs_beside_a_job_and_its_result_is_recorded_once() -> None:
    ops = at_work()
    ops.run(30)
    assert (ops.made, ops.entries("n0", NODEWRIGHT)) == ([], {"base|1.0.0": "apply/in_progress"})
    done = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    ops.world.objects.patch(JOBS, "skyhook", "demo-base-apply", done, subresource="status")
    ops.run(60)
    assert ops.trail() == ["base/config"]
    assert job_of(ops)["metadata"]["annotations"]["nodewright.nvidia.com/state-recorded"] == "true"
    assert ops.counts(NODEWRIGHT) == ("complete", "1/1")
    assert ops.failures == []


def test_a_suspended_job_of_a_paused_nodewright_runs_on_after_the_pause() -> None:
    ops = at_work(suspend=True, **{"nodewright.nvidia.com/pause": "true"})
    ops.run(30)
    assert job_of(ops)["spec"]["suspend"] is True
    ops.annotate(NODEWRIGHT, pause=None).run(10)
    assert job_of(ops)["spec"]["suspend"] is False
    ops.annotate(NODEWRIGHT, pause="true").run(10)
    assert (job_of(ops)["spec"]["suspend"], ops.made) == (True, [])


def beside_a_pod() -> tuple[Units, str]:
    """Return a paused pair: a stage runs in a pod, and the original has made a Job of the same stage beside it."""
    ops = Units()
    ops.fate = lambda about: "hangs"
    ops.create(SKYHOOK, PACKAGES).run(10)
    (pod,) = ops.pods()
    ops.annotate(SKYHOOK, pause="true").run(5)
    notes = {MIRRORED_FROM: "demo", MIRRORED_GENERATION: "1", "nodewright.nvidia.com/pause": "true"}
    ops.create(NODEWRIGHT, PACKAGES, finalizers=[NODEWRIGHT.finalizer], annotations=notes)
    owner = ops.object(NODEWRIGHT)
    assert owner is not None
    ops.world.objects.create(JOBS, job(owner, "apply", suspend=True))
    ops.run(10)
    return ops, pod.pod["metadata"]["uid"]


def unpaused(ops: Units) -> None:
    for group in (SKYHOOK, NODEWRIGHT):
        ops.annotate(group, pause=None)


def test_a_suspended_job_is_not_resumed_beside_a_pod_of_its_stage() -> None:
    ops, uid = beside_a_pod()
    assert job_of(ops)["spec"]["suspend"] is True
    unpaused(ops)
    ops.run(30)
    assert [each.pod["metadata"]["uid"] for each in ops.pods()] == [uid]
    assert ops.world.objects.list(JOBS, ops.options.namespace) == []
    ops.fate = lambda about: "ok"
    ops.finish(ops.pods()[0])
    ops.run(60)
    assert ops.trail() == ["base/apply", "base/config"]
    assert (ops.counts(SKYHOOK), ops.counts(NODEWRIGHT)) == (("complete", "1/1"),) * 2


def test_a_pod_that_ended_during_the_pause_counts_and_the_job_beside_it_never_runs() -> None:
    ops, _ = beside_a_pod()
    ops.fate = lambda about: "ok"
    ops.finish(ops.pods()[0])
    ops.run(10)
    unpaused(ops)
    ops.run(60)
    assert ops.trail() == ["base/apply", "base/config"]
    assert ops.world.objects.list(JOBS, ops.options.namespace) == []
    assert (ops.counts(SKYHOOK), ops.counts(NODEWRIGHT)) == (("complete", "1/1"),) * 2


def test_a_suspended_job_runs_on_when_the_pod_beside_it_is_lost() -> None:
    ops, _ = beside_a_pod()
    pod = ops.pods()[0].pod["metadata"]["name"]
    ops.world.objects.delete(PODS, ops.options.namespace, pod, grace=0)
    ops.run(5)
    unpaused(ops)
    ops.run(10)
    assert (job_of(ops)["spec"]["suspend"], ops.pods()) == (False, [])


def test_of_two_suspended_jobs_of_a_stage_one_runs_on() -> None:
    ops = at_work(suspend=True, **{"nodewright.nvidia.com/pause": "true"})
    owner = ops.object(NODEWRIGHT)
    assert owner is not None
    twin = job(owner, "apply", suspend=True)
    twin["metadata"]["name"] += "-twin"
    ops.world.objects.create(JOBS, twin)
    ops.run(10)
    ops.annotate(NODEWRIGHT, pause=None).run(30)
    jobs = ops.world.objects.list(JOBS, ops.options.namespace)
    assert [(each["metadata"]["name"], each["spec"]["suspend"]) for each in jobs] == [("demo-base-apply", False)]


def test_a_config_map_of_a_nodewright_alone_is_taken_over_as_it_is() -> None:
    ops = Units()
    p = NODEWRIGHT.prefix
    notes = {f"{p}name": "demo", f"{p}Package.Name": "base", f"{p}Package.Version": "1.0.0"}
    metadata = {"name": "demo-base-1.0.0", "namespace": "skyhook", "labels": {f"{p}name": "demo"}, "annotations": notes}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}
    ops.world.objects.create(CONFIG_MAPS, body)
    ops.create(NODEWRIGHT, {"base": pkg(configMap={"a": "1"})}).run(60)
    assert (ops.counts(NODEWRIGHT), ops.refusals) == (("complete", "1/1"), [])


def test_a_pause_of_a_nodewright_stops_the_running_stage_and_that_of_a_skyhook_does_not() -> None:
    for group, count in ((NODEWRIGHT, 0), (SKYHOOK, 1)):
        ops = Units()
        ops.fate = lambda about: "hangs"
        ops.create(group, PACKAGES).run(10)
        ops.annotate(group, pause="true").run(60)
        assert len(ops.pods()) == count
        ops.fate = lambda about: "ok"
        for about in ops.pods():
            ops.finish(about)
        ops.annotate(group, pause=None).run(60)
        assert ops.counts(group) == ("complete", "1/1")


# Killed at every write


class Killed(Exception):
    """The operator is killed at this write."""


class Killing(Counting):
    """Kills the operator at the write of this number, before it is carried out or before its answer arrives."""

    at: int = -1
    before_it: bool = True

    def _carried_out(self, body: Body) -> Answer:
        if isinstance(body, Look) or self.at < 0:
            return super()._carried_out(body)
        self.at -= 1
        if self.at >= 0:
            return super()._carried_out(body)
        if not self.before_it:
            super()._carried_out(body)
        raise Killed


class Mortal(Units):
    """A world whose operators die at a given write."""

    driver_type = Killing


def in_flight(first: Group, stage: str) -> tuple[Mortal, str]:
    ops = Mortal()
    ops.fate = lambda about: "hangs" if about.stage == stage else "ok"
    ops.create(first, {"base": pkg(interrupt={"type": "reboot"}, configMap={"a": "1"})}).run(30)
    (pod,) = ops.pods()
    return ops, pod.pod["metadata"]["uid"]


def ended(ops: Mortal, second: Group, uid: str) -> None:
    ops.run(30)
    assert [each.pod["metadata"]["uid"] for each in ops.pods()] == [uid]
    ops.fate = lambda about: "ok"
    ops.finish(ops.pods()[0])
    ops.run(60)
    assert ops.trail() == ["base/apply", "base/config", "base/interrupt", "base/post-interrupt"]
    assert (ops.counts(second), ops.owners()) == (("complete", "1/1"), {second.kind})
    assert not ops.node("n0")["spec"].get("unschedulable")


@WAYS
@pytest.mark.parametrize("before_it", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("stage", ["apply", "interrupt"])
def test_an_operator_that_is_killed_at_any_write_of_a_swap_is_replaced(
    first: Group, second: Group, stage: str, before_it: bool
) -> None:
    calm, uid = in_flight(first, stage)
    before = len(calm.writes)
    swapped(calm, first, second)
    ended(calm, second, uid)
    count = len(calm.writes) - before
    for number in range(0, count, 1 if FULL else 3):
        ops, uid = in_flight(first, stage)
        assert isinstance(ops.driver, Killing)
        ops.driver.at, ops.driver.before_it = number, before_it
        swapped(ops, first, second)
        with suppress(Killed):
            ops.run()
        ops.begin()
        ended(ops, second, uid)


# Both objects deleted


@pytest.mark.parametrize("seconds", [0, 1, 60])
@pytest.mark.parametrize("uninstall", [False, True], ids=["plain", "uninstall"])
def test_both_objects_can_be_deleted_at_once_at_any_time(seconds: int, uninstall: bool) -> None:
    packages = {"base": pkg(uninstall={"enabled": uninstall})}
    ops = Units().create(SKYHOOK, packages).create(NODEWRIGHT, packages)
    ops.run(seconds)
    ops.remove(SKYHOOK).remove(NODEWRIGHT).run(90)
    assert [ops.object(group) for group in (SKYHOOK, NODEWRIGHT)] == [None, None]
    assert ops.keys("n0", NODEWRIGHT) == set()
    assert (ops.trail()[-1:] == ["base/uninstall"]) == uninstall
    assert ops.failures == []


@pytest.mark.parametrize("uninstall", [False, True], ids=["plain", "uninstall"])
def test_a_mirror_and_its_skyhook_that_were_deleted_before_the_start_go(uninstall: bool) -> None:
    ops = Units()
    ops.stamp("n0", SKYHOOK, entry()).stamp("n0", NODEWRIGHT, entry())
    packages = {"base": pkg(uninstall={"enabled": uninstall})}
    ops.create(SKYHOOK, packages, finalizers=[SKYHOOK.finalizer])
    notes = {MIRRORED_FROM: "demo", MIRRORED_GENERATION: "1"}
    ops.create(NODEWRIGHT, packages, finalizers=[NODEWRIGHT.finalizer], annotations=notes)
    ops.remove(SKYHOOK).remove(NODEWRIGHT).run(90)
    assert [ops.object(group) for group in (SKYHOOK, NODEWRIGHT)] == [None, None]
    assert ops.trail() == ["base/uninstall"] * uninstall
    assert not ops.node("n0")["spec"].get("unschedulable")


@WAYS
@pytest.mark.parametrize("note", ["pause", "disable"])
def test_a_unit_that_is_stopped_can_be_renamed(first: Group, second: Group, note: str) -> None:
    ops = Units()
    ops.fate = lambda about: "hangs"
    packages = {"base": pkg(configMap={"a": "1"})}
    ops.create(first, packages).run(10)
    ops.annotate(first, **{note: "true"}).run(10)
    ops.create(second, packages, annotations={second.prefix + note: "true"}).run(10)
    ops.remove(first).run(30)
    assert ops.object(first) is None
    assert (ops.keys("n0", first), ops.owners()) == (set(), {second.kind})
    ops.fate = lambda about: "ok"
    for about in ops.pods():
        ops.finish(about)
    ops.annotate(second, **{note: None}).run(60)
    assert ops.counts(second) == ("complete", "1/1")
