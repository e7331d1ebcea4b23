"""Merge patches and JSON patches: the examples of their RFCs, and what is said when one does not apply."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.base.patch import NotRepresentable, PatchFailed, apply, merge, merge_diff, same


# RFC 7386, appendix A.
@pytest.mark.parametrize(
    "target,patch,result",
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    assert merge(target, patch) == result


@pytest.mark.parametrize(
    "old,new,patch",
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "b": {"c": 1, "d": 2}}, {"a": 1, "b": {"c": 1}}, {"b": {"d": None}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": None}, {"a": None, "b": 1}, {"b": 1}),
        ({"a": [1, None]}, {"a": [None]}, {"a": [None]}),
        (7, {"a": {}}, {"a": {}}),
        ({"a": 1}, None, None),
    ],
)
def test_diff_is_minimal(old: Any, new: Any, patch: Any) -> None:
    assert same(merge_diff(old, new), patch)
    assert same(merge(old, patch), new)


@pytest.mark.parametrize(
    "old,new", [({}, {"a": {"b/c": None}}), ({"a": 1}, {"a": {"b/c": None}}), (1, {"a": {"b/c": None}})]
)
def test_diff_cannot_set_null(old: Any, new: Any) -> None:
    with pytest.raises(NotRepresentable, match=r"^/a/b~1c: a merge patch cannot set null$"):
        merge_diff(old, new)


def test_true_is_not_one() -> None:
    assert same({"a": [1, 1.0, True]}, {"a": [1.0, 1, True]})
    assert not same([1], [True])
    assert not same(0, False)
    assert not same(None, False)


# RFC 6902, appendix A.
@pytest.mark.parametrize(
    "document,ops,result",
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"foo": "bar", "baz": "qux"}),
        ({"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        ({"foo": [1, 2, 3, 4]}, [{"op": "move", "from": "/foo/1", "path": "/foo/3"}], {"foo": [1, 3, 4, 2]}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc"]}], {"foo": ["bar", ["abc"]]}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"a": 1}, [{"op": "add", "path": "", "value": [1]}], [1]),
        ({"a": 1}, [{"op": "replace", "path": "", "value": None}], None),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
        ({"": 1}, [{"op": "replace", "path": "/", "value": 2}], {"": 2}),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}),
        ({"a": [0]}, [{"op": "add", "path": "/a/1", "value": 1}], {"a": [0, 1]}),
    ],
)
def test_json_patch(document: Any, ops: list[dict[str, Any]], result: Any) -> None:
    assert apply(document, ops) == result


@pytest.mark.parametrize(
    "op,why",
    [
        ({"op": "test", "path": "/a/b", "value": 2}, "the value is 1, not 2"),
        ({"op": "test", "path": "/t", "value": 1}, "the value is true, not 1"),
        ({"op": "remove", "path": "/a/x"}, '/a has no member "x"'),
        ({"op": "replace", "path": "/x", "value": 1}, 'the document has no member "x"'),
        ({"op": "add", "path": "/x/y", "value": 1}, 'the document has no member "x"'),
        ({"op": "add", "path": "/a/b/c", "value": 1}, "/a/b is 1, neither object nor list"),
        ({"op": "add", "path": "/l/4", "value": 1}, "index 4 is beyond the 3 items of /l"),
        ({"op": "remove", "path": "/l/3"}, "index 3 is beyond the 3 items of /l"),
        ({"op": "remove", "path": "/l/99999999999999999999"}, "index 99999999999999999999 is beyond the 3 items of /l"),
        ({"op": "replace", "path": "/l/-", "value": 1}, '"-" is no index of the list /l'),
        ({"op": "remove", "path": "/l/01"}, '"01" is no index of the list /l'),
        ({"op": "remove", "path": "/l/²"}, '"²" is no index of the list /l'),
        ({"op": "remove", "path": ""}, "the whole document cannot be removed"),
        ({"op": "move", "from": "/a", "path": "/a/c"}, "/a cannot be moved into itself"),
        ({"op": "copy", "from": "/no", "path": "/c"}, 'the document has no member "no"'),
        ({"op": "copy", "path": "/c"}, "no from is given"),
        ({"op": "add", "path": "/c"}, "no value is given"),
        ({"op": "add", "value": 1}, "no path is given"),
        ({"op": "add", "path": "c", "value": 1}, 'path "c" does not begin with "/"'),
        ({"op": "test", "path": "/~2", "value": 1}, '"~" in "~2" is followed by neither 0 nor 1'),
        ({"path": "/a"}, "no op is given"),
        ({"op": "merge", "path": "/a"}, 'unknown op "merge"; there are add, remove, replace, move, copy and test'),
    ],
)
def test_json_patch_says_what_failed_and_where(op: dict[str, Any], why: str) -> None:
    document = {"a": {"b": 1}, "l": [1, 2, 3], "t": True}
    with pytest.raises(PatchFailed) as caught:
        apply(document, [{"op": "remove", "path": "/l/0"}, {"op": "add", "path": "/l/0", "value": 1}, op])
    assert str(caught.value) == f"operation 2 ({op.get('op', '?')} {op.get('path', '?')}): {why}"
    assert document == {"a": {"b": 1}, "l": [1, 2, 3], "t": True}


def test_operation_that_is_no_object() -> None:
    with pytest.raises(PatchFailed, match=r"^operation 0 is 7, not an object$"):
        apply({}, [7])  # type: ignore[list-item]
