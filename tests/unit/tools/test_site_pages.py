"""Pages of the site that the repository keeps at its top."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.site_pages import PAGES, page

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_its_links_lead_to_files_of_the_site(name: str) -> None:
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", page(name)) if "://" not in link]
    assert links
    assert [link for link in links if not (DOCS / link).is_file()] == []
