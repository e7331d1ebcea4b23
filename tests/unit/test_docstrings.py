"""Docstrings that can be read alone, in an editor's tooltip: they begin with a verb, and name the actor and the result.

See decision 0073.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import haulout

SOURCES = Path(haulout.__file__).parent
TOP = Path(__file__).parent.parent.parent
# Folders beside the sources whose prose keeps some of the rules, too.
OTHERS = ("tests", "benchmarks", "tools")
# First words of docstrings without a verb, or with a hidden subject.
WORDS = (
    "A An And Any Anything As At Both But By Each Every Everything For From Here How If In It Its More No Nobody None "
    "Nothing Of On One Only Or Others Own Some Somebody Something Such That The Their Then There These They This Those "
    "To Under Until What Whatever When Where Which While Who Whoever Whom Whose Why With Without"
)
NO_VERBS = frozenset(WORDS.split())
HIDDEN_ACTOR = re.compile(r"\b(whoever|whomever|somebody|someone|nobody|everybody|anybody)\b", re.IGNORECASE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _modules() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every module, also of those beside the sources."""
    for top in (SOURCES, *(TOP / name for name in OTHERS)):
        yield from ((path.relative_to(top.parent).as_posix(), path.read_text()) for path in sorted(top.rglob("*.py")))


def _is_property(function: Function) -> bool:
    names = {getattr(each, "id", getattr(each, "attr", "")) for each in function.decorator_list}
    return bool(names & {"property", "cached_property", "setter"})


@pytest.fixture(scope="module")
def functions() -> list[tuple[str, Function, str]]:
    """Every function of the sources with a docstring, and its place."""
    return [
        (f"{path.relative_to(SOURCES)}:{node.lineno} {node.name}", node, text)
        for path in sorted(SOURCES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
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
        for place, source in _modules()
        if HIDDEN_ACTOR.search(source)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, documented) and (text := ast.get_docstring(node)) and HIDDEN_ACTOR.search(text)
    ]
    assert wrong == []


def test_no_comment_hides_who_acts() -> None:
    wrong = [
        f"{place}:{number}: {line.strip()}"
        for place, source in _modules()
        for number, line in enumerate(source.splitlines(), 1)
        if line.lstrip().startswith("#") and HIDDEN_ACTOR.search(line)
    ]
    assert wrong == []


def test_every_module_says_what_it_is_for() -> None:
    wrong = [place for place, source in _modules() if source.strip() and not source.startswith('"""')]
    assert wrong == []
