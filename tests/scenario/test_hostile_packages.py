"""Objects of tenants and kubelets do not affect the packages of others: each bad object affects only itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest

from haulout.core.action import Delete
from haulout.embedded import NODES, PODS, Json
from haulout.kernel.requests import Refused
from haulout.surfaces.packages.options import Options
from tests.build.skyhooks import CONFIG_MAPS, NAMESPACES, P, Skyhooks, pkg

TENANT = "tenant"
CONFIGURED = pkg(configMap={"a.conf": "right"})
ABOUT = {
    "name": "base",
    "version": "1.0.0",
    "skyhook": "demo",
    "stage": "apply",
    "image": "reg.test/agentless",
    "containerSHA": "",
    "invalid": False,
}


NOT_DRAINED = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
UNSTORABLE = {
    "a name of no annotation": {**ABOUT, "skyhook": "no name"},
    "a name with an end of none": {**ABOUT, "skyhook": "ghost-"},
    "a long name": {**ABOUT, "skyhook": "x" * 54},
    "a long version": {**ABOUT, "skyhook": "ghost", "version": "1" * 64},
    "a long image": {**ABOUT, "skyhook": "ghost", "image": "x" * 100_000},
    "an unknown stage": {**ABOUT, "skyhook": "ghost", "stage": "bogus"},
}


def tenants_world(nodes: int = 2, *, alone: bool = True) -> Skyhooks:
    ops = Skyhooks(Options(alone=alone), nodes=nodes)
    ops.world.objects.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TENANT}})
    return ops


def succeed(ops: Skyhooks, name: str, about: Json) -> None:
    create(ops, name, about)
    end(ops, name)


def create(ops: Skyhooks, name: str, about: Json, **more: Any) -> None:
    """Create a pod in the tenant's namespace that says to be of a package."""
    labels, annotations = {f"{P}name": "demo", f"{P}package": "base-1.0.0"}, {f"{P}package": json.dumps(about)}
    metadata = {"name": name, "namespace": TENANT, "labels": labels, "annotations": annotations}
    init, main = {"name": "c", "image": "i"}, {"name": "main", "image": "i"}
    spec = {"nodeName": "n0", "initContainers": [init], "containers": [main], **more}
    ops.world.objects.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def end(ops: Skyhooks, name: str) -> None:
    """Let a pod of the tenant succeed."""
    status = {"name": "c", "image": "", "imageID": "", "ready": True, "restartCount": 0}
    ended = {"initContainerStatuses": [{**status, "state": {"terminated": {"exitCode": 0}}}]}
    ops.world.objects.patch(PODS, TENANT, name, {"status": ended}, subresource="status")


