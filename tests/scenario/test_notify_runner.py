"""The runner and the validator of notify on the embedded cluster, in virtual time."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from haulout.core.action import Create
from haulout.embedded import JOBS, NODES, PODS, Json
from haulout.embedded import Change as WorldChange
from haulout.kernel.requests import Change, Refused
from haulout.surfaces.notify.wire import INCOMPLETE, OBJECTS_DRAINED, VALIDATING
from tests.build.muted import lose
from tests.build.notices import HOME, OWN, Killed, Notices, options
from tests.build.workloads import daemon_set

# Finalizer, three states (the last with the node's baseline), the Job.
WRITES_TO_JOB = 5
TEMPLATE = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}}


def recipe(**more: Any) -> Json:
    return {"name": "rec", "type": "job", "retryBackoff": "10s", "template": TEMPLATE, **more}


def ops(runner: Json | None = None, validator: Json | None = None, **more: Any) -> Notices:
    operators = {
        **({"runner": {"enabled": True, **runner}} if runner is not None else {}),
        **({"validator": {"enabled": True, **validator}} if validator is not None else {}),
        **more.pop("operators", {}),
    }
    return Notices(options(json.dumps({"slaPeriod": "1h", "operators": operators, **more})))


def default(**more: Any) -> Json:
    return {"defaultClient": "rec", "recipes": [recipe(**more)]}


def jobs(given: Notices, namespace: str = OWN) -> list[Json]:
    return given.world.objects.list(JOBS, namespace)


def finish(given: Notices, number: int = -1, kind: str = "Complete", reason: str = "") -> Notices:
    job = jobs(given)[number]
    condition = {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"startTime": "2026-01-01T00:00:00Z", "conditions": [condition]}
    meta = job["metadata"]
    given.world.objects.patch(JOBS, meta["namespace"], meta["name"], {"status": status}, subresource="status")
    return given.run()


class TestRunner:
    def test_a_job_does_the_maintenance(self) -> None:
        given = ops(default()).drained("a")
        [job] = jobs(given)
        uid = given.get("a")["metadata"]["uid"]
        assert job["metadata"]["name"] == f"nm-r-{hashlib.sha256(uid.encode()).hexdigest()[:10]}-1"
        assert job["metadata"]["labels"] == {
            "haulout.dev/nm-uid": uid,
            "haulout.dev/role": "runner",
            "haulout.dev/recipe": "rec",
            "haulout.dev/attempt": "1",
        }
        assert "ownerReferences" not in job["metadata"]
        assert given.annotations("a")["maintenance/maintenanceClient"] == "inprogress"
        assert given.annotations("a")["haulout.dev/owner-runner"] == "in-box"
        assert json.loads(given.annotations("a")["haulout.dev/baseline"])["nodeUID"]
        finish(given)
        assert given.status("a") == VALIDATING
        assert given.conditions("a")["maintenanceRun"] == "succeeded"

    def test_it_is_placed_and_told(self) -> None:
        given = ops(default(namespace="@nm")).drained("a", metadataConfigmap="cm", owner="dana")
        [job] = jobs(given, HOME)
        [owner] = job["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["controller"], owner["blockOwnerDeletion"]) == ("NotifyMaintenance", True, False)
        pod = job["spec"]["template"]["spec"]
        assert (pod["nodeName"], pod["restartPolicy"], job["spec"]["backoffLimit"]) == ("n0", "Never", 0)
        assert (job["spec"]["ttlSecondsAfterFinished"], job["spec"]["activeDeadlineSeconds"]) == (86400, 7200)
        assert {"operator": "Exists"} in pod["tolerations"]
        [container] = pod["containers"]
        env = {each["name"]: each.get("value") for each in container["env"]}
        assert (env["NODE_NAME"], env["MAINTENANCE_OWNER"], env["ATTEMPT"]) == ("n0", "dana", "1")
        assert container["envFrom"] == [{"prefix": "META_", "configMapRef": {"name": "cm", "optional": True}}]

    @pytest.mark.parametrize("affinity", [{}, {"affinity": None}, {"affinity": {"nodeAffinity": None}}])
    def test_off_node_keeps_away(self, affinity: Json) -> None:
        pod = {**TEMPLATE["spec"]["template"]["spec"], **affinity}
        given = ops(default(placement="OffNode", template={"spec": {"template": {"spec": pod}}})).drained("a")
        nodes = jobs(given)[0]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        [term] = nodes["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert term["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": ["n0"]}]

    def test_attempts_follow_each_other_and_end(self) -> None:
        given = ops(default(retries=1)).drained("a")
        finish(given, kind="Failed", reason="BackoffLimitExceeded").run(5)
        assert len(jobs(given)) == 1
        assert "attempt 1/2: BackoffLimitExceeded" in json.dumps(given.get("a")["status"]["conditions"])
        given.run(10)
        assert [job["metadata"]["labels"]["haulout.dev/attempt"] for job in jobs(given)] == ["1", "2"]
        assert given.annotations("a")["maintenance/maintenanceClient"] == "inprogress"
        finish(given, kind="Failed").run(60)
        assert given.status("a") == INCOMPLETE
        assert len(jobs(given)) == 2

    def test_a_job_that_cannot_be_created_at_once_is_no_failed_attempt(self) -> None:
        given = ops(default(retries=1))
        given.refuses[Create, "MaintenanceJob"] = Refused(500, "not now")
        given.drained("a").run(20)
        assert given.message("a", "maintenanceRun") == "attempt 1/2: not now"
        assert "maintenance/maintenanceClient" not in given.annotations("a")
        given.refuses.clear()
        given.run(60)
        assert [job["metadata"]["labels"]["haulout.dev/attempt"] for job in jobs(given)] == ["1"]
        given.refuses[Create, "MaintenanceJob"] = Refused(500, "not now")
        finish(given, kind="Failed").run(60)
        assert given.message("a", "maintenanceRun") == "attempt 2/2: not now"
        given.refuses.clear()
        given.run(120)
        assert [job["metadata"]["labels"]["haulout.dev/attempt"] for job in jobs(given)] == ["1", "2"]
        finish(given)
        assert given.status("a") == VALIDATING

    @pytest.mark.parametrize("labels", [{}, {"haulout.dev/role": "runner", "haulout.dev/nm-uid": "another"}])
    def test_a_job_of_somebody_else_under_the_name_is_a_failed_attempt(self, labels: Json) -> None:
        given = ops(default()).started("a")
        uid = given.get("a")["metadata"]["uid"]
        name = f"nm-r-{hashlib.sha256(uid.encode()).hexdigest()[:10]}-1"
        meta = {"name": name, "namespace": OWN, "labels": labels}
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": pod}}}
        given.world.objects.create(JOBS, body)
        given.run().annotate("a", ready="true").run(30)
        assert given.status("a") == INCOMPLETE
        assert given.message("a", "maintenanceRun") == "attempt 1/1: NameConflict"
        assert [job["metadata"]["name"] for job in jobs(given)] == [name]

    def test_a_restart_makes_no_second_job(self) -> None:
        given = ops(default()).drained("a").begin().run(60)
        assert len(jobs(given)) == 1

    def test_a_job_that_somebody_deletes_is_a_failed_attempt(self) -> None:
        given = ops(default()).drained("a")
        meta = jobs(given)[0]["metadata"]
        given.world.objects.delete(JOBS, meta["namespace"], meta["name"])
        given.run(5)
        assert given.status("a") == INCOMPLETE

    def test_a_job_that_takes_too_long_is_deleted(self) -> None:
        given = ops(default(timeout="20s")).drained("a").run(30)
        assert given.status("a") == INCOMPLETE
        assert jobs(given) == []

    @pytest.mark.parametrize(
        ("labels", "annotations"),
        [
            ({"maintenance/maintenance-client": "external"}, {}),
            ({}, {"maintenance/maintenanceClient": "inprogress"}),
            ({}, {"haulout.dev/operators": "drainer"}),
            ({}, {"haulout.dev/operators": "none"}),
        ],
        ids=["unknown recipe", "taken by another", "not listed", "none"],
    )
    def test_what_is_not_ours_is_left_alone(self, labels: Json, annotations: Json) -> None:
        given = ops(default()).drained("a", labels=labels, annotations=annotations).run(60)
        assert jobs(given) == []

    def test_one_recipe_at_a_time_on_a_node(self) -> None:
        given = ops(default()).drained("a", mid="id1").drained("b", mid="id2").run()
        assert len(jobs(given)) == 1
        finish(given)
        assert len(jobs(given)) == 2

    def test_one_that_is_drained_a_moment_later_waits_although_it_comes_first_by_name(self) -> None:
        """The first has begun, and its annotation does not show it yet."""
        given = ops(default()).started("b", mid="id1").started("a", mid="id2")
        given.refuses[Change, "NotifyMaintenance"] = Refused(500, "not now")
        given.annotate("b", ready="true").run(0.1).annotate("a", ready="true").run(3)
        given.refuses.clear()
        given.run(30)
        assert [job["metadata"]["annotations"]["haulout.dev/nm"] for job in jobs(given)] == [f"{HOME}/b"]

    def test_the_validation_of_one_comes_before_the_maintenance_of_another(self) -> None:
        validator = {"default": "rec", "recipes": [recipe()]}
        given = ops(default(), validator).drained("a", mid="id1").drained("b", mid="id2").run()
        running: list[int] = []

        def look(change: WorldChange) -> None:
            running.append(sum(not job.get("status", {}).get("conditions") for job in jobs(given)))

        given.world.objects.subscribe(JOBS, look)
        finish(given)
        assert [job["metadata"]["labels"]["haulout.dev/role"] for job in jobs(given)] == ["runner", "validator"]
        for _ in range(3):
            unfinished = [job for job in jobs(given) if not job["status"].get("conditions")]
            finish(given, jobs(given).index(unfinished[0]))
        assert (given.annotations("b")["maintenance/validationClient"], max(running)) == ("validated", 1)

    def test_no_more_than_allowed_in_the_cluster(self) -> None:
        given = ops({**default(), "maxConcurrent": 2})
        for number in range(3):
            given.make(f"m{number}", f"n{number}", annotations={"maintenance/readyForMaintenance": "true"})
            given.claim(f"n{number}", "mid")
        given.run(5)
        assert len(jobs(given)) == 2
        finish(given).run(5)
        assert len(jobs(given)) == 3

    def test_a_job_counts_before_its_maintenance_shows_it(self) -> None:
        """The operator is killed between a Job and the annotation that tells of it; the other maintenance is asked first."""
        client = "maintenance/maintenance-client"
        given = ops({**default(), "maxConcurrent": 1}).drained("a", "n0", labels={client: "somebody"})
        given.dies_at_write = (len(given.writes) + WRITES_TO_JOB, True)
        with pytest.raises(Killed):
            given.drained("b", "n1")
        assert (len(jobs(given)), given.annotations("b").get("maintenance/maintenanceClient")) == (1, None)
        given.patch("a", {"metadata": {"labels": {client: None}}}).begin().run(60)
        assert len(jobs(given)) == 1
        assert given.annotations("b")["maintenance/maintenanceClient"] == "inprogress"
        finish(given).run(5)
        assert len(jobs(given)) == 2

    def test_jobs_of_others_take_no_place(self) -> None:
        """A person who may create Jobs in some namespace can give them every label of ours."""
        given = ops({**default(), "maxConcurrent": 1}).drained("a")
        [job] = jobs(given)
        finish(given).drained("b", "n1", labels={"maintenance/maintenance-client": "somebody"})
        labels = {**job["metadata"]["labels"], "haulout.dev/nm-uid": given.get("b")["metadata"]["uid"]}
        meta = {"name": "odd", "namespace": HOME, "labels": labels, "annotations": {"haulout.dev/nm": f"{HOME}/b"}}
        given.world.objects.create(JOBS, {**job, "metadata": meta, "status": {}})
        given.drained("c", "n2").run(5)
        assert len(jobs(given)) == 2

    def test_a_reboot_counts_whatever_becomes_of_the_job(self) -> None:
        wanted = {"rebooted": True, "nodeReady": True, "readyFor": "60s"}
        given = ops(default(success=wanted, timeout="30m"))
        given.world.objects.patch(NODES, "", "n0", {"status": {"nodeInfo": {"bootID": "one"}}}, subresource="status")
        given.drained("a")
        finish(given, kind="Failed").run(30)
        assert given.status("a") == OBJECTS_DRAINED
        given.world.objects.patch(NODES, "", "n0", {"status": {"nodeInfo": {"bootID": "two"}}}, subresource="status")
        given.run(90)
        assert given.status("a") == VALIDATING

    def test_deleting_the_maintenance_deletes_its_job(self) -> None:
        given = ops(default()).drained("a").delete("a").run(5)
        assert jobs(given) == []
        kept = ops(default(onCancel="Leave")).drained("a").delete("a").run(5)
        assert len(jobs(kept)) == 1
        kept.uncordon("n0").run(5)
        assert jobs(kept) == [], "once the maintenance is gone, nobody else removes it"

    def test_a_retry_goes_on_counting(self) -> None:
        given = ops(default(), core={"allowRetry": True}).drained("a")
        finish(given, kind="Failed").run(5)
        assert given.status("a") == INCOMPLETE
        given.patch("a", {"metadata": {"annotations": {"haulout.dev/retry": "1"}}}).run(5)
        assert [job["metadata"]["labels"]["haulout.dev/attempt"] for job in jobs(given)] == ["1", "2"]
        finish(given)
        assert given.status("a") == VALIDATING


SMOKE = {"default": "smoke", "recipes": [{"name": "smoke", "type": "builtin"}]}


class TestValidator:
    def validating(self, validator: Json, **more: Any) -> Notices:
        return ops(None, validator, **more).drained("a").annotate("a", client="complete").run()

    def test_built_in_checks_pass(self) -> None:
        given = self.validating(SMOKE).run(60)
        assert given.annotations("a")["maintenance/validationClient"] == "validated"
        assert given.conditions("a")["validationRun"] == "succeeded"

    def test_pods_of_daemon_sets_are_waited_for(self) -> None:
        checks = {"daemonSetsReady": True, "readyFor": "1s", "checksTimeout": "15m"}
        given = ops(None, {"default": "smoke", "recipes": [{"name": "smoke", "type": "builtin", "checks": checks}]})
        given.world.make(daemon_set("agent"))
        given.run(30).drained("a")
        [name] = [each["metadata"]["name"] for each in given.world.pods() if each["spec"]["nodeName"] == "n0"]
        unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        given.world.objects.patch(PODS, "default", name, unready, subresource="status")
        given.annotate("a", client="complete").run(60)
        assert given.annotations("a")["maintenance/validationClient"] == "inprogress"
        lose(given.driver, name)
        given.world.objects.delete(PODS, "default", name, grace=0)
        given.run(530)
        assert given.annotations("a")["maintenance/validationClient"] == "inprogress", "no watch has told its end"
        given.run(30)
        assert given.annotations("a")["maintenance/validationClient"] == "validated"

    def test_a_check_that_never_holds_fails(self) -> None:
        smoke = {"name": "smoke", "type": "builtin", "checks": {"kubelet": "v9", "checksTimeout": "5m"}}
        given = self.validating({"default": "smoke", "recipes": [smoke]}).run(60)
        assert given.annotations("a")["maintenance/validationClient"] == "inprogress"
        given.run(300)
        assert given.status("a") == INCOMPLETE
        assert "CheckFailed: kubelet" in json.dumps(given.get("a")["status"]["conditions"])

    def test_a_job_follows_the_checks(self) -> None:
        checks = {"readyFor": "30s"}
        given = self.validating({"default": "rec", "recipes": [recipe(checks=checks)]}).run(60)
        [job] = jobs(given)
        assert job["metadata"]["name"].startswith("nm-v-")
        finish(given)
        assert given.annotations("a")["maintenance/validationClient"] == "validated"

    def test_a_job_that_follows_the_checks_is_adopted_where_the_next_write_was_refused(self) -> None:
        given = self.validating({"default": "rec", "recipes": [recipe(checks={"readyFor": "30s"})]})
        given.refuses[Change, "NotifyMaintenance/status"] = Refused(500, "not now")
        given.run(60)
        assert len(jobs(given)) == 1
        given.refuses.clear()
        given.run(60)
        finish(given)
        assert given.annotations("a")["maintenance/validationClient"] == "validated"
        assert [what for what, kind in given.writes if kind == "MaintenanceJob"] == [Create]

    def test_a_job_after_the_checks_that_cannot_be_created_at_once(self) -> None:
        given = self.validating({"default": "rec", "recipes": [recipe(checks={"readyFor": "30s"})]})
        given.refuses[Create, "MaintenanceJob"] = Refused(500, "not now")
        given.run(60)
        assert given.message("a", "validationRun") == "attempt 1/1: not now"
        given.refuses.clear()
        given.run(60)
        finish(given)
        assert given.annotations("a")["maintenance/validationClient"] == "validated"

    def test_without_a_recipe_it_holds_or_passes(self) -> None:
        assert "maintenance/validationClient" not in self.validating({}).run(60).annotations("a")
        passed = self.validating({"onMissingRecipe": "Pass"})
        assert passed.annotations("a")["maintenance/validationClient"] == "validated"

    def test_a_validation_that_has_begun_is_not_passed_where_its_recipe_is_gone(self) -> None:
        given = self.validating({"default": "rec", "recipes": [recipe()]}).run(60)
        assert given.annotations("a")["maintenance/validationClient"] == "inprogress"
        given.options = ops(None, {"onMissingRecipe": "Pass"}).options
        given.begin().run(60)
        assert given.annotations("a")["maintenance/validationClient"] == "inprogress"

    def test_what_another_client_has_begun_is_not_passed(self) -> None:
        given = ops(None, {"onMissingRecipe": "Pass"}).drained("a")
        given.annotate("a", validation="inprogress", client="complete").run(60)
        assert given.annotations("a")["maintenance/validationClient"] == "inprogress"


def test_a_validation_by_checks_that_a_restart_interrupts_is_begun_again() -> None:
    """Between the annotations that take the step and the condition that says what it does."""
    given = ops(validator={"default": "smoke", "recipes": [{"name": "smoke", "type": "builtin"}]})
    given.drained("a")
    given.refuses[Change, "NotifyMaintenance/status"] = Refused(500, "not now")
    given.annotate("a", client="complete")
    given.patch("a", {"status": {"maintenanceStatus": VALIDATING}}, "status").run(0)
    assert given.annotations("a")["maintenance/validationClient"] == "inprogress"
    given.refuses.clear()
    given.begin().run(40)
    assert given.annotations("a")["maintenance/validationClient"] == "validated"
