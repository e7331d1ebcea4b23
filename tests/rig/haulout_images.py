"""Haulout's own images, built by the project's program for a test run."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.rig.image import Image
from tools.images import debian, layout
from tools.images.__main__ import build, cache_root, names_of_packages, source_of
from tools.images.trees import Source

DROP_IN = "node-maintenance-operator"
NAMES = ("operator", "console", "agent", DROP_IN)


class HauloutImages:
    """The images in a directory, as `python -m tools.images` leaves them."""

    def __init__(self, directory: Path, names: Sequence[str] = NAMES) -> None:
        self.directory = directory
        self.layout = directory / "layout"
        self.lock = usable_lock()
        self.built = {each.image.name: each for each in build(list(names), directory, self.source())}

    def source(self) -> Source:
        return source_of(self.lock, cache_root())

    def archive(self, name: str, tag: str) -> Path:
        """Write an image into a file for `ctr images import`."""
        into = self.directory / f"{name}.tar"
        layout.archive(self.layout, name, tag, into)
        return into

    def manifest(self, name: str) -> Any:
        return self.blob(self.built[name].digest)

    def config(self, name: str) -> Any:
        return self.blob(self.manifest(name)["config"]["digest"])

    def blob(self, digest: str) -> Any:
        return json.loads(self._blob(digest))

    def _blob(self, digest: str) -> bytes:
        return (self.layout / "blobs" / digest.replace(":", "/")).read_bytes()

    def pulled(self, name: str) -> Image:
        """Return an image as the rig's registry offers images."""
        manifest = self.manifest(name)
        layers = tuple(gzip.decompress(self._blob(part["digest"])) for part in manifest["layers"])
        return Image(self._blob(manifest["config"]["digest"]), layers)

    def extract(self, name: str, into: Path) -> Path:
        """Write the files of an image into a directory, as a container would see them."""
        for part in self.manifest(name)["layers"]:
            layout.extract(self.layout / "blobs" / part["digest"].replace(":", "/"), into)
        into.chmod(0o755)
        return into


def usable_lock() -> debian.Lock:
    """Return the pinned packages, or the newest where no mirror within reach has a pinned one any more."""
    lock = debian.read()
    try:
        for package in lock.packages:
            debian.download(package, lock.snapshot, cache_root() / "debian")
    except debian.Unavailable:
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        return debian.newest(names_of_packages())
    return lock


def main(words: list[str]) -> None:
    """Build images in a process of their own: `--output DIRECTORY NAME...`."""
    HauloutImages(Path(words[1]), words[2:])


if __name__ == "__main__":
    main(sys.argv[1:])
