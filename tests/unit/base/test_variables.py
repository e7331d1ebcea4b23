"""Expansion of variables in configuration files: the little language and its errors."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from haulout.base import variables
from haulout.base.variables import ExpandError, MissingError, Scope, SpliceError, Value, Variable

ENVIRONMENT = {"A": "a", "B": "b", "AB": "ab", "EMPTY": "", "NAME": "A", "URL": "http://x:1"}


def scope(keys: Mapping[str, str] | None = None) -> Scope:
    return Scope({name: variables.parse(text) for name, text in (keys or {}).items()}, ENVIRONMENT)


def expanded(text: str, keys: Mapping[str, str] | None = None) -> str:
    return variables.expand(variables.parse(text), scope(keys))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("plain: } text", "plain: } text", id="no variable"),
        pytest.param("", "", id="nothing"),
        pytest.param("${A}", "a", id="variable"),
        pytest.param("x ${A}${B} y", "x ab y", id="in text"),
        pytest.param("${NO:fallback}", "fallback", id="fallback"),
        pytest.param("${A:fallback}", "a", id="fallback not needed"),
        pytest.param("${EMPTY:fallback}", "fallback", id="empty counts as missing"),
        pytest.param("${NO:}", "", id="empty fallback"),
        pytest.param("${NO:http://x:1+:?}", "http://x:1+:?", id="colons in a fallback"),
        pytest.param("${A:+text}", "text", id="alternative"),
        pytest.param("${NO:+text}", "", id="alternative not wanted"),
        pytest.param("${A:?sorry}", "a", id="error not needed"),
        pytest.param("${NO:${B:c}}", "b", id="nested fallback"),
        pytest.param("${NO:${NO:c}}", "c", id="fallback of a fallback"),
        pytest.param("${${NAME}}", "a", id="name from a variable"),
        pytest.param("${A${NO:B}}", "ab", id="name in part from a variable"),
        pytest.param("$$", "$", id="dollar"),
        pytest.param("$${A}", "${A}", id="escaped"),
        pytest.param("$}", "}", id="brace"),
        pytest.param("${NO:x$}y}", "x}y", id="brace in a fallback"),
        pytest.param("$x $( $", "$x $( $", id="literal dollars"),
        pytest.param("log$|leg$", "log$|leg$", id="regular expression"),
        pytest.param("$$$", "$$", id="three dollars"),
    ],
)
def test_expansion(text: str, wanted: str) -> None:
    assert expanded(text) == wanted


@pytest.mark.parametrize(
    ("keys", "text", "wanted"),
    [
        pytest.param({"A": "top"}, "${A}", "top", id="before the environment"),
        pytest.param({"K": "${A}-${B}"}, "${K}", "a-b", id="with variables of its own"),
        pytest.param({"K": "x"}, "${K}${K}", "xx", id="twice"),
        pytest.param({"A": "${A}"}, "${A}", "a", id="named like the variable in it"),
        pytest.param({"K": "${NO}"}, "${K:f}", "f", id="fallback when it cannot be expanded"),
        pytest.param({"K": "$${A}"}, "${K}", "${A}", id="not expanded again"),
    ],
)
def test_top_level_keys(keys: dict[str, str], text: str, wanted: str) -> None:
    assert expanded(text, keys) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("${A", "missing '}'", id="unclosed"),
        pytest.param("${A:", "missing '}'", id="unclosed fallback"),
        pytest.param("${A:${B}", "missing '}'", id="inner closed only"),
        pytest.param("${}", "empty expansion", id="empty"),
        pytest.param("${:x}", "empty expansion", id="no name"),
        pytest.param("${" * 60, "variables nested deeper than 50", id="deep"),
    ],
)
def test_wrong_wherever_it_stands(text: str, message: str) -> None:
    with pytest.raises(SpliceError) as caught:
        variables.parse(text)
    assert str(caught.value) == message


def test_missing_variable() -> None:
    with pytest.raises(MissingError, match=r"^missing field$"):
        expanded("x ${NO}")


def test_error_of_the_author() -> None:
    with pytest.raises(ExpandError, match=r"^say why$"):
        expanded("${NO:?say ${NO2:why}}")


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({"K": "${L}", "L": "${K}"}, id="cycle"),
        pytest.param({f"K{n}": f"${{K{n + 1}}}" for n in range(60)} | {"K": "${K0}"}, id="chain"),
        pytest.param({f"K{n}": f"${{K{n + 1}:}}" * 2 for n in range(30)} | {"K": "${K0}"}, id="doubling"),
        pytest.param({"K": "${L}" * 1000, "L": "x" * 2000}, id="long"),
    ],
)
def test_bounded(keys: dict[str, str]) -> None:
    with pytest.raises(ExpandError):
        expanded("${K}", keys)


def test_what_a_template_is() -> None:
    assert variables.literal(variables.parse("$$x")) == "$x"
    assert variables.literal(variables.parse("")) == ""
    assert variables.literal(variables.parse("${A}")) is None
    assert variables.bare_name(variables.parse("${A}")) == "A"
    assert variables.bare_name(variables.parse("${A:x}")) is None
    assert variables.bare_name(variables.parse("x${A}")) is None
    assert variables.parse("x${A:y}") == ("x", Variable(("A",), ":", ("y",)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a,b", ["a", "b"]),
        (" a , b ", ["a", "b"]),
        ("[x]", ["x"]),
        ("[1, on, 'a,b', ]", [1, True, "a,b"]),
        ("[]", None),
        ("60", 60),
        ("007", 7),
        ("-1", -1),
        ("1.5", 1.5),
        ("on", True),
        ("t", True),
        ("off", False),
        ("yes", "yes"),
        ("null", None),
        ("'60'", "60"),
        ('"a\\nb"', "a\nb"),
        ('"a\\"b"', 'a"b'),
        ("", ""),
        ("  ", "  "),
        ("a,", ["a", None]),
        ("{a: 1, 'b': [x, y]}", {"a": 1, "b": ["x", "y"]}),
        ("{}", None),
        ("a b", "a b"),
        ("http://x:1", "http://x:1"),
    ],
)
def test_little_language(text: str, value: Value) -> None:
    assert variables.parse_value(text) == value


def test_an_environment_variable_holds_no_objects() -> None:
    assert variables.parse_value("{a: 1}", objects=False) == "{a: 1}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a", "array closing ']' missing when parsing '[a'"),
        ("[", "array closing ']' missing when parsing '['"),
        ("[{a: 1} x]", "array expected ',' or ']' when parsing '[{a: 1} x]'"),
        ("{{ x", "expected ':' when parsing '{{ x'"),
        ("{", "expected key when parsing '{'"),
        ("{a: 1", "dictionary expected ',' or '}' when parsing '{a: 1'"),
        (",", "unexpected ',' when parsing ','"),
        ("'a' b", "expected ',' when parsing ''a' b'"),
        ("'a", "missing ' to close string when parsing ''a'"),
        ('"a', "Missing \" to close string  when parsing '\"a'"),
        ('"\\q"', "invalid syntax when parsing '\"\\q\"'"),
        ("[" * 60, f"nested deeper than 50 when parsing '{'[' * 60}'"),
    ],
)
def test_little_language_errors(text: str, message: str) -> None:
    with pytest.raises(ExpandError) as caught:
        variables.parse_value(text)
    assert str(caught.value) == message
