"""Strategic merge patches, and how patches are refused, beyond what contract cases show."""

from __future__ import annotations

from haulout.embedded.store.patches import strategic_merge


def test_a_strategic_patch_leaves_the_original_as_it_is() -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    original = {"metadata": {"labels": {"a": "1"}, "finalizers": ["a"]}, "status": {"conditions": conditions}}
    before = repr(original)
    order = {"$setElementOrder/conditions": [{"type": "X"}, {"type": "Ready"}]}
    changes = {"conditions": [{"type": "X"}, {"type": "Ready", "status": "False"}], **order}
    strategic_merge(
        "Node", original, {"metadata": {"labels": {"a": None}, "finalizers": ["b"]}, "status": dict(changes)}
    )
    assert repr(original) == before


def test_where_nothing_was_directives_direct_nothing() -> None:
    patch = {
        "metadata": {"labels": {"$patch": "delete"}, "finalizers": ["a"]},
        "spec": {"taints": [{"$patch": "delete"}]},
    }
    assert strategic_merge("Node", {}, patch) == {"metadata": {"finalizers": ["a"]}, "spec": {"taints": []}}
