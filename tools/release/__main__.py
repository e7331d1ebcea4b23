"""`make release`: builds every artifact of this version into dist/, from a clean tree, the same bytes each time.

    python -m tools.release [--output dist] [--registry registry.example.com/team] [--allow-dirty]

Manifests, charts and the bundle for OLM name the image REGISTRY/haulout:VERSION, so that they can be installed as they are.
It publishes nothing. docs/releasing.md says what to do with the result.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path

import yaml

from haulout import __version__
from tools.images.spec import REPOSITORY, reference
from tools.release.olm import bundle

ROOT = Path(__file__).parents[2]
HAULOUT = str(Path(sys.executable).parent / "haulout")
# A host, with a port or not, and folders: what comes before the name of an image.
REGISTRY = re.compile(r"[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
# What the Python package is built from.
SOURCES = ("src", "requirements", "deploy", "tools/pypi_readme.py", "*.md", "LICENSE", "pyproject.toml", ".gitignore")
# The charts, by the names of their folders in `deploy` and in their archives. The last two have the values of originals.
CHARTS = {"chart": "haulout", "skyhook-operator": "skyhook-operator", "nodewright": "nodewright"}


class Refused(Exception):
    """The reason why no release can be made of this tree."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.release", description="Build every artifact of this version."
    )
    parser.add_argument("--output", default="dist", help="the folder for the artifacts; it is emptied first")
    parser.add_argument("--registry", default="", help="where the images will be, such as registry.example.com/team")
    parser.add_argument("--allow-dirty", action="store_true", help="build a tree with changes that are not committed")
    given = parser.parse_args()
    try:
        if not given.allow_dirty:
            check_tree()
        names = release(Path(given.output).resolve(), given.registry)
    except (Refused, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print("\n".join(names))
    return 0


def check_tree() -> None:
    """Refuse a tree from which the same artifacts could not be built again."""
    if changes := git("status", "--porcelain"):
        raise Refused(f"the tree has changes that are not committed:\n{changes}")
    if f"\n## {__version__}" not in (ROOT / "CHANGELOG.md").read_text():
        raise Refused(f"CHANGELOG.md has no section `## {__version__}`")
    tag = git("tag", "--points-at", "HEAD", "v*").split()
    if tag and f"v{__version__}" not in tag:
        raise Refused(f"the tag of this commit is {', '.join(tag)}, and the version is {__version__}")


def release(output: Path, registry: str = "") -> list[str]:
    """Build all artifacts into a folder, with their checksums. Return their names. Raises Refused."""
    repository = repository_in(registry)
    if output.exists():
        shutil.rmtree(output)
    output.mkdir(parents=True)
    epoch = int(git("log", "-1", "--format=%ct"))
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    packages(output, epoch, created)
    for folder, name in CHARTS.items():
        (output / chart_file(name)).write_bytes(archive(chart_files(ROOT / "deploy" / folder, name, repository), epoch))
    image = reference("operator", repository, __version__)
    manifests(output, image)
    (output / f"haulout-{__version__}-olm-bundle.tgz").write_bytes(archive(_olm(created, image), epoch))
    monitoring = tracked_files(ROOT / "deploy" / "monitoring", "monitoring")
    (output / f"haulout-{__version__}-monitoring.tgz").write_bytes(archive(monitoring, epoch))
    shutil.copyfile(ROOT / "deploy/argocd/health.yaml", output / f"haulout-{__version__}-argocd-health.yaml")
    (output / "NOTES.md").write_text(notes((ROOT / "CHANGELOG.md").read_text(), __version__))
    names = sorted(each.name for each in output.iterdir())
    sums = (f"{hashlib.sha256((output / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    (output / "SHA256SUMS").write_text("".join(sums))
    return [*names, "SHA256SUMS"]


def repository_in(registry: str) -> str:
    """Return the repository of the images in a registry. Raises Refused where no image could be pulled from it."""
    if registry and not REGISTRY.fullmatch(registry):
        raise Refused(
            f"--registry {registry!r} is no registry: give HOST[:PORT][/FOLDER...] in small letters, without a scheme"
        )
    return f"{registry}/{REPOSITORY}" if registry else REPOSITORY


def packages(output: Path, epoch: int, created: str) -> None:
    """Build the wheel and the source distribution, which know of which commit they are."""
    commit = git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain") else "")
    with tempfile.TemporaryDirectory(prefix="haulout-release-") as scratch:
        tree = Path(scratch)
        for name in git("ls-files", "--", *SOURCES).splitlines():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
        module = tree / "src/haulout/__init__.py"
        module.write_text(marked(module.read_text(), commit, created))
        argv = (sys.executable, "-m", "hatchling", "build", "-d", str(output))
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
        subprocess.run(argv, cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL)


def marked(module: str, commit: str, created: str) -> str:
    """Return the module that names the version, with the commit and its instant."""
    for name, value in (("COMMIT", commit), ("BUILT", created)):
        module, found = re.subn(rf'^{name} = "unknown"$', f'{name} = "{value}"', module, flags=re.MULTILINE)
        assert found == 1, name
    return module


def chart_file(name: str) -> str:
    """Return the name of the archive of a chart."""
    own = "" if name == "haulout" else f"{name}-"
    return f"haulout-{__version__}-{own}chart.tgz"


def chart_files(folder: Path, name: str, repository: str) -> list[tuple[str, bytes]]:
    """Return the files of a chart whose image is in a repository."""
    files = dict(tracked_files(folder, name))
    values = files[f"{name}/values.yaml"].decode()
    ours = re.compile(rf"^(?P<key> +repository:) {REPOSITORY}$", re.MULTILINE)
    changed, found = ours.subn(rf"\g<key> {repository}", values)
    assert found == 1, folder
    return [*{**files, f"{name}/values.yaml": changed.encode()}.items()]


def manifests(output: Path, image: str) -> None:
    """Write the definitions, and everything that installs each set of surfaces that people ask for by name."""
    surfaces = ("profiles", "nodemaintenance", "notify", "clusterapi", "packages")
    (output / f"haulout-{__version__}-crds.yaml").write_text(_printed("crds"))
    (output / f"haulout-{__version__}-manifests.yaml").write_text(_printed("manifests", "--image", image, *surfaces))
    for each in surfaces:
        (output / f"haulout-{__version__}-{each}.yaml").write_text(_printed("manifests", "--image", image, each))


def notes(changes: str, version: str) -> str:
    """Return the section of the changes about a version."""
    found = re.search(rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", changes, re.DOTALL | re.MULTILINE)
    return f"# Haulout {version}\n\n{found[1].strip()}\n" if found else f"# Haulout {version}\n"


def archive(files: Iterable[tuple[str, bytes]], epoch: int, programs: Collection[str] = ()) -> bytes:
    """Return a compressed tar of files whose bytes depend on names, contents and the instant alone. `programs` can be run."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=epoch, filename="") as squeezed,
        tarfile.open(fileobj=squeezed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, content in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o755 if name in programs else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _olm(created: str, image: str) -> list[tuple[str, bytes]]:
    icon = base64.b64encode((ROOT / "web" / "src" / "icon.svg").read_bytes()).decode()
    objects = yaml.safe_load_all(_printed("manifests", "--image", image, "nodemaintenance"))
    return [(path, text.encode()) for path, text in bundle(objects, __version__, created, icon).items()]


def tracked_files(folder: Path, root: str) -> list[tuple[str, bytes]]:
    """Return the files of a folder that git tracks, named from `root`."""
    tracked = git("ls-files", "--", str(folder)).splitlines()
    return [(f"{root}/{(ROOT / each).relative_to(folder)}", (ROOT / each).read_bytes()) for each in tracked]


def _printed(*words: str) -> str:
    return subprocess.run((HAULOUT, *words), check=True, stdout=subprocess.PIPE, text=True).stdout


def git(*words: str) -> str:
    """Return what git prints about this repository."""
    return subprocess.run(("git", *words), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
