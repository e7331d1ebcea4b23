"""Strategic merge patches, and how patches are refused."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.embedded import Json
from haulout.embedded.store.patches import strategic_merge
from haulout.kube.errors import ApiError
from tests.build.apiserver import NODES, World, node


def spec(*containers: Json, **rest: Any) -> Json:
    return {"spec": {"containers": list(containers), **rest}}


@pytest.mark.parametrize(
    "kind, original, patch, wanted",
    [
        pytest.param("Pod", spec({"name": "a", "image": "1"}, {"name": "b"}), spec({"name": "a", "image": "2"}, {"name": "c"}), spec({"name": "a", "image": "2"}, {"name": "c"}, {"name": "b"}), id="containers merge by name"),
        pytest.param("Pod", spec({"name": "a", "args": ["x"]}), spec({"name": "a", "args": ["y"]}), spec({"name": "a", "args": ["y"]}), id="plain lists are replaced"),
        pytest.param("Pod", spec({"name": "a"}, {"name": "b"}), spec({"name": "a", "$patch": "delete"}), spec({"name": "b"}), id="an item is deleted"),
        pytest.param("Pod", spec({"name": "a"}, {"name": "b"}), spec({"name": "c"}, {"$patch": "replace"}), spec({"name": "c"}), id="a list is replaced"),
        pytest.param("Pod", {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}, {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}}, {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}, id="only keys that are retained"),
        pytest.param("Node", {"spec": {"taints": [{"key": "a"}]}}, {"spec": {"taints": [{"key": "b"}]}}, {"spec": {"taints": [{"key": "b"}]}}, id="taints are replaced"),
        pytest.param("Node", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, {"status": {"conditions": [{"type": "X"}, {"type": "Ready", "reason": "r"}]}}, {"status": {"conditions": [{"type": "X"}, {"type": "Ready", "status": "True", "reason": "r"}]}}, id="conditions merge by type"),
        pytest.param("Node", {"status": {"conditions": [{"type": "R"}, {"type": "S"}]}}, {"status": {"$setElementOrder/conditions": [{"type": "X"}, {"type": "R"}], "conditions": [{"type": "X"}]}}, {"status": {"conditions": [{"type": "X"}, {"type": "R"}, {"type": "S"}]}}, id="in the order of the patch"),
        pytest.param("Node", {"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"finalizers": ["b", "c"]}}, {"metadata": {"finalizers": ["a", "b", "c"]}}, id="finalizers are added"),
        pytest.param("Node", {"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, {"metadata": {"finalizers": ["b"]}}, id="and taken away"),
        pytest.param("Node", {"metadata": {"labels": {"a": "1", "b": "2"}}}, {"metadata": {"labels": {"a": None, "c": "3"}}}, {"metadata": {"labels": {"b": "2", "c": "3"}}}, id="labels"),
        pytest.param("Node", {"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"$patch": "replace", "c": "3"}}}, {"metadata": {"labels": {"c": "3"}}}, id="a map is replaced"),
        pytest.param("Node", {"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}}, {"metadata": {"ownerReferences": [{"uid": "1", "name": "b"}, {"uid": "2"}]}}, {"metadata": {"ownerReferences": [{"uid": "1", "name": "b"}, {"uid": "2"}]}}, id="owners merge by uid"),
    ],
)  # fmt: skip
def test_strategic_merge(kind: str, original: Json, patch: Json, wanted: Json) -> None:
    before = repr(original)
    assert strategic_merge(kind, original, patch) == wanted
    assert repr(original) == before


def test_items_need_their_key() -> None:
    with pytest.raises(ApiError, match=r"map: map\[status:True\] does not contain declared merge key: type"):
        before = {"status": {"conditions": [{"type": "Ready"}]}}
        strategic_merge("Node", before, {"status": {"conditions": [{"status": "True"}]}})


def test_where_nothing_was_directives_direct_nothing() -> None:
    patch = {
        "metadata": {"labels": {"$patch": "delete"}, "finalizers": ["a"]},
        "spec": {"taints": [{"$patch": "delete"}]},
    }
    assert strategic_merge("Node", {}, patch) == {"metadata": {"finalizers": ["a"]}, "spec": {"taints": []}}


@pytest.mark.parametrize(
    "kind, patch, code, message",
    [
        pytest.param("json", [{"op": "test", "path": "/metadata/name", "value": "q"}], 422, "the server rejected our request due to an error in our request", id="failed test"),
        pytest.param("json", {"a": 1}, 400, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp", id="no operations"),
        pytest.param("merge", [1], 400, "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}", id="no object"),
        pytest.param("merge", b"", 400, "error decoding patch: unexpected end of JSON input", id="nothing"),
        pytest.param("merge", {"metadata": {"name": "z"}}, 400, "the name of the object (z) does not match the name on the URL (a)", id="other name"),
        pytest.param("apply", {}, 422, 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch', id="apply"),
    ],
)  # fmt: skip
def test_patches_that_are_refused(kind: str, patch: Any, code: int, message: str) -> None:
    world = World()
    world.server.create(NODES, node("a"))
    said = world.ask("PATCH", "/api/v1/nodes/a", patch, patch=kind)
    assert said.code == code
    assert said.message.startswith(message)


def test_a_patch_to_a_wrong_type_shows_what_it_would_make() -> None:
    world = World()
    world.server.create(NODES, node("a"))
    said = world.ask("PATCH", "/api/v1/nodes/a", {"spec": {"unschedulable": 1}}, patch="merge")
    assert (said.code, said.body["details"]["causes"][0]["field"]) == (422, "patch")
    assert said.message.endswith(
        "json: cannot unmarshal number into Go struct field NodeSpec.spec.unschedulable of type bool"
    )


def test_what_is_no_patch_at_all() -> None:
    world = World()
    world.server.create(NODES, node("a"))
    assert world.ask("PATCH", "/api/v1/nodes/a", {}).message == "415: Unsupported Media Type"
    assert world.ask("PATCH", "/api/v1/nodes/none", b"{", patch="merge").code == 404


def test_json_patches_apply() -> None:
    world = World()
    world.server.create(NODES, node("a", x="y"))
    operations = [
        {"op": "add", "path": "/spec/unschedulable", "value": True},
        {"op": "remove", "path": "/metadata/labels/x"},
    ]
    said = world.ask("PATCH", "/api/v1/nodes/a", operations, patch="json")
    assert (said.body["spec"], "labels" in said.body["metadata"]) == ({"unschedulable": True}, False)
