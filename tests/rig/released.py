"""Another version of Haulout as an installed wheel: the last release, built from its tag."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
import yaml

from tests.rig.api import Json
from tests.rig.operator import environment
from tests.rig.process import CHECKOUT

# What is compared with while there is no release: formats were complete then. Without that commit, as in a shallow
# clone, the oldest of the last ones is taken.
BEFORE_THE_FIRST = "79a0dc49"
MOST = "50"


class Released:
    """A wheel that is unpacked beside the packages that it needs.

    `version`: the tag or commit that it was built from. `argv`: what starts it. `variables`: of its environment.
    """

    def __init__(self, folder: Path) -> None:
        self.version = last_release()
        if not self.version:
            pytest.skip("there is no git history here to build the last release from")
        source, target = folder / "source", folder / "installed"
        packed = subprocess.run(("git", "archive", self.version), cwd=CHECKOUT, capture_output=True, check=True)
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
            archive.extractall(source)
        build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
        subprocess.run(build, cwd=source, check=True, capture_output=True)
        (wheel,) = folder.glob("*.whl")
        install = (
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--no-index",
            "--target",
            str(target),
            str(wheel),
        )
        subprocess.run(install, check=True, capture_output=True)
        self.argv = [sys.executable, "-c", "import sys; from haulout.app.main import main; sys.exit(main())"]
        self.variables = environment(PYTHONPATH=str(target))

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [*self.argv, *words], env=self.variables, capture_output=True, text=True, check=True, timeout=120
        )
        return done.stdout

    def printed(self, *words: str) -> list[Json]:
        """Return the documents that a command of this version prints."""
        return [each for each in yaml.safe_load_all(self.run(*words)) if each]


def last_release() -> str:
    """Return the tag of the last release, or HAULOUT_BEFORE; before the first release, a commit."""
    if chosen := os.environ.get("HAULOUT_BEFORE"):
        return chosen
    here = _git("tag", "--points-at", "HEAD").split()
    tags = [each for each in _git("tag", "--list", "v*", "--sort=-version:refname").split() if each not in here]
    if tags:
        return tags[0]
    if _git("cat-file", "-t", BEFORE_THE_FIRST) == "commit":
        return BEFORE_THE_FIRST
    return next(iter(reversed(_git("rev-list", f"--max-count={MOST}", "HEAD").split())), "")


def _git(*words: str) -> str:
    return subprocess.run(("git", *words), cwd=CHECKOUT, capture_output=True, text=True, check=False).stdout.strip()
