"""`python -m tools.release.plugin`: the plugin `kubectl haulout` for Krew, from the operator's image.

    python -m tools.release.plugin [--images dist/images] [--output dist/krew] [--downloads https://haulout.dev/releases]

The archive has an interpreter with all that it is linked with, so that it needs nothing of the machine but Linux on amd64.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from haulout import __version__
from tools.images import layout
from tools.images.spec import INTERPRETER, LIBRARIES, LIBRARY, LOADER, OPERATOR, SITE
from tools.release.__main__ import ROOT, archive, git

Json = dict[str, Any]
DOWNLOADS = "https://haulout.dev/releases"
# The parts of the image that are in the archive. Krew unpacks no links: each of these is a file, or a folder of files.
PARTS = (INTERPRETER, LIBRARY, LIBRARIES, SITE, "usr/share/doc", "usr/share/common-licenses")
PROGRAM = "kubectl-haulout"
# The loader is started by its path, because that of the machine may be older or absent.
PYTHON = f"""\
#!/bin/sh
# The interpreter that came with the plugin, with its own libraries.
here=$(dirname "$(readlink -f "$0")")
export PYTHONHOME="$here/usr" PYTHONPATH="$here/{SITE}" PYTHONDONTWRITEBYTECODE=1 PYTHONSAFEPATH=1
exec "$here/{LOADER}" --library-path "$here/{LIBRARIES}" "$here/{INTERPRETER}" -s "$@"
"""
START = f"""\
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec "$here/python" "$here/start.py" "$here" {PROGRAM} "$@"
"""
# Processes that Haulout starts run by `python`, too.
MODULE = """\
import sys

sys.executable = sys.argv[1] + "/python"
sys.argv[:] = sys.argv[2:]

from haulout.app.main import main

sys.exit(main())
"""
DESCRIPTION = """\
Says what a node waits for until it is maintained, forecasts maintenances, drains nodes at the pace of their budgets, pauses
everything that disrupts nodes, and shows the history of each node. It works beside the maintenance operators that
run today, and needs no operator of its own to explain, plan and drain."""
CAVEATS = "Begin with `kubectl haulout status`, or try it without a cluster: `kubectl haulout demo`."


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.release.plugin", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--images", type=Path, default=ROOT / "dist/images", help="what `make images` has made")
    parser.add_argument("--output", type=Path, default=ROOT / "dist/krew", help="the directory to write")
    parser.add_argument(
        "--downloads", default=DOWNLOADS, help="where artifacts are published, in a folder for each version"
    )
    given = parser.parse_args(words)
    if not (given.images / "digests.txt").exists():
        print(f"plugin: {given.images} has no images: run `make images`", file=sys.stderr)
        return 1
    print("\n".join(write(given.images, given.output, given.downloads.rstrip("/"))))
    return 0


def write(images: Path, output: Path, downloads: str) -> list[str]:
    """Write the archive, the manifest for an index of Krew, and their checksums. Return their names."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    name = f"haulout-{__version__}-kubectl-linux-amd64.tar.gz"
    with tempfile.TemporaryDirectory(prefix="haulout-plugin-") as scratch:
        extract(images, Path(scratch))
        packed = archive(list(files(Path(scratch))), int(git("log", "-1", "--format=%ct")), PROGRAMS)
    (output / name).write_bytes(packed)
    digest = hashlib.sha256(packed).hexdigest()
    found = manifest(f"{downloads}/v{__version__}/{name}", digest)
    (output / "haulout.yaml").write_text(yaml.safe_dump(found, sort_keys=False, width=120))
    names = sorted(each.name for each in output.iterdir())
    sums = (f"{hashlib.sha256((output / each).read_bytes()).hexdigest()}  {each}\n" for each in names)
    (output / "SHA256SUMS").write_text("".join(sums))
    return [*names, "SHA256SUMS"]


def extract(images: Path, into: Path) -> None:
    """Write the files of the operator's image into a directory."""
    digests = (line.split() for line in (images / "digests.txt").read_text().splitlines())
    digest = next(found for found, name in digests if name == OPERATOR)
    for layer in json.loads(_blob(images, digest).read_bytes())["layers"]:
        layout.extract(_blob(images, layer["digest"]), into)


def _blob(images: Path, digest: str) -> Path:
    return images / "layout/blobs" / digest.replace(":", "/")


def files(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the archive. A library is there under the name by which others are linked with it."""
    yield PROGRAM, START.encode()
    yield "python", PYTHON.encode()
    yield "start.py", MODULE.encode()
    yield "LICENSE", (ROOT / "LICENSE").read_bytes()
    for part in PARTS:
        top = root / part
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and path.resolve().is_relative_to(root.resolve()):
                yield str(path.relative_to(root)), path.read_bytes()


PROGRAMS = frozenset({PROGRAM, "python", LOADER, INTERPRETER})


def manifest(uri: str, digest: str) -> Json:
    """Return the manifest of the plugin, as an index of Krew has it."""
    platform = {
        "selector": {"matchLabels": {"os": "linux", "arch": "amd64"}},
        "uri": uri,
        "sha256": digest,
        "bin": PROGRAM,
    }
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "haulout"},
        "spec": {
            "version": f"v{__version__}",
            "homepage": "https://haulout.dev/",
            "shortDescription": "Explain, plan and run the maintenance of nodes",
            "description": DESCRIPTION,
            "caveats": CAVEATS,
            "platforms": [platform],
        },
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
