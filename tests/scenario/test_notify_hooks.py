"""Steps of notify that a web server carries out, and playbooks: on the embedded cluster, in virtual time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from haulout.cluster.rows import Value
from haulout.cluster.view import FactDemand
from haulout.embedded import JOBS, NODES, Json
from haulout.kernel.requests import Answer, Done, Refused
from haulout.surfaces.notify.recipes import hooks
from haulout.surfaces.notify.recipes.hooks import HookAnswer
from haulout.surfaces.notify.wire import INCOMPLETE, OBJECTS_DRAINED, VALIDATING
from tests.build.notices import HOME, OWN, Notices, options

URL = "https://maintenance.example.com/jobs"


def ops(role: str = "runner", **recipe: Any) -> Notices:
    made = {"name": "rec", "type": "webhook", "url": URL, **recipe}
    block = {"enabled": True, "recipes": [made], "defaultClient" if role == "runner" else "default": "rec"}
    more = {"maxConcurrent": 1} if role == "runner" else {}
    return Notices(options(json.dumps({"slaPeriod": "1h", "operators": {role: {**block, **more}}})))


def said(result: str, **more: str) -> Answer:
    return Done(content=HookAnswer(result, **more))


def told(given: Notices, answer: HookAnswer, url: str) -> Notices:
    """Return the status of a call as a fact that the decision reads."""
    pace = given.options.operators.runner.recipes[0].poll_interval
    key = FactDemand(hooks.PROBE, hooks.StatusQuestion("runner", "rec", url), pace).key
    given.kernel.store.write(Value(key=key, value=answer, state="fresh"))
    return given.run(2)


class TestCalls:
    def test_the_body_says_what_is_to_be_done_and_how_it_is_reported(self) -> None:
        given = ops().drained("a", owner="dana")
        [call] = given.calls
        uid = given.get("a")["metadata"]["uid"]
        assert call.key == f"{uid}-maintenance-1"
        body = json.loads(call.body)
        assert body.pop("message") == {
            "maintenanceID": "mid",
            "objects": ["n0"],
            "event": "ObjectsDrained",
            "Message": "Maintenance mid objects drained on [n0]",
            "namespace": HOME,
            "maintenanceObjectName": "a",
            "owner": "dana",
        }
        assert body == {
            "phase": "maintenance",
            "uid": uid,
            "attempt": 1,
            "callback": {
                "namespace": HOME,
                "name": "a",
                "annotation": "maintenance/maintenanceClient",
                "success": "complete",
                "failure": "incomplete",
            },
        }
        assert given.annotations("a")["maintenance/maintenanceClient"] == "inprogress"

    def test_a_validation_is_asked_for_in_the_same_way(self) -> None:
        given = ops("validator")
        given.answers = [said("success")]
        given.drained("a").annotate("a", client="complete").run(5)
        [call] = given.calls
        body = json.loads(call.body)
        assert (body["phase"], body["message"]["event"], body["callback"]["success"], body["callback"]["failure"]) == (
            *("validation", "Validating"),
            *("validated", "failed"),
        )
        assert given.annotations("a")["maintenance/validationClient"] == "validated"

    @pytest.mark.parametrize(("result", "state"), [("success", VALIDATING), ("failure", INCOMPLETE)])
    def test_the_answer_may_be_the_end_of_it(self, result: str, state: str) -> None:
        given = ops()
        given.answers = [said(result, message="disk is broken")]
        given.drained("a").run(5)
        assert (given.status("a"), len(given.calls)) == (state, 1)
        assert result == "success" or given.message("a", "maintenanceRun") == "attempt 1/1: disk is broken"

    def test_one_that_is_accepted_is_reported_by_the_annotation(self) -> None:
        given = ops().drained("a").run(600)
        assert (given.status("a"), len(given.calls)) == (OBJECTS_DRAINED, 1)
        given.annotate("a", client="complete").run()
        assert (given.status("a"), given.conditions("a")["maintenanceRun"]) == (VALIDATING, "succeeded")
        assert given.message("a", "maintenanceRun") == "attempt 1/1"

    def test_an_attempt_that_takes_too_long_fails(self) -> None:
        given = ops(timeout="10m", retries=1, retryBackoff="10s").drained("a").run(500)
        assert given.status("a") == OBJECTS_DRAINED
        given.run(130)
        assert [json.loads(call.body)["attempt"] for call in given.calls] == [1, 2]
        given.run(700)
        assert given.status("a") == INCOMPLETE
        assert given.message("a", "maintenanceRun") == "attempt 2/2: Timeout"

    def test_a_call_that_fails_is_repeated_under_its_key(self) -> None:
        given = ops()
        given.answers = [Refused(0, "POST was answered with 503")] * 3
        given.drained("a").run(30)
        assert len({call.key for call in given.calls}) == 1
        assert (len(given.calls), given.annotations("a")["maintenance/maintenanceClient"]) == (4, "inprogress")

    def test_it_is_given_up_after_so_many_repetitions(self) -> None:
        given = ops(requestRetries=2)
        given.answers = [Refused(0, "POST was answered with 503")] * 10
        given.drained("a").run(60)
        assert (given.status("a"), len(given.calls)) == (INCOMPLETE, 3)
        assert "RequestFailed: POST was answered with 503" in given.message("a", "maintenanceRun")

    def test_a_pending_one_is_asked_after_until_it_ends(self) -> None:
        given = ops(pollInterval="30s")
        given.answers = [said("pending", status_url=f"{URL}/1")]
        given.drained("a").run(60)
        told(given, HookAnswer("pending", status_url=f"{URL}/1"), f"{URL}/1")
        assert (given.status("a"), len(given.calls)) == (OBJECTS_DRAINED, 1)
        told(given, HookAnswer("success"), f"{URL}/1")
        assert (given.status("a"), len(given.calls)) == (VALIDATING, 1)

    def test_a_restart_repeats_the_call_under_its_key(self) -> None:
        given = ops()
        given.answers = [said("pending", status_url=f"{URL}/1"), said("success")]
        given.drained("a").run(5).begin().run(5)
        assert (given.status("a"), len(given.calls)) == (VALIDATING, 2)
        assert len({call.key for call in given.calls}) == 1

    def test_the_node_may_have_to_be_ready_first(self) -> None:
        given = ops(success={"nodeReady": True, "readyFor": "60s"})
        given.answers = [said("success")]
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        given.world.objects.patch(NODES, "", "n0", {"status": {"conditions": [condition]}}, subresource="status")
        given.drained("a").run(5)
        assert given.status("a") == OBJECTS_DRAINED

    def test_nothing_is_asked_any_more_once_the_maintenance_is_deleted(self) -> None:
        given = ops()
        given.answers = [Refused(0, "not now")] * 100
        given.drained("a").run(5).delete("a").run(5)
        calls = len(given.calls)
        given.run(300)
        assert len(given.calls) == calls

    def test_a_pending_call_is_not_asked_after_once_the_maintenance_is_deleted(self) -> None:
        given = ops()
        given.answers = [said("pending", status_url=f"{URL}/1")]
        given.drained("a").run(5)
        assert [demand.probe for demand in given.kernel.loop.demands().values()] == [hooks.PROBE]
        given.delete("a").run(5)
        assert given.kernel.loop.demands() == {}


PLAYBOOK = {
    "name": "rec",
    "type": "ansible",
    "namespace": OWN,
    "image": "registry.example/ansible:1",
    "playbook": {"configMap": "books", "key": "site.yml"},
    "sshKeySecret": {"name": "keys", "key": "id_ed25519"},
    "user": "root",
    "extraVars": {"driver": "560", "node_name": "not this"},
}


def test_a_playbook_runs_off_the_node_with_its_image_and_arguments() -> None:
    content = {"runner": {"enabled": True, "defaultClient": "rec", "recipes": [PLAYBOOK]}}
    given = Notices(options(json.dumps({"slaPeriod": "1h", "operators": content})))
    owner = 'dana", "ansible_connection": "local", "x": "$(NODE_NAME)'
    given.drained("a", owner=owner)
    [job] = given.world.objects.list(JOBS, OWN)
    spec: Json = job["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["image"] == "registry.example/ansible:1"
    assert container["command"] == [
        *("ansible-playbook", "-i", "$(NODE_ADDRESS),", "-u", "root", "--private-key", "/ssh/id_ed25519"),
        *("-e", "$(EXTRA_VARS)", "/playbook/site.yml"),
    ]
    assert {(each["name"], each["mountPath"]) for each in container["volumeMounts"]} == {
        ("playbook", "/playbook"),
        ("ssh", "/ssh"),
    }
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert volumes["playbook"]["configMap"]["name"] == "books"
    assert volumes["ssh"]["secret"]["secretName"] == "keys"
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": ["n0"]}]
    assert "nodeName" not in spec
    environment = {each["name"]: each["value"] for each in container["env"]}
    variables = json.loads(environment["EXTRA_VARS"])
    assert "$(" not in environment["MAINTENANCE_OWNER"].replace("$$", "")
    assert (variables["driver"], variables["node_name"]) == ("560", "{{ lookup('ansible.builtin.env', 'NODE_NAME') }}")
    # Ansible runs what is in the braces of an extra variable, so no text of an object may be in one.
    assert "dana" not in environment["EXTRA_VARS"]
    assert set(variables) == {
        *("driver", "node_name", "node_address", "nm_name", "nm_namespace", "nm_uid", "maintenance_id"),
        *("maintenance_type", "maintenance_owner", "sla_expires", "attempt"),
    }
