"""Phrases that must not come back into texts that users read: reasons, help, errors, and what commands print."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import haulout

SOURCES = Path(haulout.__file__).parent
# Each with what to write instead.
PHRASES = {
    r"\bso that\b": "name the consequence: 'and no new maintenance starts', or 'to ...'",
    r"\bwhat keeps\b": "blocked by",
    r"\bis told\b|\bare told\b": "reports, says",
    r"\bat this time\b": "now",
    r"\bgo and come back\b": "finish within ...",
    r"\bmay go\b(?! on)": "may be evicted, evictions allowed",
    r"\ball nodes together\b": "summed over nodes",
    r"\blets nothing\b|\bnothing begins\b|\bnothing new begins\b": "no new maintenance starts",
    r"what was done so far": "interrupted",
    r"\bNOT SERVED\b": "Not installed, with the command that installs it",
    r"\bcannot be told\b": "it is unknown whether ...",
    r"\bstands (in line|there)\b|this stands": "is set in line ...",
}
PATTERN = re.compile("|".join(PHRASES))


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that users may read, with their lines. Of docstrings, those of commands are printed."""
    tree = ast.parse(path.read_text())
    hidden = set[int]()
    for found in ast.walk(tree):
        if isinstance(found, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = found.body[0] if found.body else None
            is_command = isinstance(found, ast.FunctionDef) and found.name == "command"
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and not is_command:
                hidden.add(id(first.value))
    for found in ast.walk(tree):
        if isinstance(found, ast.Constant) and isinstance(found.value, str) and id(found) not in hidden:
            yield found.lineno, found.value


def test_no_text_for_users_has_a_phrase_of_the_list() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{line}: {text.strip()[:120]}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line, text in texts(path)
        if PATTERN.search(text)
    ]
    assert found == []
