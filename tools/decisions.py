"""`python -m tools.decisions`: writes the index of docs/decisions from the first lines of its pages."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parents[1] / "docs" / "decisions"
INDEX = FOLDER / "README.md"
# From this number on there are no gaps.
FIRST_WITHOUT_GAPS = 165
_NUMBER = r"\d{4}"
_REPLACED = re.compile(rf"(?:in force; in part )?replaced by ({_NUMBER}(?:, {_NUMBER})*)(?: \([^()]+\))?")
_HEAD = re.compile(r"# (\d+)\. (.+)\n\n- Date: (\d{4}-\d\d-\d\d)\n- Status: (.+)\n- Room: (\S+)\n")
_TEXT = """\
# Decisions

Choices that a newcomer would question, with their reasons, by the room (the package or folder) that each is most about. A page says what
was decided at its date. Its status says whether that still holds:

- **in force**: the code is so. Where later pages changed a part of it, the status names them.
- **replaced by NNNN**: read that page instead.

Numbers up to 0164 have gaps. Later ones have none: a new page takes the next number. It begins with its number and title, its date,
its status and its room, as the others do; `python -m tools.decisions` then writes this index. Code refers to a page as
`(decision 0164)`, once, in the module that it is most about.
"""


class Page(msgspec.Struct, frozen=True):
    """A page of docs/decisions. `room`: the package of src/haulout, or the folder of the repository, that it is about."""

    name: str
    number: int
    title: str
    date: str
    status: str
    room: str

    @property
    def successors(self) -> tuple[int, ...]:
        """The numbers of the pages that replace this one, as a whole or in part."""
        found = _REPLACED.fullmatch(self.status)
        return tuple(int(number) for number in found[1].split(", ")) if found else ()

    @property
    def is_status_known(self) -> bool:
        return self.status == "in force" or bool(self.successors)


def read_page(path: Path) -> Page:
    """Return a page by its first lines. Raise ValueError if they do not have the form that all pages have."""
    found = _HEAD.match(path.read_text())
    if found is None:
        raise ValueError(f"{path.name} does not begin with a title, `- Date:`, `- Status:` and `- Room:`")
    return Page(path.name, int(found[1]), *found.groups()[1:])


def pages() -> list[Page]:
    """Return all pages in the order of their numbers."""
    return [read_page(path) for path in sorted(FOLDER.glob("[0-9]*.md"))]


def index(found: list[Page]) -> str:
    """Return the text of the index."""
    parts = [_TEXT]
    for room in sorted({page.room for page in found}):
        rows = (
            f"| [{page.number:04}]({page.name}) | {page.title} | {page.date} | {page.status} |\n"
            for page in found
            if page.room == room
        )
        parts.append(f"## {room}\n\n| | Decision | Date | Status |\n|---|---|---|---|\n{''.join(rows)}")
    return "\n".join(parts)


if __name__ == "__main__":
    INDEX.write_text(index(pages()))
