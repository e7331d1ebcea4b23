"""Builds the documentation as a site: this version at the top and under its number, and the list for the version switcher.

    python -m tools.site MKDOCS

Folders of other versions that are in site/ already stay, and are listed. `MKDOCS` is the program of that name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from haulout import __version__

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"
_VERSION = re.compile(r"\d+\.\d+\.\d+")
# MkDocs says what it does line by line; mkdocs-material announces another program.
QUIET = {"NO_MKDOCS_2_WARNING": "1"}


def main(words: list[str]) -> int:
    if len(words) != 1:
        print("usage: python -m tools.site MKDOCS", file=sys.stderr)
        return 2
    target = SITE / __version__
    argv = (words[0], "build", "--strict", "--quiet", "--site-dir", str(target))
    if code := subprocess.run(argv, cwd=ROOT, check=False, env={**os.environ, **QUIET}).returncode:
        return code
    shutil.copytree(target, SITE, dirs_exist_ok=True)
    (SITE / "versions.json").write_text(json.dumps(versions(SITE), indent=2) + "\n")
    print(SITE / "index.html")
    return 0


def versions(site: Path) -> list[dict[str, object]]:
    """Return the versions that a site has, the newest first, as the switcher of the theme reads them."""
    names = [path.name for path in site.iterdir() if path.is_dir() and _VERSION.fullmatch(path.name)]
    newest_first = sorted(names, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    return [
        {"version": name, "title": name, "aliases": ["latest"] if not i else []} for i, name in enumerate(newest_first)
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