def config_map(name: str, labels: Json, annotations: Json, data: Json) -> Json:
    metadata = {"name": name, "namespace": TENANT, "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def of_package(data: Json) -> Json:
    annotations = {f"{P}Package.Name": "base", f"{P}Package.Version": "1.0.0"}
    return config_map("mine", {f"{P}name": "demo"}, annotations, data)


FOREIGN = {
    "as it should be": of_package({"a.conf": "right"}),
    "with other data": of_package({"a.conf": "wrong"}),
    "of no package": config_map("mine", {f"{P}name": "demo"}, {}, {"a.conf": "x"}),
    "metadata of a node": config_map("mine", {f"{P}skyhook-node-meta": "demo"}, {f"{P}Node.name": "n0"}, {"a": "b"}),
    "a record": config_map("mine", {"haulout.dev/applied": "demo"}, {}, {"base-1.0.0": "{}"}),
}


class TestTenants:
    @pytest.mark.parametrize("body", FOREIGN.values(), ids=FOREIGN.keys())
    def test_a_config_map_of_another_namespace_configures_nothing(self, body: Json) -> None:
        ops = tenants_world()
        ops.world.objects.create(CONFIG_MAPS, body)
        ops.make("demo", {"base": CONFIGURED}).run(40)
        assert (ops.phase("demo"), ops.failures, ops.refusals) == ("complete", [], [])
        made = ops.world.objects.get(CONFIG_MAPS, ops.options.namespace, "demo-base-1.0.0")
        assert made is not None
        assert made["data"] == {"a.conf": "right"}
        kept = ops.world.objects.get(CONFIG_MAPS, TENANT, "mine")
        assert kept is not None
        assert kept["data"] == body["data"]

    def test_a_pod_of_another_namespace_is_no_result(self) -> None:
        ops = tenants_world(nodes=1)
        ops.fate = lambda about: "hang"
        ops.make("demo", {"base": pkg()}).run(5)
        assert ops.state("n0", "demo") == {"base|1.0.0": "apply/in_progress"}
        succeed(ops, "mine", ABOUT)
        ops.run(10)
        assert ops.state("n0", "demo") == {"base|1.0.0": "apply/in_progress"}
        assert ops.world.objects.get(PODS, TENANT, "mine") is not None

    def test_the_drop_in_records_a_pod_of_a_skyhook_that_does_not_exist(self) -> None:
        ops = tenants_world(nodes=1)
        succeed(ops, "mine", {"name": "base", "version": "1.0.0", "skyhook": "ghost", "stage": "apply"})
        ops.run(10)
        assert ops.state("n0", "ghost") == {"base|1.0.0": "apply/complete"}
        assert ops.world.objects.get(PODS, TENANT, "mine") is None

    def test_an_interrupt_waits_for_a_pod_of_another_namespace_in_the_drop_in(self) -> None:
        ops = tenants_world(nodes=1)
        ops.fate = lambda about: "hang" if about.skyhook == "ghost" else "ok"
        create(ops, "mine", {**ABOUT, "skyhook": "ghost"}, tolerations=NOT_DRAINED)
        ops.make("demo", {"base": pkg(interrupt={"type": "noop"})}).run(40)
        assert ops.state("n0", "demo") == {"base|1.0.0": "config/complete"}
        end(ops, "mine")
        ops.run(20)
        assert ops.phase("demo") == "complete"

    def test_a_pod_that_may_not_be_deleted_holds_up_nothing(self) -> None:
        ops = tenants_world(nodes=1)
        create(ops, "mine", {**ABOUT, "skyhook": "ghost"}, tolerations=NOT_DRAINED)
        end(ops, "mine")
        forbidden = Refused(HTTPStatus.FORBIDDEN, "no")
        ops.way = lambda body, carry_out: (
            forbidden if isinstance(body, Delete) and body.target.namespace == TENANT else carry_out()
        )
        ops.make("demo", {"base": pkg(interrupt={"type": "noop"})}).run(60)
        assert ops.phase("demo") == "complete"
        conditions = {each["type"]: each["status"] for each in ops.node("n0")["status"]["conditions"]}
        assert conditions[f"{P}demo/NotReady"] == "False"

    def test_haulout_run_records_none_of_them(self) -> None:
        ops = tenants_world(nodes=1, alone=False)
        succeed(ops, "mine", {**ABOUT, "skyhook": "ghost"})
        ops.run(10)
        assert ops.state("n0", "ghost") == {}
        assert ops.world.objects.get(PODS, TENANT, "mine") is not None

    @pytest.mark.parametrize("about", UNSTORABLE.values(), ids=UNSTORABLE.keys())
    def test_what_no_node_can_have_is_not_recorded(self, about: Json) -> None:
        ops = tenants_world(nodes=1)
        succeed(ops, "mine", about)
        ops.run(10)
        assert (ops.node("n0")["metadata"].get("annotations", {}), ops.failures, ops.refusals) == ({}, [], [])

    @pytest.mark.parametrize("field", ["skyhook", "name"])
    def test_tenants_cannot_fill_the_annotations_of_a_node(self, field: str) -> None:
        ops = tenants_world(nodes=1)
        for number in range(30):
            succeed(ops, f"mine-{number}", {**ABOUT, "skyhook": "ghost", field: f"x{number}"})
        ops.run(20)
        states = [text for name, text in ops.node("n0")["metadata"]["annotations"].items() if "nodeState_" in name]
        assert sum(len(json.loads(text)) for text in states) == 10
        ops.make("demo", {"base": pkg()}).run(40)
        assert (ops.phase("demo"), ops.failures, ops.refusals) == ("complete", [], [])


def entry(**fields: object) -> str:
    return json.dumps({"base|1.0.0": {"name": "base", "version": "1.0.0", "image": "x", **fields}})


def long_state(length: int) -> str:
    return json.dumps(
        {"x|1": {"name": "x" * length, "version": "1", "image": "", "stage": "apply", "state": "erroring"}}
    )


STATES = {
    "an unknown stage": entry(stage="bogus", state="complete"),
    "no stage": entry(),
    "an unknown state": entry(stage="apply", state="bogus"),
    "restarts beyond all": entry(stage="apply", state="erroring", restarts=2**63 - 1),
    "not JSON": "[",
    "nested deeply": "[" * 100_000,
    "another type": '{"base|1.0.0": 7}',
    "another version": json.dumps({"base|9": {"name": "base", "version": "9" * 5000, "stage": "apply"}}),
}


class TestKubelets:
    """Node n0 writes about itself what it likes, again and again; n1 is a good node."""

    @pytest.mark.parametrize("text", STATES.values(), ids=STATES.keys())
    def test_a_state_that_cannot_be_stored_keeps_no_other_node(self, text: str) -> None:
        ops = Skyhooks(nodes=2)
        ops.change_node("n0", {"metadata": {"annotations": {f"{P}nodeState_demo": text}}})
        ops.make("demo", {"base": pkg()}).run(60)
        assert (ops.shows("demo", "n1"), ops.failures, ops.refusals) == (["complete"], [], [])
        assert ops.status("demo")["nodeState"]["n1"]["base|1.0.0"]["stage"] == "config"

    @pytest.mark.parametrize(
        "lies",
        [
            lambda number: {f"{P}nodeState_demo": long_state(250_000), f"{P}version_demo": None},
            lambda number: {f"{P}status_demo": "x" * 250_000},
        ],
        ids=["state", "status"],
    )
    def test_long_annotations_of_many_nodes_leave_the_status_small(self, lies: Callable[[int], Json]) -> None:
        ops = Skyhooks(nodes=9)
        ops.make("demo", {"base": pkg()}, annotations={f"{P}pause": "true"}).run(5)
        for number in range(8):
            ops.change_node(f"n{number}", {"metadata": {"annotations": lies(number)}})
        ops.run(5).edit("demo", {"metadata": {"annotations": {f"{P}pause": None}}}).run(90)
        assert (ops.shows("demo", "n8"), ops.failures, ops.refusals) == (["complete"], [], [])
        assert len(json.dumps(ops.status("demo"))) < 800_000

    def test_long_boot_ids_leave_the_status_small(self) -> None:
        ops = Skyhooks(nodes=4)
        for number in range(3):
            info = {"status": {"nodeInfo": {"bootID": "x" * 600_000}}}
            ops.world.objects.patch(NODES, "", f"n{number}", info, subresource="status")
        ops.make("demo", {"base": pkg()}).run(60)
        assert (ops.phase("demo"), ops.failures, ops.refusals) == ("complete", [], [])
        assert len(json.dumps(ops.status("demo"))) < 800_000
