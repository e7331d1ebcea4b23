"""Stages of packages in Jobs: attempts, time limits, pauses and results, in virtual time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from haulout.embedded import NODES, PODS, Json
from haulout.surfaces.packages.groups import NODEWRIGHT, SKYHOOK, Group
from haulout.surfaces.packages.options import Options
from tests.build.package_life import JobLife, Life
from tests.build.skyhooks import Skyhooks, is_of_job, pkg
from tests.build.units import JOBS, Units

N = NODEWRIGHT.prefix
PACKAGES = {"base": pkg()}
HOUR = timedelta(hours=1)


def jobs(ops: Skyhooks) -> list[Json]:
    return ops.world.objects.list(JOBS, ops.options.namespace)


def pods(ops: Skyhooks) -> list[Json]:
    return ops.world.objects.list(PODS, ops.options.namespace)


def job(ops: Skyhooks, stage: str) -> Json:
    (found,) = (each for each in jobs(ops) if each["metadata"]["labels"][f"{N}stage"] == stage)
    return found


def notes(found: Json) -> Json:
    kept: Json = found["metadata"]["annotations"]
    return kept


def failing(stage: str, *, group: Group = NODEWRIGHT, options: Options | None = None, **more: Any) -> Units:
    """Return a world in which this stage of the package fails at each attempt."""
    ops = Units(options)
    ops.fate = lambda about: "fail" if about.stage == stage else "ok"
    return ops.create(group, {"base": pkg(**more)})


def node_status(ops: Units, group: Group = NODEWRIGHT) -> str:
    return str(ops.node("n0")["metadata"]["annotations"][f"{group.prefix}status_demo"])


def restarts(ops: Units, group: Group = NODEWRIGHT) -> int:
    state = (ops.object(group) or {})["status"]["nodeState"]["n0"]
    return int(state["base|1.0.0"].get("restarts", 0))


def test_a_stage_of_a_nodewright_runs_in_a_job() -> None:
    ops = Units()
    ops.fate = lambda about: "hangs"
    ops.create(NODEWRIGHT, {"base": pkg(stageTimeout="5m", gracefulShutdown="30s")}).run(10)
    (found,) = jobs(ops)
    (pod,) = pods(ops)
    owner = ops.object(NODEWRIGHT)
    assert owner is not None
    uid = owner["metadata"]["uid"]
    spec, template = found["spec"], found["spec"]["template"]
    assert found["metadata"]["name"].startswith("demo-base-1-0-0-apply-n0-")
    labels = {"name": "demo", "package": "base-1.0.0", "stage": "apply", "node": "n0", "generation": "1"}
    assert {f"{N}{name}": value for name, value in labels.items()}.items() <= found["metadata"]["labels"].items()
    assert notes(found)[f"{N}resource-id"] == f"demo-{uid}-1_base_1.0.0"
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 3)
    assert (spec["podReplacementPolicy"], spec.get("ttlSecondsAfterFinished")) == ("Failed", None)
    assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert template["spec"]["activeDeadlineSeconds"] == 300
    assert (template["spec"]["restartPolicy"], template["spec"]["nodeName"]) == ("Never", "n0")
    assert [each["name"] for each in template["spec"]["containers"]] == ["done"]
    assert template["spec"]["terminationGracePeriodSeconds"] == 30
    assert {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} <= {
        each.get("key") for each in template["spec"]["tolerations"]
    }
    assert is_of_job(pod)
    assert pod["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]


def test_steps_that_are_not_for_the_host_run_in_the_agents_container_for_nodewrights_alone() -> None:
    """The package may say it, too."""
    name = "SKYHOOK_AGENT_HONOR_ON_HOST"
    own = [{"name": name, "value": "false"}]
    for group, env, values in ((NODEWRIGHT, [], ["true"]), (SKYHOOK, [], []), (NODEWRIGHT, own, ["false"])):
        ops = Units().create(group, {"base": pkg(env=env)})
        ops.run(60)
        assert ops.counts(group) == ("complete", "1/1")
        container = ops.made[0].pod["spec"]["initContainers"][1]
        assert [each["value"] for each in container["env"] if each["name"] == name] == values


def test_a_job_that_has_succeeded_is_recorded_once_and_stays_for_an_hour() -> None:
    ops = Units().create(NODEWRIGHT, PACKAGES)
    ops.run(60)
    assert (ops.counts(NODEWRIGHT), ops.trail()) == (("complete", "1/1"), ["base/apply", "base/config"])
    assert [notes(each)[f"{N}state-recorded"] for each in jobs(ops)] == ["true"] * 2
    assert {each["spec"]["ttlSecondsAfterFinished"] for each in jobs(ops)} == {3600}
    assert len(pods(ops)) == 2
    before = len(ops.writes)
    ops.run(2 * HOUR.total_seconds())
    assert (jobs(ops), pods(ops), ops.writes[before:]) == ([], [], [])
    assert len(ops.made) == 2
    assert ops.failures == []


def test_an_interrupt_runs_in_a_job_whose_pods_restart_in_place() -> None:
    ops = Units()
    ops.fate = lambda about: "hangs" if about.stage == "interrupt" else "ok"
    ops.create(NODEWRIGHT, {"base": pkg(interrupt={"type": "reboot"}, stageTimeout="20m")}).run(60)
    found = job(ops, "interrupt")
    spec, template = found["spec"], found["spec"]["template"]["spec"]
    assert found["metadata"]["labels"][f"{N}interrupt"] == "True"
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (2**31 - 1, 1200)
    assert (template["restartPolicy"], "podFailurePolicy" in spec) == ("OnFailure", False)
    assert template["initContainers"][0]["resources"]["limits"]["memory"] == "256Mi"
    assert "activeDeadlineSeconds" not in template
    ops.finish(ops.pods()[0])
    ops.run(60)
    assert ops.counts(NODEWRIGHT) == ("complete", "1/1")
    assert not ops.node("n0")["spec"].get("unschedulable")


def test_single_failed_attempts_show_in_the_entry_and_the_last_one_on_the_node() -> None:
    ops = failing("apply").run(15)
    assert ops.entries("n0", NODEWRIGHT) == {"base|1.0.0": "apply/erroring"}
    assert node_status(ops) == "in_progress"
    assert ops.counts(NODEWRIGHT)[0] == "in_progress"
    ops.run(120)
    assert len(ops.made) == 4
    assert (node_status(ops), ops.counts(NODEWRIGHT)[0]) == ("erroring", "erroring")
    assert restarts(ops) == 4
    found = job(ops, "apply")
    assert notes(found)[f"{N}state-recorded"] == "true"
    assert found["spec"]["ttlSecondsAfterFinished"] == 86_400
    # The first failed pod and the last one are kept.
    kept = sorted(each["metadata"]["uid"] for each in pods(ops))
    assert kept == sorted(each.pod["metadata"]["uid"] for each in (ops.made[0], ops.made[-1]))
    before = len(ops.writes)
    ops.run(3600)
    assert (len(ops.made), ops.writes[before:]) == (4, [])
    assert ops.failures == []


def test_a_stage_that_has_failed_for_good_runs_again_when_its_package_is_edited() -> None:
    ops = failing("apply", env=[{"name": "A", "value": "1"}]).run(180)
    assert node_status(ops) == "erroring"
    ops.fate = lambda about: "ok"
    body = {"spec": {"packages": {"base": {"env": [{"name": "A", "value": "2"}]}}}}
    ops.change(NODEWRIGHT, body).run(60)
    assert ops.counts(NODEWRIGHT) == ("complete", "1/1")
    assert ops.trail() == ["base/apply"] * 5 + ["base/config"]


def test_a_stage_that_has_failed_for_good_runs_again_after_a_reset() -> None:
    ops = failing("apply").run(180)
    ops.fate = lambda about: "ok"
    names = {f"{N}{word}_demo": None for word in ("nodeState", "status")}
    ops.world.objects.patch(NODES, "", "n0", {"metadata": {"annotations": names}})
    ops.run(60)
    assert ops.counts(NODEWRIGHT) == ("complete", "1/1")


def test_a_stage_that_has_failed_for_good_runs_again_when_its_job_expires() -> None:
    ops = failing("apply", options=Options(job_ttl_failed=HOUR)).run(180)
    ops.fate = lambda about: "ok"
    ops.run(3600)
    assert ops.counts(NODEWRIGHT) == ("complete", "1/1")
    assert len(ops.made) == 6


def test_an_attempt_that_takes_too_long_fails_and_is_tried_again() -> None:
    ops = Units(Options(job_backoff_limit=1))
    ops.fate = lambda about: "hangs" if about.stage == "apply" else "ok"
    ops.create(NODEWRIGHT, {"base": pkg(stageTimeout="2m")}).run(110)
    assert ops.entries("n0", NODEWRIGHT) == {"base|1.0.0": "apply/in_progress"}
    ops.run(60)
    assert (len(ops.made), node_status(ops)) == (2, "in_progress")
    ops.run(180)
    assert (len(ops.made), node_status(ops)) == (2, "erroring")


def test_the_limits_of_the_settings_hold_for_nodewrights_alone() -> None:
    options = Options(job_stage_timeout=timedelta(minutes=2), job_backoff_limit=0)
    for group, word in ((NODEWRIGHT, "erroring"), (SKYHOOK, "in_progress")):
        ops = Units(options)
        ops.fate = lambda about: "hangs"
        ops.create(group, PACKAGES).run(300)
        assert node_status(ops, group) == word


def test_an_interrupt_that_fails_too_often_ends_and_a_reboot_does_not() -> None:
    for kind, word in (("noop", "erroring"), ("reboot", "in_progress")):
        ops = Units()
        ops.fate = lambda about: "hangs" if about.stage == "interrupt" else "ok"
        ops.create(NODEWRIGHT, {"base": pkg(interrupt={"type": kind})}).run(60)
        (about,) = ops.pods()
        crashed = {"waiting": {"reason": "CrashLoopBackOff"}}
        statuses = [
            {
                "name": "interrupt",
                "image": "",
                "imageID": "",
                "ready": False,
                "restartCount": 3,
                "state": crashed,
                "lastState": {"terminated": {"exitCode": 1}},
            }
        ]
        name = about.pod["metadata"]["name"]
        ops.world.objects.patch(
            PODS, ops.options.namespace, name, {"status": {"initContainerStatuses": statuses}}, subresource="status"
        )
        ops.run(30)
        assert node_status(ops) == word
        assert (notes(job(ops, "interrupt")).get(f"{N}restart-limit-exceeded") == "true") == (word == "erroring")
        assert any("has failed 3 times" in text for text in ops.told) == (word == "erroring")


def test_a_pause_suspends_the_job_and_its_end_goes_on_with_it() -> None:
    ops = Units()
    ops.fate = lambda about: "hangs"
    ops.create(NODEWRIGHT, PACKAGES).run(10)
    (found,) = jobs(ops)
    ops.annotate(NODEWRIGHT, pause="true").run(30)
    assert (job(ops, "apply")["spec"]["suspend"], ops.pods(), ops.counts(NODEWRIGHT)[0]) == (True, [], "paused")
    ops.fate = lambda about: "ok"
    ops.annotate(NODEWRIGHT, pause=None).run(60)
    assert ops.counts(NODEWRIGHT) == ("complete", "1/1")
    assert job(ops, "apply")["metadata"]["uid"] == found["metadata"]["uid"]
    assert ops.trail() == ["base/apply", "base/apply", "base/config"]


def test_a_disabled_nodewright_lets_its_job_run_on() -> None:
    ops = Units()
    ops.fate = lambda about: "hangs"
    ops.create(NODEWRIGHT, PACKAGES).run(10)
    ops.annotate(NODEWRIGHT, disable="true").run(10)
    assert not job(ops, "apply")["spec"].get("suspend")
    ops.finish(ops.pods()[0])
    ops.run(30)
    assert ops.trail() == ["base/apply"]
    ops.fate = lambda about: "ok"
    ops.annotate(NODEWRIGHT, disable=None).run(60)
    assert ops.counts(NODEWRIGHT) == ("complete", "1/1")


def test_a_stage_that_runs_again_within_the_hour_replaces_its_job() -> None:
    ops = Units().create(NODEWRIGHT, {"base": pkg(configMap={"a": "1"})})
    ops.run(60)
    first = job(ops, "config")["metadata"]["uid"]
    ops.change(NODEWRIGHT, {"spec": {"packages": {"base": {"configMap": {"a": "2"}}}}}).run(60)
    assert ops.counts(NODEWRIGHT) == ("complete", "1/1")
    assert ops.trail() == ["base/apply", "base/config", "base/config"]
    assert job(ops, "config")["metadata"]["uid"] != first
    assert ops.refusals == []


def test_no_other_stage_begins_while_pods_of_a_removed_job_end() -> None:
    ops = Units()
    ops.fate = lambda about: "hangs"
    ops.create(NODEWRIGHT, {"base": pkg(env=[{"name": "A", "value": "1"}])}).run(10)
    ops.change(NODEWRIGHT, {"spec": {"packages": {"base": {"env": [{"name": "A", "value": "2"}]}}}})
    alive = 0
    for _ in range(30):
        ops.run(1)
        alive = max(alive, len(ops.pods()))
    assert (alive, len(ops.made)) == (1, 2)


def test_pods_that_the_kubelet_refuses_are_no_failure_of_the_package() -> None:
    ops = Units(Options(job_backoff_limit=0))
    ops.fate = lambda about: "hangs"
    ops.create(NODEWRIGHT, PACKAGES).run(1)
    (pod,) = pods(ops)
    refused = {"status": {"phase": "Failed", "reason": "OutOfcpu"}}
    ops.world.objects.patch(PODS, ops.options.namespace, pod["metadata"]["name"], refused, subresource="status")
    ops.fate = lambda about: "ok"
    ops.run(1)
    assert node_status(ops) == "in_progress"
    ops.run(60)
    assert (ops.counts(NODEWRIGHT), restarts(ops)) == (("complete", "1/1"), 0)


def test_a_pod_that_is_evicted_is_no_failed_attempt() -> None:
    ops = Units(Options(job_backoff_limit=0))
    ops.fate = lambda about: "hangs"
    ops.create(NODEWRIGHT, PACKAGES).run(10)
    (about,) = ops.pods()
    ops.fate = lambda about: "ok"
    ops.world.objects.evict(ops.options.namespace, about.pod["metadata"]["name"])
    ops.run(120)
    assert ops.counts(NODEWRIGHT) == ("complete", "1/1")
    assert (ops.trail(), restarts(ops)) == (["base/apply", "base/apply", "base/config"], 0)


def test_the_executor_is_a_setting() -> None:
    for executor, group, count in (("jobs", SKYHOOK, 2), ("pods", NODEWRIGHT, 0), ("byKind", SKYHOOK, 0)):
        ops = Units(Options(executor=executor)).create(group, PACKAGES)
        ops.run(60)
        assert (ops.counts(group), len(jobs(ops))) == (("complete", "1/1"), count)


def test_a_nodewright_uninstalls_in_jobs_and_leaves_nothing() -> None:
    ops = Units().create(NODEWRIGHT, {"base": pkg(uninstall={"enabled": True})})
    ops.run(60)
    ops.remove(NODEWRIGHT).run(120)
    assert (ops.object(NODEWRIGHT), ops.trail()[-1]) == (None, "base/uninstall")
    assert (jobs(ops), pods(ops)) == ([], [])


def test_a_life_in_jobs_has_the_stages_of_one_in_pods() -> None:
    assert JobLife().live().stages == Life().live().stages
