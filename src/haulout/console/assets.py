"""The files of the page: one page for every view, and assets whose names contain a hash of their content."""

from __future__ import annotations

import mimetypes
from functools import cache
from importlib import resources

import msgspec

INDEX = "index.html"
# Names with a hash never change their content. The page itself names them, so a browser asks for it each time.
FOR_EVER, EACH_TIME = "public, max-age=31536000, immutable", "no-cache"
VIEWS = ("", "blocked", "fleet", "nodes", "maintenances", "budgets", "timeline", "rollouts", "what-if", "login")
TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".json": "application/json",
}


class Asset(msgspec.Struct, frozen=True):
    """A file of the page, as it is sent."""

    body: bytes
    content_type: str
    cache: str


def asset_of(path: str) -> Asset | None:
    """Return the file for the path of a request: the page for each view, else the file itself; None: there is none."""
    found = _files()
    name = path.strip("/")
    if name in found:
        return found[name]
    return found.get(INDEX) if name.partition("/")[0] in VIEWS else None


@cache
def _files() -> dict[str, Asset]:
    root = resources.files("haulout") / "console" / "static"
    found = {}
    folders = [("", root)]
    while folders:
        prefix, folder = folders.pop()
        for each in folder.iterdir():
            name = f"{prefix}{each.name}"
            if each.is_dir():
                folders.append((f"{name}/", each))
            elif not each.name.startswith("."):
                found[name] = _asset(name, each.read_bytes())
    return found


def _asset(name: str, body: bytes) -> Asset:
    ending = f".{name.rpartition('.')[2]}"
    kind = TYPES.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Asset(body, kind, FOR_EVER if name.startswith("assets/") else EACH_TIME)
