"""What the site of the documentation is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.diagrams import DIAGRAMS, FOLDER, Diagram
from tools.site import versions


def test_versions_of_the_site_are_listed_with_the_newest_first(tmp_path: Path) -> None:
    for name in ("0.1.0", "0.10.0", "0.9.2", "decisions", "1.0"):
        (tmp_path / name).mkdir()
    (tmp_path / "0.2.0").write_text("")
    found = versions(tmp_path)
    assert [each["version"] for each in found] == ["0.10.0", "0.9.2", "0.1.0"]
    assert [each["aliases"] for each in found] == [["latest"], [], []]


@pytest.mark.parametrize(("name", "diagram"), DIAGRAMS.items(), ids=DIAGRAMS)
def test_a_diagram_of_the_docs_is_drawn_from_its_source(name: str, diagram: Diagram) -> None:
    assert (FOLDER / f"{name}.svg").read_text() == diagram.svg()
    assert f"diagrams/{name}.svg" in "".join(page.read_text() for page in FOLDER.parent.glob("*.md"))


def test_no_other_diagram_is_there() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(DIAGRAMS)
