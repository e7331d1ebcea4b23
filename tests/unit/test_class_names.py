"""The words of the map belong to the kernel: a class of that name is defined in it, and nowhere a second time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import haulout

SOURCES = Path(haulout.__file__).parent
MAP = SOURCES.parents[1] / "docs" / "map.md"
# The folders whose vocabulary the map explains.
KERNEL = ("cluster", "core", "kernel")
# Classes that have such a name elsewhere, and why.
EXCEPTIONS = {
    "agent/acts.py: Outcome": "the agent stands alone: it neither imports nor is imported by the kernel",
    "agent/package.py: Step": "a step of a package, by the name that it has in the format of packages",
    "embedded/controllers/node_fit.py: Room": "the embedded cluster shares no code with the kernel, only its facade is imported",
    "embedded/controllers/tables.py: Table": "the embedded cluster shares no code with the kernel, only its facade is imported",
    "embedded/store/storage.py: Table": "the embedded cluster shares no code with the kernel, only its facade is imported",
    "surfaces/clusterapi/wire.py: Access": "the one access there is: the kernel passes it on without reading it",
}


def words() -> frozenset[str]:
    """Return the words that the map explains."""
    section = MAP.read_text().partition("\n## The words\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| \*\*([a-z, ]+)\*\* \|", section, re.MULTILINE)
    return frozenset(word.strip() for cell in cells for word in cell.split(","))


@pytest.fixture(scope="module")
def classes() -> list[str]:
    """Every class that is named by a word of the map, as `path: name`."""
    return sorted(_classes(frozenset(word.capitalize() for word in words())))


def _classes(names: frozenset[str]) -> Iterator[str]:
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name in names:
                yield f"{path.relative_to(SOURCES).as_posix()}: {node.name}"


def test_the_map_explains_the_words_of_the_kernel() -> None:
    known = "row table topic subject claim hold grant limit room step statement source mark fact outcome proof look"
    assert frozenset(known.split()) <= words()


def test_only_the_kernel_defines_classes_with_words_of_the_map(classes: list[str]) -> None:
    assert {each for each in classes if each.partition("/")[0] not in KERNEL} == EXCEPTIONS.keys()


def test_no_word_of_the_map_is_two_classes_of_the_kernel(classes: list[str]) -> None:
    names = [each.rpartition(" ")[2] for each in classes if each.partition("/")[0] in KERNEL]
    assert len(names) == len(set(names)), names
