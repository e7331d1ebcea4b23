"""Objects as actors and clients create, change and read them; all texts are those of a kube-apiserver 1.36."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.embedded import Json
from haulout.kube.errors import ApiError, Conflict, Invalid, NotFound
from tests.build.apiserver import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NODES,
    PODS,
    World,
    budget,
    deployment,
    node,
    pod,
)

PODS_PATH = "/api/v1/namespaces/default/pods"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
KEY = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"


@pytest.fixture
def world() -> World:
    return World()


def test_a_pod_gets_the_defaults_of_server_and_admission(world: World) -> None:
    made = world.server.create(PODS, pod("a"))

    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["metadata"] | {"uid": ""} == {
        "name": "a",
        "namespace": "default",
        "labels": {"app": "web"},
        "uid": "",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 1,
        "resourceVersion": "6",
    }
    spec = made["spec"]
    assert spec["containers"] == [
        {
            "name": "c",
            "image": "nginx",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
        }
    ]
    assert {
        name: spec[name] for name in ("restartPolicy", "terminationGracePeriodSeconds", "dnsPolicy", "priority")
    } == {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "priority": 0,
    }
    assert [each["key"] for each in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


@pytest.mark.parametrize(
    "resources, qos",
    [
        pytest.param({}, "BestEffort", id="nothing"),
        pytest.param({"requests": {"cpu": "1"}}, "Burstable", id="request"),
        pytest.param({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed", id="limits"),
        pytest.param({"limits": {"cpu": "1"}}, "Burstable", id="one limit"),
    ],
)
def test_quality_of_service(world: World, resources: Json, qos: str) -> None:
    containers = [{"name": "c", "image": "a:1", "resources": resources}]
    assert world.server.create(PODS, pod("a", containers=containers))["status"]["qosClass"] == qos


@pytest.mark.parametrize(
    "path, sent, wanted",
    [
        pytest.param(
            "/apis/apps/v1/namespaces/default/deployments",
            deployment("d"),
            {
                "replicas": 1,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
            },
            id="deployment",
        ),
        pytest.param(
            "/apis/apps/v1/namespaces/default/statefulsets",
            deployment("s"),
            {
                "replicas": 1,
                "podManagementPolicy": "OrderedReady",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            },
            id="stateful set",
        ),
        pytest.param(
            "/apis/apps/v1/namespaces/default/daemonsets",
            deployment("s"),
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}},
            id="daemon set",
        ),
        pytest.param("/api/v1/nodes", node("n"), {}, id="node"),
        pytest.param("/api/v1/namespaces", {"metadata": {"name": "n"}}, {"finalizers": ["kubernetes"]}, id="namespace"),
    ],
)
def test_defaults(world: World, path: str, sent: Json, wanted: Json) -> None:
    made = world.ask("POST", path, sent)
    assert made.code == 201
    assert {name: made.body["spec"][name] for name in wanted} == wanted


def test_a_job_selects_its_pods_by_its_own_uid(world: World) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}}
    job = world.ask(
        "POST", "/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "j"}, "spec": {"template": template}}
    )
    uid = job.body["metadata"]["uid"]
    assert job.body["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert job.body["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"
    assert job.body["spec"]["completions"] == 1


def test_what_go_leaves_out_is_left_out_and_what_it_prints_is_printed(world: World) -> None:
    made = world.ask("POST", "/api/v1/nodes", node("n") | {"spec": {"unschedulable": False, "taints": []}}).body
    assert made["spec"] == {}
    assert made["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    made = world.ask(
        "PATCH",
        "/api/v1/nodes/n/status",
        {"status": {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "1000m"}}},
        patch="merge",
    ).body
    assert made["status"]["conditions"] == [
        {"type": "Ready", "status": "True", "lastHeartbeatTime": None, "lastTransitionTime": None}
    ]
    assert made["status"]["capacity"] == made["status"]["allocatable"] == {"cpu": "1"}


def test_a_gated_pod_says_so(world: World) -> None:
    made = world.server.create(PODS, pod("a", schedulingGates=[{"name": "x.io/g"}]))
    [condition] = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def test_new_nodes_are_tainted_until_somebody_finds_them_ready() -> None:
    made = World(taint_new_nodes=True).server.create(NODES, node("n"))
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    "path, sent, message",
    [
        pytest.param("nodes", node("N_1"), f'Node "N_1" is invalid: metadata.name: Invalid value: "N_1": {SUBDOMAIN}', id="name"),
        pytest.param("nodes", {"metadata": {}}, 'Node "" is invalid: metadata.name: Required value: name or generateName is required', id="no name"),
        pytest.param("nodes", {"metadata": {"name": "n", "labels": {"a b": "x"}}}, f'Node "n" is invalid: metadata.labels: Invalid value: "a b": {KEY}', id="label key"),
        pytest.param("nodes", {"metadata": {"name": "n", "annotations": {"a b": "x"}}}, f'Node "n" is invalid: metadata.annotations: Invalid value: "a b": {KEY}', id="annotation key"),
        pytest.param("nodes", node("n") | {"spec": {"taints": [{"key": "k", "effect": "Bad"}]}}, 'Node "n" is invalid: metadata.taints[0].effect: Unsupported value: "Bad": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"', id="taint effect"),
        pytest.param("nodes", node("n") | {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}] * 2}}, 'Node "n" is invalid: metadata.taints[1]: Duplicate value: {"Key":"k","Value":"","Effect":"NoExecute","TimeAdded":null}: taints must be unique by key and effect pair', id="taint twice"),
        pytest.param("namespaces/default/pods", pod("p") | {"spec": {}}, 'Pod "p" is invalid: spec.containers: Required value', id="no containers"),
        pytest.param("namespaces/default/pods", pod("p", restartPolicy="X", dnsPolicy="y"), 'Pod "p" is invalid: [spec.restartPolicy: Unsupported value: "X": supported values: "Always", "OnFailure", "Never", spec.dnsPolicy: Unsupported value: "y": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]', id="two problems"),
        pytest.param("namespaces/default/configmaps", {"metadata": {"name": "c"}, "data": {"a b": ""}}, 'ConfigMap "c" is invalid: data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters, \'-\', \'_\' or \'.\' (e.g. \'key.name\',  or \'KEY_NAME\',  or \'key-name\', regex used for validation is \'[-._a-zA-Z0-9]+\')', id="config key"),
        pytest.param("namespaces/default/configmaps", {"metadata": {"name": "c"}, "data": {"a": "1"}, "binaryData": {"a": "MQ=="}}, 'ConfigMap "c" is invalid: data[a]: Invalid value: "a": duplicate of key present in binaryData', id="config key twice"),
        pytest.param("namespaces", {"metadata": {"name": "a.b"}}, 'Namespace "a.b" is invalid: metadata.name: Invalid value: "a.b": must not contain dots', id="namespace"),
    ],
)  # fmt: skip
def test_refused_with_422(world: World, path: str, sent: Json, message: str) -> None:
    said = world.ask("POST", f"/api/v1/{path}", sent)
    assert (said.code, said.body["reason"], said.message) == (422, "Invalid", message)
    assert said.body["details"]["causes"]


@pytest.mark.parametrize(
    "sent, message",
    [
        pytest.param(budget("b", minAvailable=1, maxUnavailable="10%"), "minAvailable and maxUnavailable cannot be both set", id="both"),
        pytest.param(budget("b", minAvailable="x"), "spec.minAvailable: Invalid value: \"x\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')", id="no percentage"),
        pytest.param(budget("b", maxUnavailable="101%"), 'spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%', id="too much"),
        pytest.param(budget("b") | {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Bad"}]}}}, 'spec.selector.matchExpressions[0].operator: Invalid value: "Bad": not a valid selector operator', id="selector"),
        pytest.param(budget("b", unhealthyPodEvictionPolicy="q"), 'Unsupported value: "q": supported values: "AlwaysAllow", "IfHealthyBudget"', id="policy"),
    ],
)  # fmt: skip
def test_budgets_that_make_no_sense(world: World, sent: Json, message: str) -> None:
    said = world.ask("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", sent)
    assert said.code == 422
    assert message in said.message


@pytest.mark.parametrize(
    "sent, message",
    [
        pytest.param({"spec": {"unschedulable": "yes"}}, "json: cannot unmarshal string into Go struct field NodeSpec.spec.unschedulable of type bool", id="bool"),
        pytest.param({"spec": {"taints": {}}}, "json: cannot unmarshal object into Go struct field NodeSpec.spec.taints of type []v1.Taint", id="list"),
        pytest.param({"kind": "Pod", "apiVersion": "v1"}, 'Pod in version "v1" cannot be handled as a Node: converting (v1.Pod) to (core.Node): unknown conversion', id="other kind"),
        pytest.param({"kind": "Node", "apiVersion": "v2"}, 'Node in version "v2" cannot be handled as a Node: no kind "Node" is registered for version "v2" in scheme "pkg/runtime/scheme.go:111"', id="other version"),
    ],
)  # fmt: skip
def test_unreadable_objects(world: World, sent: Json, message: str) -> None:
    said = world.ask("POST", "/api/v1/nodes", node("n") | sent)
    assert (said.code, said.body["reason"]) == (400, "BadRequest")
    assert message in said.message


@pytest.mark.parametrize(
    "policy, code, warnings",
    [
        pytest.param("", 201, ['299 - "unknown field \\"spec.foo\\""', '299 - "unknown field \\"bar\\""'], id="by default"),
        pytest.param("Warn", 201, ['299 - "unknown field \\"spec.foo\\""', '299 - "unknown field \\"bar\\""'], id="warn"),
        pytest.param("Ignore", 201, [], id="ignore"),
        pytest.param("Strict", 400, [], id="strict"),
        pytest.param("Ugh", 422, [], id="nonsense"),
    ],
)  # fmt: skip
def test_unknown_fields(world: World, policy: str, code: int, warnings: list[str]) -> None:
    said = world.ask("POST", f"/api/v1/nodes?fieldValidation={policy}", node("n") | {"spec": {"foo": 1}, "bar": 2})
    assert (said.code, said.warnings) == (code, warnings)
    assert "foo" not in said.body.get("spec", {})
    if code == 400:
        assert (
            said.message
            == 'Node in version "v1" cannot be handled as a Node: strict decoding error: unknown field "spec.foo", unknown field "bar"'
        )


def test_names_are_made_up_and_the_same_in_each_run() -> None:
    first, second = (
        World().server.create(PODS, pod("") | {"metadata": {"generateName": "web-", "namespace": "default"}})
        for _ in range(2)
    )
    assert first == second
    assert len(first["metadata"]["name"]) == len("web-") + 5


def test_the_same_name_twice(world: World) -> None:
    world.server.create(NODES, node("a"))
    with pytest.raises(Conflict, match=r'^nodes "a" already exists$') as refusal:
        world.server.create(NODES, node("a"))
    assert refusal.value.exists


def test_dry_run_stores_nothing(world: World) -> None:
    made = world.ask("POST", "/api/v1/nodes?dryRun=All", node("a"))
    assert made.code == 201
    assert "resourceVersion" not in made.body["metadata"]
    assert world.server.get(NODES, "", "a") is None
    world.server.create(NODES, node("a"))
    assert world.ask("PATCH", "/api/v1/nodes/a?dryRun=All", {"spec": {"unschedulable": True}}, patch="merge").body[
        "spec"
    ] == {"unschedulable": True}
    assert world.ask("DELETE", "/api/v1/nodes/a?dryRun=All").code == 200
    assert world.server.get(NODES, "", "a") == world.server.list(NODES)[0]
    assert (
        world.ask("POST", "/api/v1/nodes?dryRun=Some", node("b")).message
        == 'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"'
    )


def test_an_update_must_be_of_the_current_version(world: World) -> None:
    made = world.server.create(NODES, node("a"))
    changed = world.server.update(NODES, made | {"spec": {"unschedulable": True}})
    assert int(changed["metadata"]["resourceVersion"]) == int(made["metadata"]["resourceVersion"]) + 1
    with pytest.raises(
        Conflict,
        match='Operation cannot be fulfilled on nodes "a": the object has been modified; please apply your changes to the latest version and try again',
    ):
        world.server.update(NODES, made)
    with pytest.raises(Conflict):
        world.server.patch(NODES, "", "a", {"metadata": {"resourceVersion": "1", "labels": {"x": "y"}}})


def test_a_change_that_changes_nothing_has_no_revision(world: World) -> None:
    made = world.server.create(NODES, node("a", x="y"))
    assert world.server.patch(NODES, "", "a", {"metadata": {"labels": {"x": "y"}}}) is made
    assert world.server.update(NODES, made) is made
    assert world.server.patch(NODES, "", "a", {"status": {"phase": "x"}}) is made


def test_objects_are_never_changed_in_place(world: World) -> None:
    sent = pod("a")
    made = world.server.create(PODS, sent)
    before = repr((sent, made))
    world.server.patch(PODS, "default", "a", {"metadata": {"labels": {"x": "y"}}})
    world.server.patch(PODS, "default", "a", {"status": {"phase": "Running"}}, subresource="status")
    world.server.delete(PODS, "default", "a", grace=0)
    assert repr((sent, made)) == before


@pytest.mark.parametrize(
    "change, subresource, generation",
    [
        pytest.param({"metadata": {"labels": {"x": "y"}}}, "", 1, id="labels"),
        pytest.param({"spec": {"replicas": 5}}, "", 2, id="spec"),
        pytest.param({"status": {"replicas": 3}}, "status", 1, id="status"),
        pytest.param({"status": {"replicas": 3}}, "", 1, id="status by the wrong way"),
        pytest.param({"spec": {"replicas": 5}}, "status", 1, id="spec by the wrong way"),
        pytest.param({"metadata": {"generation": 9}}, "", 1, id="generation"),
    ],
)
def test_generations(world: World, change: Json, subresource: str, generation: int) -> None:
    world.server.create(DEPLOYMENTS, deployment("d"))
    changed = world.server.patch(DEPLOYMENTS, "default", "d", change, subresource=subresource)
    assert changed["metadata"]["generation"] == generation
    assert changed["spec"]["replicas"] == (5 if generation == 2 else 1)


@pytest.mark.parametrize(
    "kind, change, message",
    [
        pytest.param("deployment", {"spec": {"selector": {"matchLabels": {"app": "z"}}, "template": {"metadata": {"labels": {"app": "z"}}}}}, 'Deployment.apps "x" is invalid: spec.selector: Invalid value: {"matchLabels":{"app":"z"}}: field is immutable', id="selector"),
        pytest.param("pod", {"spec": {"nodeName": "z"}}, "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`", id="node of a pod"),
        pytest.param("pod", {"spec": {"activeDeadlineSeconds": 0}}, "must be between 1 and 2147483647, inclusive", id="deadline"),
        pytest.param("node", {"metadata": {"uid": "z"}}, 'Node "x" is invalid: metadata.uid: Invalid value: "z": field is immutable', id="uid"),
        pytest.param("node", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, 'Node "x" is invalid: metadata.deletionTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable', id="deletion by hand"),
        pytest.param("node", {"metadata": {"finalizers": ["bad"]}}, 'metadata.finalizers[0]: Invalid value: "bad": name is neither a standard finalizer name nor is it fully qualified', id="finalizer"),
    ],
)  # fmt: skip
def test_changes_that_are_refused(world: World, kind: str, change: Json, message: str) -> None:
    world.server.create(DEPLOYMENTS, deployment("x"))
    world.server.create(PODS, pod("x"))
    world.server.create(NODES, node("x"))
    resource = {"deployment": DEPLOYMENTS, "pod": PODS, "node": NODES}[kind]
    with pytest.raises(Invalid) as refusal:
        world.server.patch(resource, "default", "x", change)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    "change", [{"containers": [{"name": "c", "image": "b"}]}, {"activeDeadlineSeconds": 5}], ids=["image", "deadline"]
)
def test_changes_of_pods_that_pass(world: World, change: Json) -> None:
    world.server.create(PODS, pod("x"))
    assert world.server.patch(PODS, "default", "x", {"spec": change})["metadata"]["generation"] == 2


def test_immutable_config(world: World) -> None:
    world.server.create(
        CONFIG_MAPS, {"metadata": {"name": "c", "namespace": "default"}, "data": {"a": "b"}, "immutable": True}
    )
    with pytest.raises(Invalid, match="data: Forbidden: field is immutable when `immutable` is set"):
        world.server.patch(CONFIG_MAPS, "default", "c", {"data": {"a": "c"}})


@pytest.mark.parametrize(
    "method, address, code, message",
    [
        ("GET", "/api/v1/nodes/nope", 404, 'nodes "nope" not found'),
        ("GET", "/api/v1/nopes", 404, "the server could not find the requested resource"),
        ("GET", "/apis/nope/v1/x", 404, "404 page not found\n"),
        ("GET", "/nope", 404, "404 page not found\n"),
        ("PUT", "/api/v1/nodes", 405, "the server does not allow this method on the requested resource"),
        ("POST", "/api/v1/pods", 405, "the server does not allow this method on the requested resource"),
        ("POST", "/api/v1/namespaces/default/nodes", 404, "the server could not find the requested resource"),
        ("GET", f"{PODS_PATH}/x/eviction", 405, "the server does not allow this method on the requested resource"),
    ],
)
def test_addresses_without_an_object(world: World, method: str, address: str, code: int, message: str) -> None:
    said = world.ask(method, address, {})
    assert (said.code, said.message) == (code, message)


def test_the_address_and_the_object_agree(world: World) -> None:
    world.server.create(NODES, node("a"))
    assert (
        world.ask("PUT", "/api/v1/nodes/a", node("b")).message
        == "the name of the object (b) does not match the name on the URL (a)"
    )
    said = world.ask("POST", "/api/v1/namespaces/kube-system/pods", pod("x"))
    assert said.message == "the namespace of the provided object does not match the namespace sent on the request"
    assert (
        world.ask("POST", "/api/v1/namespaces/nope/pods", {"metadata": {"name": "x"}, "spec": {}}).message
        == 'namespaces "nope" not found'
    )


@pytest.mark.parametrize(
    "address, sent, code",
    [
        pytest.param(
            "/apis/coordination.k8s.io/v1/namespaces/default/leases/l",
            {"metadata": {"name": "l"}},
            201,
            id="a lease is created",
        ),
        pytest.param("/api/v1/nodes/l", {"metadata": {"name": "l"}}, 404, id="a node is not"),
    ],
)
def test_replacing_what_is_not_there(world: World, address: str, sent: Json, code: int) -> None:
    assert world.ask("PUT", address, sent).code == code


def test_some_kinds_want_a_version(world: World) -> None:
    address = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    world.ask("POST", address, budget("b"))
    said = world.ask("PUT", f"{address}/b", budget("b"))
    assert (
        said.message
        == 'poddisruptionbudgets.policy "b" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update'
    )


def test_both_faces_of_an_event(world: World) -> None:
    sent = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "x", "namespace": "default"},
        "reason": "R",
        "note": "m",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "a.b/c",
        "reportingInstance": "i",
        "action": "A",
    }
    made = world.ask("POST", "/apis/events.k8s.io/v1/namespaces/default/events", sent)
    assert (made.code, made.body["apiVersion"], made.body["note"]) == (201, "events.k8s.io/v1", "m")
    core = world.ask("GET", "/api/v1/namespaces/default/events/e").body
    assert (core["apiVersion"], core["message"], core["reportingComponent"], core["lastTimestamp"]) == (
        "v1",
        "m",
        "a.b/c",
        None,
    )
    del sent["eventTime"]
    refused = world.ask(
        "POST", "/apis/events.k8s.io/v1/namespaces/default/events", sent | {"metadata": {"name": "f"}, "type": "Bad"}
    )
    assert (
        refused.message
        == 'Event "f" is invalid: [eventTime: Required value, type: Invalid value: "": has invalid value: Bad]'
    )


def test_events_are_forgotten_after_an_hour(world: World) -> None:
    about = {"kind": "Node", "name": "x"}
    for minute in (0, 30):
        world.wait(minutes=minute)
        world.ask(
            "POST", "/api/v1/namespaces/default/events", {"metadata": {"name": f"e{minute}"}, "involvedObject": about}
        )
    world.wait(minutes=31)
    assert [each["metadata"]["name"] for each in world.ask("GET", "/api/v1/events").body["items"]] == ["e30"]


def test_actors_are_told_later_and_in_order(world: World) -> None:
    told: list[str] = []

    def on_change(change: Any) -> None:
        told.append(f"{change.type} {change.object['metadata']['name']}")
        if change.type == "ADDED" and change.object["metadata"]["name"] == "a":
            world.server.create(NODES, node("c"))
            told.append("wrote c")

    world.server.subscribe(NODES, on_change)
    world.server.create(NODES, node("a"))
    world.server.create(NODES, node("b"))
    assert told == []
    world.wait(seconds=0)
    assert told == ["ADDED a", "wrote c", "ADDED b", "ADDED c"]


def test_what_is_not_there_is_none(world: World) -> None:
    assert world.server.get(NODES, "", "a") is None
    for act in (lambda: world.server.patch(NODES, "", "a", {}), lambda: world.server.delete(NODES, "", "a")):
        with pytest.raises(NotFound):
            act()


def test_bindings(world: World) -> None:
    world.server.create(PODS, pod("a"))
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
    said = world.ask("POST", f"{PODS_PATH}/a/binding", binding)
    assert (said.code, said.body["status"]) == (201, "Success")
    bound = world.server.get(PODS, "default", "a")
    assert bound is not None
    assert (bound["spec"]["nodeName"], bound["metadata"]["generation"]) == ("n", 1)
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    said = world.ask("POST", f"{PODS_PATH}/a/binding", binding)
    assert (said.code, said.message) == (
        409,
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n"',
    )


def test_scales(world: World) -> None:
    world.server.create(DEPLOYMENTS, deployment("d", replicas=0))
    address = "/apis/apps/v1/namespaces/default/deployments/d/scale"
    assert world.ask("GET", address).body["spec"] == {}
    assert world.ask("GET", address).body["status"] == {"replicas": 0, "selector": "app=web"}
    assert world.ask("PATCH", address, {"spec": {"replicas": 2}}, patch="merge").body["spec"] == {"replicas": 2}
    assert (
        world.ask("PATCH", address, {"spec": {"replicas": -2}}, patch="merge").message
        == 'Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -2: must be greater than or equal to 0'
    )
    found = world.server.get(DEPLOYMENTS, "default", "d")
    assert found is not None
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (2, 2)


def test_everybody_may_do_everything(world: World) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    said = world.ask("POST", path, {"spec": {"resourceAttributes": {"verb": "get", "resource": "nodes"}}})
    assert (said.code, said.body["status"]) == (201, {"allowed": True})
    assert world.ask("POST", path, {"spec": {}}).code == 422


def test_rules_are_reviewed_too(world: World) -> None:
    said = world.ask(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}
    )
    assert said.body["status"]["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]


def test_bad_bodies(world: World) -> None:
    assert (
        world.ask("POST", "/api/v1/nodes", b"").message
        == "the object provided is unrecognized (must be of type Node): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"
    )
    assert world.ask("POST", "/api/v1/nodes", b"x", content_type="text/plain").code == 415
    assert world.ask("POST", "/api/v1/nodes", b"metadata: {name: y}", content_type="application/yaml").code == 201
    assert world.ask("GET", "/api/v1/nodes", accept="application/xml").code == 406


def test_refusals_of_actors_are_typed(world: World) -> None:
    with pytest.raises(ApiError) as refusal:
        world.server.create(PODS, pod("p") | {"spec": {"containers": "x"}})
    assert refusal.value.status.code == 400
