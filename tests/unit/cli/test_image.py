"""The recipe of the image: what it copies is there, and what charts start by name is known by that name."""

from __future__ import annotations

import re
from pathlib import Path

from haulout.cli.drop_in import DROP_INS

ROOT = Path(__file__).parents[3]
RECIPE = (ROOT / "deploy" / "Dockerfile").read_text()


def test_everything_that_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sources = [match[1] for match in re.finditer(r"^COPY (?!--from)(\S+) ", RECIPE, re.MULTILINE)]
    assert len(sources) == 3
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored


def test_links_of_the_root_are_originals() -> None:
    names = re.findall(r"/opt/haulout/bin/haulout /([a-z-]+)(?= |$)", RECIPE, re.MULTILINE)
    assert names == ["maintenance-controller", "runtime-extension-maintenance-controller"]
    assert set(names) <= set(DROP_INS)
