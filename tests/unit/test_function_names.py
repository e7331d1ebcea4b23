"""Functions that other modules use are named by a verb, a noun or a question: no bare participles (`told`, `served`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import haulout

SOURCES = Path(haulout.__file__).parent
IRREGULAR = re.compile(
    "become|begun|bought|bound|bred|broken|brought|built|caught|chosen|done|drawn|driven|eaten|fallen|fed|felt|"
    "forgotten|found|frozen|given|gone|grown|heard|held|hidden|kept|known|laid|led|left|lent|lost|made|meant|"
    "met|owed|paid|proven|risen|said|seen|sent|shown|sold|sought|spent|spoken|stolen|struck|taken|taught|"
    "thought|thrown|told|understood|won|worn|written"
)
VERBS_AND_NOUNS = re.compile("bed|embed|exceed|feed|need|proceed|red|seed|shed|speed|succeed")


def is_participle(name: str) -> bool:
    word = name.strip("_")
    is_regular = word.endswith("ed") and "_" not in word and not VERBS_AND_NOUNS.fullmatch(word)
    return is_regular or bool(IRREGULAR.fullmatch(word))


@cache
def _trees() -> dict[str, ast.Module]:
    """Return the syntax tree of every module, by the module's name."""
    found = {}
    for path in SOURCES.rglob("*.py"):
        parts = path.relative_to(SOURCES.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text())
    return found


def _functions() -> Iterator[tuple[str, str]]:
    """Yield the module and name of every function of a module that is named by a bare participle."""
    for module, tree in _trees().items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_participle(node.name):
                yield module, node.name


def _uses(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the module and name of everything of other modules that a module uses, also in paths such as `module:name`."""
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                yield node.module, each.name
                aliases[each.asname or each.name] = f"{node.module}.{each.name}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("haulout."):
            place, _, name = node.value.partition(":")
            yield place, name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            yield aliases[node.value.id], node.attr


def test_no_function_that_other_modules_use_is_named_by_a_bare_participle() -> None:
    used = {use for module, tree in _trees().items() for use in _uses(module, tree) if use[0] != module}
    assert sorted(f"{module}.{name}" for module, name in _functions() if (module, name) in used) == []


def test_participles_are_told_from_verbs_and_nouns() -> None:
    names = ["told", "served", "undelivered", "_seen", "embed", "need", "is_served", "served_kinds", "seen_at"]
    assert [name for name in names if is_participle(name)] == ["told", "served", "undelivered", "_seen"]
