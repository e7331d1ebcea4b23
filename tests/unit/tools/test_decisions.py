"""The pages of docs/decisions have one form, the index lists them all, and code refers to pages that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.decisions import FIRST_WITHOUT_GAPS, INDEX, index, pages

TOP = Path(__file__).parents[3]
PAGES = pages()
NUMBERS = [page.number for page in PAGES]
FOLDERS = ("src", "tests", "tools", "benchmarks", "deploy")
REFERENCE = re.compile(r"\bdecisions? (\d+(?:, \d+)*)")


def references() -> Iterator[tuple[str, int]]:
    """Yield the numbers of decisions in code, each with the file that names it."""
    for path in sorted(path for folder in FOLDERS for path in (TOP / folder).rglob("*.py")):
        for found in REFERENCE.finditer(path.read_text()):
            yield from ((str(path.relative_to(TOP)), int(number)) for number in found[1].split(", "))


def test_the_index_is_up_to_date() -> None:
    """`python -m tools.decisions` makes it so."""
    assert INDEX.read_text() == index(PAGES)


def test_every_page_is_named_by_its_own_number() -> None:
    assert [page.name for page in PAGES if not page.name.startswith(f"{page.number:04}-")] == []
    assert len(set(NUMBERS)) == len(NUMBERS)


def test_every_status_is_one_of_the_known_words() -> None:
    assert [(page.name, page.status) for page in PAGES if not page.is_status_known] == []


def test_what_replaces_a_page_is_a_later_page() -> None:
    wrong = [(page.name, number) for page in PAGES for number in page.successors if number not in NUMBERS]
    assert wrong == []
    assert [page.name for page in PAGES if any(number <= page.number for number in page.successors)] == []


def test_every_room_exists() -> None:
    known = [page for page in PAGES if (TOP / "src/haulout" / page.room).is_dir() or (TOP / page.room).is_dir()]
    assert [page.name for page in PAGES if page not in known] == []


def test_new_numbers_have_no_gaps() -> None:
    new = [number for number in NUMBERS if number >= FIRST_WITHOUT_GAPS]
    assert new == list(range(FIRST_WITHOUT_GAPS, FIRST_WITHOUT_GAPS + len(new)))


def test_every_decision_that_code_names_exists() -> None:
    assert [(place, number) for place, number in references() if number not in NUMBERS] == []
