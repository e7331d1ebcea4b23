"""Label selectors, as texts and as objects."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.base import selector
from haulout.base.selector import EVERYTHING, SelectorError

LABELS = {"a": "b", "n": "5", "empty": "", "x.io/k": "v"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", True),
        ("  ", True),
        ("a", True),
        ("z", False),
        ("!z", True),
        ("! a", False),
        ("a=b", True),
        ("a == b", True),
        ("a=c", False),
        ("a!=c", True),
        ("z!=c", True),
        ("a!=b", False),
        ("empty=", True),
        ("z=", False),
        ("a in (b, c)", True),
        ("a in (c)", False),
        ("z in (c)", False),
        ("a notin (c,d)", True),
        ("z notin (c)", True),
        ("empty in ()", True),
        ("empty in (,b)", True),
        ("n>4", True),
        ("n > 5", False),
        ("n<6", True),
        ("a>4", False),
        ("z<4", False),
        ("a=b,n,!z, x.io/k in (v)", True),
        ("a=b,n,z", False),
    ],
)
def test_texts(text: str, wanted: bool) -> None:
    assert selector.parse(text).matches(LABELS) is wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b,", "found '', expected: identifier at column 5"),
        (",a", "found ',', expected: identifier at column 1"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, >, < at column 3"),
        ("a=b c", "found 'c', expected: ',' or 'end of string' at column 5"),
        ("!a=b", "found '=', expected: ',' or 'end of string' at column 3"),
        ("a in b", "found 'b', expected: '(' at column 6"),
        ("a in (b", "found '', expected: ',' or ')' at column 8"),
        ("a in (b c)", "found 'c', expected: ',' or ')' at column 9"),
        ("a=(", "found '(', expected: identifier at column 3"),
        ("a>x", "for 'Gt', 'Lt' operators, the value must be an integer at column 3"),
        ("-a", 'key: name part of "-a" must be'),
        ("A_/a", 'key: prefix part of "A_/a" must be a lowercase DNS subdomain at column 1'),
        ("a=-b", 'value "-b" must be'),
        (f"a={'b' * 64}", "must be at most 63 letters"),
        (f"{'b' * 254}/a", "must be a lowercase DNS subdomain"),
    ],
    ids=lambda value: value[:16],
)
def test_errors_have_a_column(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        selector.parse(text)
    assert message in str(caught.value)
    assert caught.value.column > 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, ""),
        ({"matchLabels": None, "matchExpressions": None}, ""),
        ({"matchLabels": {"b": "1", "a": ""}}, "a=,b=1"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x", "y"]}]}, "a in (x,y)"),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}, "a!=x"),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x", "z"]}]}, "a notin (x,z)"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, "a"),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist", "values": []}]}, "!a"),
        ({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, "a=b"),
    ],
)
def test_objects(value: dict[str, Any], text: str) -> None:
    compiled = selector.from_object(value)
    assert str(compiled) == text
    assert compiled == selector.parse(text)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "selector: must be an object"),
        ({"matchLabels": ["a"]}, "selector.matchLabels: must be an object"),
        ({"matchLabels": {"a": 1}}, "selector.matchLabels[a]: values must be strings"),
        ({"matchLabels": {"a": ["b"]}}, "selector.matchLabels[a]: values must be strings"),
        ({"matchLabels": {"a": "b c"}}, 'selector.matchLabels[a]: value "b c" must be'),
        ({"matchExpressions": {}}, "selector.matchExpressions: must be a list"),
        ({"matchExpressions": ["a"]}, "selector.matchExpressions[0]: must be an object"),
        ({"matchExpressions": [{}]}, 'selector.matchExpressions[0].operator: "" is not a valid label selector operator'),
        ({"matchExpressions": [{"key": "a", "operator": "in"}]}, '"in" is not a valid label selector operator'),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "selector.matchExpressions[0].values: for 'in', 'notin'"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, "values set must be empty"),
        ({"matchExpressions": [{"operator": "Exists"}]}, 'selector.matchExpressions[0]: key: name part of ""'),
        ({"matchExpressions": [{"key": 5, "operator": "Exists"}]}, "selector.matchExpressions[0]: key: must be a string"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_object_errors_have_a_path(value: Any, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        selector.from_object(value)
    assert str(caught.value).startswith(message) or message in str(caught.value)


def test_an_error_has_the_path_of_its_own_selector() -> None:
    for path in ("one", "other"):
        with pytest.raises(SelectorError, match=rf"^{path}\.matchLabels\[-\]: key: "):
            selector.from_object({"matchLabels": {"-": "a"}}, path)


@pytest.mark.parametrize("text", ["a", "!a", "a=b", "a!=b", "a in (b,c)", "a notin (b,c)", "a>1", "a<1", "a=", "a!="])
@pytest.mark.parametrize("labels", [{}, {"a": "b"}, {"a": "d"}, {"a": ""}, {"a": "0"}, {"a": "2"}], ids=str)
def test_a_selector_decides_as_its_requirement_does(text: str, labels: dict[str, str]) -> None:
    parsed = selector.parse(text)
    assert parsed.matches(labels) == parsed.requirements[0].matches(labels)


def test_equal_selectors_are_equal() -> None:
    assert selector.parse("b,a=x") == selector.parse(" a == x , b , b")
    assert hash(selector.parse("b,a=x")) == hash(selector.parse("a in (x),b"))
    assert selector.parse("") == EVERYTHING


def test_equalities_are_what_an_index_can_look_up() -> None:
    assert selector.parse("a=x,b in (y),c in (p,q),d!=z,e").equalities() == {"a": "x", "b": "y"}


def test_labels_alone_select_as_the_same_expressions_do() -> None:
    labels = {"b": "y", "a": "x"}
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    assert selector.from_object({"matchLabels": labels}) == selector.from_object({"matchExpressions": expressions})
    assert selector.from_object({"matchLabels": labels, "matchExpressions": []}).equalities() == labels


def test_a_refused_selector_is_refused_again_at_its_own_path() -> None:
    for path in ("selector", "spec.selector", "selector"):
        with pytest.raises(SelectorError) as caught:
            selector.from_object({"matchLabels": {"a": "b c"}}, path)
        assert str(caught.value).startswith(f"{path}.matchLabels[a]: ")


@pytest.mark.parametrize("text", ["", "a=b", "a=b,n", "a=b,n in (4,5)", "a=b,n=6", "a!=b,n=5", "a=b,n>4", "a=b,a=c"])
def test_a_selector_matches_where_each_requirement_does(text: str) -> None:
    compiled = selector.parse(text)
    assert compiled.matches(LABELS) == all(each.matches(LABELS) for each in compiled.requirements)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a=x,b=long,c in (longer,longest)", ("b", "long"), id="the longest value"),
        pytest.param("a=x,b=y", ("b", "y"), id="the last of equal length"),
        pytest.param("a,b!=x", ("", ""), id="none"),
    ],
)
def test_the_longest_equality(text: str, expected: tuple[str, str]) -> None:
    assert selector.parse(text).longest_equality == expected
