"""`python -m tools.images`: builds container images as an OCI layout, without a container engine.

Without names it builds the operator's image, the console's and the agent's. Any other name is that of a program whose
place Haulout takes (`haulout as --names`): its image is the operator's, with that program as /manager.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from haulout import __version__
from tools.images import bill, debian, layout, provenance
from tools.images.spec import AGENT, CONSOLE, OPERATOR, REFERENCES, REPOSITORY, image, reference
from tools.images.trees import ROOT, Source, Trees

DEFAULT = (OPERATOR, CONSOLE, AGENT)


def cache_root() -> Path:
    """Return the directory in which downloads are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "haulout" / "images"


def source_of(lock: debian.Lock, cache: Path) -> Source:
    """Return what images of this checkout are made of. COMMIT and SOURCE_DATE_EPOCH say what git does not know."""
    commit = os.environ.get("COMMIT") or git("rev-parse", "HEAD")
    if not os.environ.get("COMMIT") and git("status", "--porcelain"):
        commit += "-dirty"
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct")
    return Source(lock, cache, commit or "unknown", int(epoch or lock.epoch))


def git(*words: str) -> str:
    """Return what git prints, or nothing where there is no repository."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def names_of_packages() -> set[str]:
    return {name for each in DEFAULT for name in image(each).packages}


def build(names: list[str], output: Path, source: Source, repository: str = REPOSITORY) -> list[layout.Built]:
    """Build images into a layout, and beside it what they are made of, where they come from and where they will be."""
    if output.exists() and any(output.iterdir()) and not (output / "layout" / "oci-layout").exists():
        raise SystemExit(f"images: {output} holds something else than images: give --output an empty directory")
    shutil.rmtree(output, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="haulout-images-") as scratch:
        trees = Trees(source, Path(scratch))
        for name in names:
            trees.begin(image(name))
        made = layout.Layout(output / "layout")
        built = [made.add(image(name), trees.layers(image(name)), source) for name in names]
        for each in built:
            bill.write(output, each, trees)
            provenance.write(output, each, trees)
    (output / "digests.txt").write_text("".join(f"{each.digest}  {each.image.name}\n" for each in built))
    places = (f"{each.image.name} {reference(each.image.name, repository, __version__)}\n" for each in built)
    (output / REFERENCES).write_text("".join(places))
    files = sorted(path for path in output.iterdir() if path.suffix in {".txt", ".json"})
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (output / "SHA256SUMS").write_text("".join(sums))
    return built


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.images", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(DEFAULT), help="operator, console, agent or a program's name")
    parser.add_argument("--output", type=Path, default=ROOT / "dist/images", help="the directory to write")
    parser.add_argument(
        "--repository", default=REPOSITORY, help="where the images will be, such as registry.example.com/haulout"
    )
    parser.add_argument("--root", type=Path, help="write the files of one image into this directory instead")
    parser.add_argument("--archive", metavar="TAG", help="write NAME.tar, too, for `ctr images import` under this tag")
    parser.add_argument("--newest", action="store_true", help="take the newest Debian packages that apt offers")
    parser.add_argument("--lock", action="store_true", help="pin the newest Debian packages that apt offers, and end")
    parser.add_argument("--cache", type=Path, default=cache_root(), help="where downloads are kept")
    given = parser.parse_args(words)
    if (given.root or given.archive) and len(given.names) != 1:
        parser.error("--root and --archive are for one image: name it")
    if given.lock:
        debian.LOCK.write_text(debian.newest(names_of_packages()).text())
        print(f"wrote {debian.LOCK}")
        return 0
    lock = debian.newest(names_of_packages()) if given.newest else debian.read()
    source = source_of(lock, given.cache)
    try:
        if given.root:
            write_root(given.names[0], given.root, source)
        else:
            print(table(build(given.names, given.output, source, given.repository)))
            for name in given.names if given.archive else ():
                layout.archive(given.output / "layout", name, given.archive, given.output / f"{name}.tar")
    except debian.Unavailable as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    return 0


def write_root(name: str, into: Path, source: Source) -> None:
    with tempfile.TemporaryDirectory(prefix="haulout-images-") as scratch:
        for layer in Trees(source, Path(scratch)).layers(image(name)):
            layout.extract(layer.path, into)


def table(built: list[layout.Built]) -> str:
    lines = [f"{'image':<42} {'compressed':>12} {'unpacked':>12}  digest"]
    lines += [
        f"{each.image.name:<42} {each.size / 1e6:>9.1f} MB {each.unpacked / 1e6:>9.1f} MB  {each.digest}"
        for each in built
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
