"""Phrases that must not come back into texts that users read: what commands print, the README, the site, the charts, alerts."""

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
    r"\bNOT SERVED\b|\bNot installed:": "Skyhooks are not installed (`haulout crds packages | kubectl apply -f -`)",
    r"\bcannot be told\b": "it is unknown whether ...",
    r"\bleader: none\b": "NO OPERATOR IS RUNNING",
    r"\bwith every pod healthy it still\b|\bneeded of \d": "allows no evictions even with all 3 pods healthy",
    r"\b(stands|stood) (behind|by then|twice|without)\b|\bas it stands\b|\bwhere (it|they) stands?\b": "is, applies",
    r"\bis told of\b|\btold yet\b": "is reported",
    r"\bthe act that\b": "the action that",
    r"\bsomebody\b|\bwhoever\b": "name the person or program",
    r"\bsince \d+ (s|min|h|d)\b": "for 3 min",
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


TOP = Path(__file__).parents[2]
# Decisions, the map and the page about deciding are for those who write the code.
FOR_AUTHORS = {"docs/map.md", "docs/deciding.md"}
# Comments of the console's page are for those who write it.
COMMENT = re.compile(r"/\*.*?\*/|(?<![:\w])//[^\n]*", re.DOTALL)


def is_for_authors(path: Path) -> bool:
    place = str(path.relative_to(TOP))
    return place in FOR_AUTHORS or place.startswith("docs/decisions/")


def page_text(path: Path) -> str:
    """Return the text of a page, in one line."""
    text = path.read_text()
    return " ".join((COMMENT.sub("", text) if path.suffix in {".ts", ".tsx"} else text).split())


PAGES = [
    *(TOP / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted(path for path in TOP.glob("docs/**/*.md") if not is_for_authors(path)),
    *sorted(path for path in TOP.glob("examples/**/*") if path.suffix in {".md", ".yaml", ".json"}),
    *sorted(path for path in TOP.glob("web/src/**/*") if path.suffix in {".ts", ".tsx"} and ".test" not in path.name),
    *sorted(path for path in TOP.glob("deploy/**/*") if path.suffix in {".yaml", ".json", ".txt", ".tpl"}),
    *sorted(SOURCES.rglob("*.yaml")),
]


def test_no_page_and_no_manifest_has_one() -> None:
    found = [
        f"{path.relative_to(TOP)}: {text[max(0, match.start() - 60) : match.end() + 60]!r}"
        for path in PAGES
        for text in [page_text(path)]
        for match in PATTERN.finditer(text)
    ]
    assert found == []


def test_no_text_for_users_has_a_phrase_of_the_list() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{line}: {text.strip()[:120]}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line, text in texts(path)
        if PATTERN.search(text)
    ]
    assert found == []
