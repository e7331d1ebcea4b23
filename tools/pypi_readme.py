"""Makes the README of the Python package: its links and pictures lead to the site, because a package index has no other files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

SITE = "https://haulout.dev/"
_LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<path>[^):]+)\)")


def published(readme: str) -> str:
    """Return the README with absolute links. A link to a file that is not on the site becomes plain text."""
    return _LINK.sub(_link, readme)


def _link(found: re.Match[str]) -> str:
    path, _, anchor = found["path"].partition("#")
    inner = path.removeprefix("docs/")
    if inner == path:
        return found["text"].strip("[]")
    page = inner.removesuffix("README.md") if inner.endswith("README.md") else re.sub(r"\.md$", "/", inner)
    return f"{found['text']}({SITE}{page}{'#' + anchor if anchor else ''})"


class ReadmeHook(MetadataHookInterface):
    """The part of the build that sets the README."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = published((Path(self.root) / "README.md").read_text())
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
