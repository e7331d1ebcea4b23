"""Docstrings that work alone, in an editor's tooltip: a function's begins with a verb, and says what it returns."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import haulout

SOURCES = Path(haulout.__file__).parent
# Words with which the docstring of a function does not begin: then it has no verb, or hides what it is about.
WORDS = (
    "A An And Any Anything As At Both But By Each Every Everything For From Here How If In It Its More No Nobody None "
    "Nothing Of On One Only Or Others Own Some Somebody Something Such That The Their Then There These They This Those "
    "To Under Until What Whatever When Where Which While Who Whoever Whom Whose Why With Without"
)
NO_VERBS = frozenset(WORDS.split())
HIDDEN_ACTORS = ("whoever", "whomever", "somebody", "someone", "nobody", "everybody", "anybody")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _trees() -> tuple[tuple[str, ast.Module], ...]:
    paths = sorted(SOURCES.rglob("*.py"))
    return tuple((path.relative_to(SOURCES).as_posix(), ast.parse(path.read_text())) for path in paths)


def _is_property(function: Function) -> bool:
    names = {getattr(each, "id", getattr(each, "attr", "")) for each in function.decorator_list}
    return bool(names & {"property", "cached_property", "setter"})


@pytest.fixture(scope="module")
def functions() -> list[tuple[str, Function, str]]:
    """Every function with a docstring, and where it stands."""
    return [
        (f"{place}:{node.lineno} {node.name}", node, text)
        for place, tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, Function) and (text := ast.get_docstring(node))
    ]


def test_the_docstring_of_a_function_begins_with_a_verb(functions: list[tuple[str, Function, str]]) -> None:
    wrong = [
        f"{place}: {text.splitlines()[0]}"
        for place, node, text in functions
        if not _is_property(node) and (text.split()[0] in NO_VERBS or not text[0].isupper())
    ]
    assert wrong == []


def test_what_begins_with_whether_returns_a_truth_value(functions: list[tuple[str, Function, str]]) -> None:
    wrong = [
        place
        for place, node, text in functions
        if text.startswith("Whether ") and node.returns is not None and ast.unparse(node.returns) != "bool"
    ]
    assert wrong == []


def test_what_returns_nothing_does_not_say_return(functions: list[tuple[str, Function, str]]) -> None:
    wrong = [
        place
        for place, node, text in functions
        if text.startswith("Return ") and node.returns is not None and ast.unparse(node.returns) == "None"
    ]
    assert wrong == []


def test_no_docstring_hides_who_acts() -> None:
    documented = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    wrong = [
        f"{place}: {text.splitlines()[0]}"
        for place, tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, documented) and (text := ast.get_docstring(node))
        if any(word in text.lower().replace(".", " ").replace(",", " ").split() for word in HIDDEN_ACTORS)
    ]
    assert wrong == []


def test_every_module_says_what_it_is_for() -> None:
    wrong = [place for place, tree in _trees() if tree.body and not ast.get_docstring(tree)]
    assert wrong == []
