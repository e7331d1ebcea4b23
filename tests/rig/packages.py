"""The example packages as their images ship them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.rig.image import CHECKOUT, Image, busybox_image, tree

EXAMPLES = CHECKOUT / "examples/packages"


def ship_example(name: str, into: Path, version: str = "1.0.0") -> None:
    """Copy the files of an example that its container file ships, as this version of it."""
    for part in ("skyhook_dir", "root_dir"):
        source = EXAMPLES / name / part
        if source.is_dir():
            shutil.copytree(source, into / part)
    config = json.loads((EXAMPLES / name / "config.json").read_text())
    if config["package_version"] == version:
        shutil.copy(EXAMPLES / name / "config.json", into)
    else:
        (into / "config.json").write_text(json.dumps({**config, "package_version": version}))


def example_image(name: str, into: Path, version: str = "1.0.0") -> Image:
    """Return the image of an example. `into`: an empty directory for its files."""
    ship_example(name, into, version)
    return busybox_image({f"skyhook-package/{path}": source for path, source in tree(into).items()})
