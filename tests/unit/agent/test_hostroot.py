"""Paths below the host root, resolved by openat2 and by hand: both must lead to the same places, and never outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from haulout.agent.errors import LeavesRoot
from haulout.agent.hostroot import HostRoot
from haulout.agent.openat2 import find_openat2

UP = "../" * 30


@pytest.fixture(params=["openat2", "walk"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> HostRoot:
    folder = tmp_path / "root"
    (folder / "real/deep").mkdir(parents=True)
    (folder / "file").touch()
    for name, target in {
        "relative": "real",
        "absolute": "/real/deep",
        "up": "real/deep/../..",
        "climbing": f"{UP}etc",
        "climbing-through": f"real/{UP}etc",
        "dangling": "nothing/there",
        "loop": "loop",
        "to-file": "file",
        "outside": str(tmp_path),
    }.items():
        (folder / name).symlink_to(target)
    return HostRoot(str(folder), has_openat2=request.param == "openat2")


def test_this_machine_has_openat2() -> None:
    assert find_openat2() is not None


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("/", "."),
        ("/real", "real"),
        ("real//./deep/", "real/deep"),
        ("/relative/deep", "real/deep"),
        ("/absolute", "real/deep"),
        ("/up/relative", "real"),
        ("/absolute/../../real", "real"),
    ],
)
def test_links_lead_where_the_host_would_go(root: HostRoot, path: str, real: str) -> None:
    with root.directory(path) as fd:
        assert os.fstat(fd).st_ino == (Path(root.path) / real).stat().st_ino


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/climbing", LeavesRoot),
        ("/climbing-through", LeavesRoot),
        ("/real/../..", LeavesRoot),
        ("/dangling", FileNotFoundError),
        ("/outside", FileNotFoundError),
        ("/nothing", FileNotFoundError),
        ("/file", NotADirectoryError),
        ("/to-file/x", NotADirectoryError),
        ("/loop", OSError),
    ],
)
def test_what_leads_nowhere_or_outside_is_refused(root: HostRoot, path: str, error: type[OSError]) -> None:
    with pytest.raises(error):
        os.close(root.open_directory(path))


def test_a_machine_without_openat2_walks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Python without ctypes stands for a kernel without the call."""
    import sys

    monkeypatch.setitem(sys.modules, "ctypes", None)
    assert find_openat2() is None
    (tmp_path / "a").mkdir()
    with HostRoot(str(tmp_path)).directory("/a") as fd:
        assert os.fstat(fd).st_ino == (tmp_path / "a").stat().st_ino


def test_no_descriptor_is_left_open(root: HostRoot) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("/absolute", "/climbing", "/dangling", "/to-file"):
        for _ in range(3):
            try:
                os.close(root.open_directory(path))
            except OSError:
                root.locate("/file")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
