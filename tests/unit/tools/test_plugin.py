"""The plugin for Krew: its archive needs nothing of the machine, and its manifest is one that Krew takes."""

from __future__ import annotations

import hashlib
import re
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from haulout import __version__
from tools.images.spec import INTERPRETER, LIBRARIES, LOADER, SITE
from tools.release.__main__ import archive
from tools.release.plugin import PROGRAMS, files, main, manifest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The files of an image, as small as it may be."""
    for name in (INTERPRETER, LOADER, f"{SITE}/haulout/__init__.py", "etc/passwd", f"{LIBRARIES}/libz.so.1.2"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / LIBRARIES / "libz.so.1").symlink_to("libz.so.1.2")
    (tmp_path / LIBRARIES / "libc.so").symlink_to("/etc/passwd")
    return tmp_path


def test_the_archive_has_files_alone_because_krew_unpacks_no_links(root: Path) -> None:
    with tarfile.open(fileobj=BytesIO(archive(list(files(root)), 7, PROGRAMS))) as packed:
        entries = {each.name: each for each in packed}
        assert all(each.isfile() for each in entries.values())
        linked = packed.extractfile(f"{LIBRARIES}/libz.so.1")
        assert linked is not None
        assert linked.read() == f"{LIBRARIES}/libz.so.1.2".encode()
    assert {name for name, each in entries.items() if each.mode & 0o100} == PROGRAMS
    assert entries.keys() & {"etc/passwd", f"{LIBRARIES}/libc.so"} == set()


def test_the_manifest_is_one_of_krew() -> None:
    digest = hashlib.sha256(b"archive").hexdigest()
    found = manifest("https://example.com/plugin.tar.gz", digest)
    assert (found["apiVersion"], found["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert re.fullmatch(r"[a-z][\w-]*", found["metadata"]["name"])
    spec = found["spec"]
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert 0 < len(spec["shortDescription"]) <= 50
    assert spec["shortDescription"][-1] != "."
    (platform,) = spec["platforms"]
    assert (platform["uri"], platform["sha256"]) == ("https://example.com/plugin.tar.gz", digest)
    assert (platform["bin"], platform["selector"]["matchLabels"]) == (
        f"kubectl-{found['metadata']['name']}",
        {"os": "linux", "arch": "amd64"},
    )
    assert spec["version"] == f"v{__version__}"


def test_without_images_it_says_how_to_make_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--images", str(tmp_path), "--output", str(tmp_path / "krew")]) == 1
    assert capsys.readouterr().err == f"plugin: {tmp_path} has no images: run `make images`\n"
    assert not (tmp_path / "krew").exists()
