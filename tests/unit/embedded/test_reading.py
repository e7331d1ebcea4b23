"""Lists in pages, selectors, watches from any version, and the forms in which objects are shown."""

from __future__ import annotations

import pytest

from haulout.kube.transport import METADATA_ONLY
from tests.build.apiserver import NODES, PODS, World, events, node, pod, short

NODES_PATH = "/api/v1/nodes"
PODS_PATH = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
def world() -> World:
    world = World()
    for name, zone in (("a", "z1"), ("b", "z2"), ("c", "z1")):
        world.server.create(NODES, node(name, zone=zone))
    return world


def names(world: World, address: str) -> list[str]:
    return [each["metadata"]["name"] for each in world.ask("GET", address).body["items"]]


@pytest.mark.parametrize(
    "query, wanted",
    [
        ("", "abc"),
        ("labelSelector=zone=z1", "ac"),
        ("labelSelector=zone!=z1", "b"),
        ("labelSelector=zone in (z2,z3)", "b"),
        ("labelSelector=!zone", ""),
        ("fieldSelector=metadata.name=b", "b"),
        ("fieldSelector=metadata.name!=b", "ac"),
        ("fieldSelector=spec.unschedulable=true", "c"),
        ("fieldSelector=spec.unschedulable=false,metadata.name!=a", "b"),
    ],
)
def test_selectors(world: World, query: str, wanted: str) -> None:
    world.server.patch(NODES, "", "c", {"spec": {"unschedulable": True}})
    # The world's queries are not encoded, so a sign of equality may stand in a value.
    assert "".join(names(world, f"{NODES_PATH}?{query}")) == wanted


