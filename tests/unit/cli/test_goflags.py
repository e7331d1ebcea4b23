"""Command lines as Go's flag package reads them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from haulout.cli.goflags import FlagProblem, HelpWanted, parse_flags, usage
from haulout.core.surface import Flag

FLAGS = (
    Flag("addr", ":8080", "Where to listen."),
    Flag("devel", True, "For people."),
    Flag("elect", False, "Elect a leader."),
    Flag("timeout", timedelta(seconds=65), "How long to wait.", "duration"),
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([], {}, id="none"),
        pytest.param(["--addr=:1"], {"addr": ":1"}, id="two dashes and a sign"),
        pytest.param(["-addr", ":1"], {"addr": ":1"}, id="one dash and a word"),
        pytest.param(["--addr", "-x"], {"addr": "-x"}, id="a value that looks like a flag"),
        pytest.param(["--addr="], {"addr": ""}, id="empty"),
        pytest.param(["--addr=a=b"], {"addr": "a=b"}, id="a sign in the value"),
        pytest.param(["--addr", ":1", "--addr", ":2"], {"addr": ":2"}, id="the last wins"),
        pytest.param(["--elect"], {"elect": True}, id="a truth by itself"),
        pytest.param(["--devel=false", "-elect=T"], {"devel": False, "elect": True}, id="truths with a sign"),
        pytest.param(["--timeout", "1m30s"], {"timeout": timedelta(seconds=90)}, id="a duration"),
        pytest.param(["--timeout=0"], {"timeout": timedelta(0)}, id="no duration"),
    ],
)
def test_values(words: list[str], expected: dict[str, Any]) -> None:
    values, rest = parse_flags(FLAGS, words)
    assert values == {flag.name: flag.default for flag in FLAGS} | expected
    assert rest == []


@pytest.mark.parametrize(
    ("words", "elect", "rest"),
    [
        pytest.param(["--elect", "false"], True, ["false"], id="a truth takes no word"),
        pytest.param(["serve", "--elect"], False, ["serve", "--elect"], id="flags end at a word"),
        pytest.param(["--elect", "--", "--addr"], True, ["--addr"], id="flags end at two dashes"),
        pytest.param(["--elect", "-"], True, ["-"], id="a dash is a word"),
    ],
)
def test_words_after_the_flags(words: list[str], elect: bool, rest: list[str]) -> None:
    values, found = parse_flags(FLAGS, words)
    assert values["elect"] is elect
    assert found == rest


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(["--nope"], "flag provided but not defined: -nope", id="unknown"),
        pytest.param(["-nope=1"], "flag provided but not defined: -nope", id="unknown with a value"),
        pytest.param(["---addr"], "bad flag syntax: ---addr", id="three dashes"),
        pytest.param(["--=x"], "bad flag syntax: --=x", id="no name"),
        pytest.param(["--addr"], "flag needs an argument: -addr", id="no value"),
        pytest.param(["--elect=maybe"], 'invalid boolean value "maybe" for -elect: parse error', id="no truth"),
        pytest.param(
            ["--timeout=soon"],
            'invalid value "soon" for flag -timeout: time: invalid duration "soon"',
            id="no duration",
        ),
        pytest.param(
            ["--timeout", "60"],
            'invalid value "60" for flag -timeout: time: missing unit in duration "60"',
            id="no unit",
        ),
    ],
)
def test_problems(words: list[str], problem: str) -> None:
    with pytest.raises(FlagProblem) as caught:
        parse_flags(FLAGS, words)
    assert str(caught.value) == problem


@pytest.mark.parametrize("word", ["-h", "--help", "-help"])
def test_help_is_no_problem(word: str) -> None:
    with pytest.raises(HelpWanted):
        parse_flags(FLAGS, ["--elect", word])


def test_usage() -> None:
    assert usage("program", FLAGS).splitlines() == [
        "Usage of program:",
        "  -addr string",
        '    \tWhere to listen. (default ":8080")',
        "  -devel",
        "    \tFor people. (default true)",
        "  -elect",
        "    \tElect a leader.",
        "  -timeout duration",
        "    \tHow long to wait. (default 1m5s)",
    ]
