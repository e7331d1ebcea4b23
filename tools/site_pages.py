"""Puts pages on the site that the repository keeps at its top, where forges and packagers look for them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# The file at the top of the repository by its page.
PAGES = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "vulnerabilities.md": "SECURITY.md"}
_LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<path>[^):]+)\)")


def page(name: str) -> str:
    """Return the text of a page, with links as from the folder of the site."""
    return _LINK.sub(_link, (ROOT / PAGES[name]).read_text())


def _link(found: re.Match[str]) -> str:
    """Return a link from the folder of the site. A link to a file that is not on the site becomes its text."""
    path = found["path"].removeprefix("docs/")
    return found["text"].strip("[]") if path == found["path"] else f"{found['text']}({path})"


def on_files(files: Any, config: Any) -> Any:
    """Add the pages. MkDocs calls it (`hooks` in mkdocs.yml)."""
    from mkdocs.structure.files import File

    for name in PAGES:
        files.append(File.generated(config, name, content=page(name)))
    return files
