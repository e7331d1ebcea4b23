"""Laws of patches: a diff leads to its target, changes none of its arguments, and contains nothing needless."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.base.patch import NotRepresentable, PatchFailed, apply, merge, merge_diff, same

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-1, 1) | st.text("ab/~", max_size=3)
NAMES = st.text("abc/~", max_size=2)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)
POINTERS = st.lists(NAMES | st.sampled_from(["0", "1", "-"]), max_size=3).map(
    lambda parts: "".join(f"/{p}" for p in parts)
)
OPS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": POINTERS},
    optional={"from": POINTERS, "value": VALUES},
)


def sets_null(old: Any, new: Any) -> bool:
    """Whether `new` has a null where `old` has not the same: what no merge patch can say."""
    if isinstance(new, dict):
        before = old if isinstance(old, dict) else {}
        return any(
            (value is None and not (name in before and before[name] is None)) or sets_null(before.get(name), value)
            for name, value in new.items()
        )
    return False


@settings(max_examples=150, derandomize=True)
@given(VALUES, VALUES)
def test_diff_leads_from_old_to_new_wherever_a_merge_patch_can(old: Any, new: Any) -> None:
    before = copy.deepcopy((old, new))
    try:
        patch = merge_diff(old, new)
    except NotRepresentable:
        assert sets_null(old, new)
    else:
        assert same(merge(old, patch), new)
    assert same(list(before), [old, new])


@settings(max_examples=100, derandomize=True)
@given(OBJECTS)
def test_diff_of_equals_is_empty(value: dict[str, Any]) -> None:
    assert merge_diff(value, copy.deepcopy(value)) == {}


@settings(max_examples=100, derandomize=True)
@given(OBJECTS, OBJECTS)
def test_diff_names_only_what_differs(old: dict[str, Any], new: dict[str, Any]) -> None:
    try:
        patch = merge_diff(old, new)
    except NotRepresentable:
        return
    kept = {name for name in old.keys() & new.keys() if same(old[name], new[name])}
    assert patch.keys() == (old.keys() | new.keys()) - kept


def merged_plainly(target: Any, patch: Any) -> Any:
    """Return the value after the merge patch, as the pseudocode of RFC 7386 has it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        result[name] = merged_plainly(result.get(name), value)
    return {name: value for name, value in result.items() if not (name in patch and patch[name] is None)}


@settings(max_examples=300, derandomize=True)
@given(VALUES, VALUES)
def test_merge_gives_what_the_rfc_says_and_changes_no_argument(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    assert same(merge(target, patch), merged_plainly(target, patch))
    assert same(list(before), [target, patch])


@settings(max_examples=100, derandomize=True)
@given(OBJECTS)
def test_merge_of_a_part_leaves_the_others_the_same_objects(target: dict[str, Any]) -> None:
    changed = merge({"kept": target, "changed": 1}, {"kept": {}, "changed": 2})
    assert changed["kept"] is target


def same_plainly(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_plainly(value, b[name]) for name, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_plainly, a, b))
    return a is b if isinstance(a, bool) or isinstance(b, bool) else a == b


@settings(max_examples=300, derandomize=True)
@given(VALUES, VALUES)
def test_same_tells_true_from_one_at_any_depth(a: Any, b: Any) -> None:
    assert same(a, b) is same_plainly(a, b)
    assert same([a], [copy.deepcopy(a)])


@settings(max_examples=150, derandomize=True)
@given(VALUES, st.lists(OPS, max_size=4))
def test_json_patch_applies_or_fails_as_a_patch_and_changes_no_argument(
    document: Any, ops: list[dict[str, Any]]
) -> None:
    before = copy.deepcopy((document, ops))
    with contextlib.suppress(PatchFailed):
        apply(document, ops)
    assert same(list(before), [document, ops])
