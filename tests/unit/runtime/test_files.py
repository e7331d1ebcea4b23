"""Files that are followed: read once, and then whenever the content differs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from haulout.runtime.files import WatchedFile


class Told(list[bytes | str]):
    def __call__(self, content: bytes | OSError) -> None:
        self.append(type(content).__name__ if isinstance(content, OSError) else content)


@pytest.fixture
def told() -> Told:
    return Told()


def watched(path: Path, told: Told) -> WatchedFile:
    file = WatchedFile(path, told)
    file.look()
    return file


def test_the_content_is_told_at_first_and_then_when_it_differs(tmp_path: Path, told: Told) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"one")
    file = watched(path, told)
    file.look()
    path.write_bytes(b"three")
    file.look()
    file.look()
    assert told == [b"one", b"three"]


def test_a_file_that_was_only_touched_is_not_told(tmp_path: Path, told: Told) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"one")
    file = watched(path, told)
    os.utime(path, ns=(1, 1))
    file.look()
    assert told == [b"one"]


def test_a_file_that_is_not_there_is_told_once_with_the_reason(tmp_path: Path, told: Told) -> None:
    path = tmp_path / "config.yaml"
    file = watched(path, told)
    file.look()
    path.write_bytes(b"one")
    file.look()
    path.unlink()
    file.look()
    assert told == ["FileNotFoundError", b"one", "FileNotFoundError"]


def test_a_directory_in_its_place_is_told_like_any_failure(tmp_path: Path, told: Told) -> None:
    watched(tmp_path, told)
    assert told == ["IsADirectoryError"]


def test_the_same_content_after_a_failure_is_told_again(tmp_path: Path, told: Told) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"one")
    file = watched(path, told)
    path.unlink()
    file.look()
    path.write_bytes(b"one")
    file.look()
    assert told == [b"one", "FileNotFoundError", b"one"]


def test_links_that_are_exchanged_as_a_whole_are_followed(tmp_path: Path, told: Told) -> None:
    """As a kubelet does with the volumes of ConfigMaps: the file's own name never changes."""
    for number in (1, 2):
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "config.yaml").write_text(f"{number}")
        os.utime(tmp_path / f"..{number}" / "config.yaml", ns=(1, 1))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    file = watched(tmp_path / "config.yaml", told)
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    file.look()
    assert told == [b"1", b"2"]


def test_what_its_times_do_not_show_is_seen_by_looking_closely(tmp_path: Path, told: Told) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"one")
    os.utime(path, ns=(1, 1))
    file = watched(path, told)
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    file.look()
    assert told == [b"one"]
    file.look(closely=True)
    assert told == [b"one", b"two"]