@pytest.mark.parametrize(
    "query, message",
    [
        ("labelSelector=a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("fieldSelector=foo=bar", "field label not supported: foo"),
        ("fieldSelector=metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("limit=abc", 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ("resourceVersion=abc", 'invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'),
    ],
)  # fmt: skip
def test_bad_queries(world: World, query: str, message: str) -> None:
    said = world.ask("GET", f"{NODES_PATH}?{query}")
    assert (said.code, said.message) == (400, message)


def test_pods_are_found_by_node(world: World) -> None:
    for name, on in (("x", "a"), ("y", "b"), ("z", "a")):
        world.server.create(PODS, pod(name, on=on))
    assert names(world, "/api/v1/pods?fieldSelector=spec.nodeName=a") == ["x", "z"]
    world.server.delete(PODS, "default", "x", grace=0)
    assert names(world, "/api/v1/pods?fieldSelector=spec.nodeName=a,status.phase=Pending") == ["z"]
    assert names(world, "/api/v1/namespaces/kube-system/pods?fieldSelector=spec.nodeName=a") == []


def test_lists_come_in_the_order_of_namespace_and_name(world: World) -> None:
    for namespace, name in (("kube-system", "a"), ("default", "b"), ("default", "a")):
        world.server.create(PODS, {**pod(name), "metadata": {"name": name, "namespace": namespace}})
    found = [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in world.server.list(PODS)]
    assert found == [("default", "a"), ("default", "b"), ("kube-system", "a")]
    assert len(world.server.list(PODS, "default")) == 2


def test_pages_are_of_one_revision(world: World) -> None:
    first = world.ask("GET", f"{NODES_PATH}?limit=1").body
    assert first["metadata"]["remainingItemCount"] == 2
    world.server.delete(NODES, "", "c")
    world.server.patch(NODES, "", "b", {"metadata": {"labels": {"new": "yes"}}})
    world.server.create(NODES, node("d"))
    rest = world.ask("GET", f"{NODES_PATH}?continue={first['metadata']['continue']}").body
    assert [each["metadata"]["name"] for each in rest["items"]] == ["b", "c"]
    assert "new" not in rest["items"][0]["metadata"]["labels"]
    assert rest["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


def test_a_page_that_comes_too_late(world: World) -> None:
    token = world.ask("GET", f"{NODES_PATH}?limit=1").body["metadata"]["continue"]
    world.server.create(NODES, node("d"))
    world.server.storage.compact()
    said = world.ask("GET", f"{NODES_PATH}?continue={token}")
    assert (said.code, said.body["reason"]) == (410, "Expired")
    assert world.ask("GET", f"{NODES_PATH}?continue={token}&resourceVersion=1").code == 400
    assert world.ask("GET", f"{NODES_PATH}?continue=abc").code == 400


@pytest.mark.parametrize(
    "query, code",
    [
        ("resourceVersion=0", 200),
        ("resourceVersion=6", 200),
        ("resourceVersion=6&resourceVersionMatch=Exact", 200),
        ("resourceVersion=99999", 504),
        ("resourceVersion=99999&resourceVersionMatch=Exact", 504),
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("resourceVersion=1&resourceVersionMatch=Foo", 422),
        ("sendInitialEvents=true", 422),
    ],
)
def test_versions_of_lists(world: World, query: str, code: int) -> None:
    said = world.ask("GET", f"{NODES_PATH}?{query}")
    assert said.code == code
    if "Exact" in query and code == 200:
        assert [each["metadata"]["name"] for each in said.body["items"]] == ["a"]
    if code == 504:
        assert said.message == "Timeout: Too large resource version: 99999, current: 8"
        assert said.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize(
    "query, wanted",
    [
        pytest.param("", ["ADDED a", "ADDED b", "ADDED c"], id="unset"),
        pytest.param("&resourceVersion=0", ["ADDED a", "ADDED b", "ADDED c"], id="any"),
        pytest.param("&resourceVersion=7", ["ADDED c"], id="exact"),
        pytest.param("&resourceVersion=999", [], id="from the future"),
        pytest.param("&resourceVersion=0&allowWatchBookmarks=true", ["ADDED a", "ADDED b", "ADDED c", "BOOKMARK"], id="with marks"),
        pytest.param("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", ["ADDED a", "ADDED b", "ADDED c", "BOOKMARK"], id="streaming list"),
        pytest.param("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", [], id="no list"),
        pytest.param("&resourceVersion=5&labelSelector=zone=z2", ["ADDED b"], id="selected"),
    ],
)  # fmt: skip
def test_where_a_watch_begins(world: World, query: str, wanted: list[str]) -> None:
    assert short(world.watch(f"{NODES_PATH}?watch=true{query}")) == wanted


def test_what_a_watch_tells(world: World) -> None:
    watch = world.watch(f"{NODES_PATH}?watch=1&resourceVersion=8")
    world.server.create(NODES, node("d"))
    world.server.patch(NODES, "", "d", {"spec": {"unschedulable": True}})
    world.server.delete(NODES, "", "d")
    told = events(watch)
    assert [kind for kind, _ in told] == ["ADDED", "MODIFIED", "DELETED"]
    assert [obj["metadata"]["resourceVersion"] for _, obj in told] == ["9", "10", "11"]


def test_objects_enter_and_leave_a_selection(world: World) -> None:
    watch = world.watch(f"{NODES_PATH}?watch=1&resourceVersion=8&labelSelector=zone=z1")
    world.server.patch(NODES, "", "b", {"metadata": {"labels": {"zone": "z1"}}})
    world.server.patch(NODES, "", "b", {"metadata": {"labels": {"x": "y"}}})
    world.server.patch(NODES, "", "b", {"metadata": {"labels": {"zone": "z2"}}})
    world.server.patch(NODES, "", "b", {"metadata": {"labels": {"x": "z"}}})
    told = events(watch)
    assert [kind for kind, _ in told] == ["ADDED", "MODIFIED", "DELETED"]
    gone = told[-1][1]["metadata"]
    assert (gone["labels"]["zone"], gone["resourceVersion"]) == ("z1", "11")


def test_a_watch_of_one_namespace(world: World) -> None:
    watch = world.watch(f"{PODS_PATH}?watch=1")
    world.server.create(PODS, pod("x"))
    world.server.create(PODS, {**pod("y"), "metadata": {"name": "y", "namespace": "kube-system"}})
    assert short(watch) == ["ADDED x"]


def test_a_watch_from_before_what_is_known() -> None:
    world = World(log_length=2)
    for name in "abcd":
        world.server.create(NODES, node(name))
    watch = world.watch(f"{NODES_PATH}?watch=1&resourceVersion=6")
    [(kind, status)] = events(watch)
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert status["message"] == "too old resource version: 6 (7)"
    assert watch.watch is not None
    assert watch.watch.ended
    assert short(world.watch(f"{NODES_PATH}?watch=1&resourceVersion=7")) == ["ADDED c", "ADDED d"]


def test_watches_mark_their_progress_and_end(world: World) -> None:
    answer = world.watch(f"{NODES_PATH}?watch=1&resourceVersion=8&allowWatchBookmarks=true&timeoutSeconds=90")
    world.wait(seconds=61)
    [(kind, mark)] = events(answer)
    assert (kind, mark["kind"], mark["metadata"]) == ("BOOKMARK", "Node", {"resourceVersion": "8"})
    world.wait(seconds=30)
    assert answer.watch is not None
    assert answer.watch.ended
    world.server.create(NODES, node("z"))
    assert [kind for kind, _ in events(answer)] == ["BOOKMARK"]


@pytest.mark.parametrize(
    "query, message",
    [
        ("sendInitialEvents=true", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        (
            "resourceVersionMatch=NotOlderThan",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ],
)
def test_watches_that_are_refused(world: World, query: str, message: str) -> None:
    said = world.ask("GET", f"{NODES_PATH}?watch=1&{query}")
    assert said.code == 422
    assert message in said.message
    assert world.ask("GET", f"{NODES_PATH}?watch=1&resourceVersion=abc").code == 500


def test_only_metadata(world: World) -> None:
    found = world.ask("GET", NODES_PATH, accept=METADATA_ONLY.replace("Metadata;", "MetadataList;")).body
    assert found["kind"] == "PartialObjectMetadataList"
    assert found["items"][0].keys() == {"kind", "apiVersion", "metadata"}
    one = world.ask("GET", f"{NODES_PATH}/a", accept=METADATA_ONLY).body
    assert (one["kind"], one["metadata"]["name"]) == ("PartialObjectMetadata", "a")


def test_tables(world: World) -> None:
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}}}
    world.server.patch(NODES, "", "a", ready, subresource="status")
    world.server.patch(
        NODES,
        "",
        "a",
        {"spec": {"unschedulable": True}, "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}}},
    )
    world.wait(minutes=3)
    found = world.ask("GET", NODES_PATH, accept=TABLE).body
    assert [column["name"] for column in found["columnDefinitions"]][:5] == [
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
    ]
    assert found["rows"][0]["cells"] == [
        "a", "Ready,SchedulingDisabled", "worker", "3m", "v1", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>",
    ]  # fmt: skip
    assert found["rows"][1]["cells"][1] == "Unknown"
    assert found["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert world.ask("GET", f"{NODES_PATH}?includeObject=None", accept=TABLE).body["rows"][0]["object"] is None


def test_a_watch_of_tables_has_its_heading_once(world: World) -> None:
    told = events(world.watch(f"{NODES_PATH}?watch=1", accept=TABLE))
    assert [bool(table["columnDefinitions"]) for _, table in told] == [True, False, False]


@pytest.mark.parametrize(
    "status, deleted, cells",
    [
        pytest.param({"phase": "Running", "containerStatuses": [{"name": "c", "ready": True, "restartCount": 0, "image": "", "imageID": "", "state": {"running": {}}}]}, False, ["1/1", "Running", "0"], id="running"),
        pytest.param({"phase": "Running", "containerStatuses": [{"name": "c", "ready": False, "restartCount": 3, "image": "", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2025-12-31T23:59:00Z"}}}]}, False, ["0/1", "CrashLoopBackOff", "3 (60s ago)"], id="crashing"),
        pytest.param({"phase": "Succeeded", "containerStatuses": [{"name": "c", "ready": False, "restartCount": 0, "image": "", "imageID": "", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}, False, ["0/1", "Completed", "0"], id="completed"),
        pytest.param({"phase": "Pending", "initContainerStatuses": [{"name": "i", "ready": False, "restartCount": 0, "image": "", "imageID": "", "state": {"running": {}}}]}, False, ["0/1", "Init:0/0", "0"], id="initialising"),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, False, ["0/1", "Evicted", "0"], id="evicted"),
        pytest.param({"phase": "Running"}, True, ["0/1", "Terminating", "0"], id="terminating"),
    ],
)  # fmt: skip
def test_pods_in_tables(world: World, status: dict[str, object], deleted: bool, cells: list[str]) -> None:
    world.server.create(PODS, pod("x", on="a"))
    world.server.patch(PODS, "default", "x", {"status": status}, subresource="status")
    if deleted:
        world.server.delete(PODS, "default", "x")
    row = world.ask("GET", f"{PODS_PATH}/x", accept=TABLE).body["rows"][0]["cells"]
    assert row[1:4] == cells
    assert row[4:7] == ["0s", "<none>", "a"]


def test_yaml(world: World) -> None:
    said = world.ask("GET", f"{NODES_PATH}/a", accept="application/yaml")
    assert said.body.startswith("apiVersion: v1\nkind: Node\n")
