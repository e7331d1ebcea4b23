"""The host's root directory: paths below it are resolved as the host would resolve them, and never leave it.

See decision 0159.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from haulout.agent.errors import LeavesRoot, NotTrusted
from haulout.agent.openat2 import Open, find_openat2

MOST_LINKS = 40
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Trust(Enum):
    """The rules for directories and symbolic links that a path leads through.

    ANYONE: all. ROOT_LINKS: the links of root alone. ROOT: the directories and links of root alone, and no directory
    that all users may write to, unless it is sticky as /tmp is.
    """

    ANYONE = "anyone"
    ROOT_LINKS = "root-links"
    ROOT = "root"


@dataclass(frozen=True, slots=True)
class Place:
    """The place to which a path leads once its links are resolved.

    parts: the names from the root to the last directory that exists.
    rest: the names after that; none if the path leads to a directory, else the file's name and any missing names.
    mode: the mode of the file or directory, 0 if it does not exist.
    is_dangling: the path has a symbolic link to something that does not exist.
    """

    parts: tuple[str, ...]
    rest: tuple[str, ...]
    mode: int
    is_dangling: bool

    @property
    def path(self) -> str:
        return "/" + "/".join((*self.parts, *self.rest))


class HostRoot:
    """An open root directory. Every descriptor that it hands out belongs to the caller."""

    def __init__(self, path: str, *, has_openat2: bool = True) -> None:
        self.path = path
        self.fd = os.open(path, DIRECTORY)
        self._openat2: Open | None = find_openat2() if has_openat2 else None

    @contextlib.contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """Open a directory, for as long as the block lasts."""
        opened = self.open_directory(path)
        try:
            yield opened
        finally:
            os.close(opened)

    def open_directory(self, path: str) -> int:
        if self._openat2 is not None:
            # openat2 fails for absolute links, which the walk below can follow. The walk also gives better errors.
            with contextlib.suppress(OSError):
                return self._openat2(self.fd, path.strip("/") or ".", DIRECTORY)
        with self.walk(path) as (place, parent):
            if place.rest:
                code = errno.ENOTDIR if place.mode else errno.ENOENT
                raise OSError(code, os.strerror(code))
            return os.open(".", DIRECTORY, dir_fd=parent)

    def locate(self, path: str) -> Place:
        with self.walk(path) as (place, _):
            return place

    @contextlib.contextmanager
    def walk(self, path: str, trust: Trust = Trust.ANYONE) -> Iterator[tuple[Place, int]]:
        """Resolve a path name by name. Yield its place, and a descriptor (O_PATH) of the last directory that exists.

        Raises NotTrusted if the path leads through a directory or link that `trust` excludes.
        """
        with contextlib.ExitStack() as opened:
            walker = _Walker(self.fd, opened, trust)
            place = walker.walk(path)
            yield place, walker.here


class _Walker:
    """A resolver of one path. It opens name by name, each relative to the last directory, without following links.

    For ".." it goes back to the directory that it opened before. So a rename in the meantime cannot lead elsewhere.
    """

    def __init__(self, root: int, opened: contextlib.ExitStack, trust: Trust) -> None:
        self._root = root
        self._opened = opened
        self._trust = trust
        self._passed: list[tuple[str, int]] = []
        self._links = 0
        self._ends: list[int] = []  # for each link that is being followed: how many names of the path come after it

    @property
    def here(self) -> int:
        return self._passed[-1][1] if self._passed else self._root

    def walk(self, path: str) -> Place:
        todo = path.split("/")[::-1]
        while todo:
            name = todo.pop()
            while self._ends and len(todo) < self._ends[-1]:
                self._ends.pop()
            if name == "..":
                self._up()
            elif name not in ("", "."):
                place = self._enter(name, todo)
                if place is not None:
                    return place
        return self._place((), os.fstat(self.here).st_mode)

    def _up(self) -> None:
        if not self._passed:
            raise LeavesRoot(errno.EXDEV, "leaves the root")
        self._passed.pop()

    def _enter(self, name: str, todo: list[str]) -> Place | None:
        rest = tuple(part for part in todo[::-1] if part not in ("", "."))
        try:
            found = os.open(name, LOOK, dir_fd=self.here)
        except FileNotFoundError:
            return self._place((name, *rest), 0)
        self._opened.callback(os.close, found)
        status = os.fstat(found)
        mode = status.st_mode
        self._check(name, status)
        if stat.S_ISLNK(mode):
            self._follow(os.readlink("", dir_fd=found), todo)
        elif stat.S_ISDIR(mode):
            self._passed.append((name, found))
        elif rest:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        else:
            return self._place((name,), mode)
        return None

    def _check(self, name: str, status: os.stat_result) -> None:
        """Raise NotTrusted for a link or directory by which another user could lead the path elsewhere.

        Without root's rights the agent's own user takes the place of root.
        """
        is_link, is_directory = stat.S_ISLNK(status.st_mode), stat.S_ISDIR(status.st_mode)
        if self._trust is Trust.ANYONE or not (is_link or (is_directory and self._trust is Trust.ROOT)):
            return
        path = "/" + "/".join((*(passed for passed, _ in self._passed), name))
        kind = "link" if is_link else "directory"
        if status.st_uid not in (0, os.geteuid()):
            raise NotTrusted(f"the {kind} {path} belongs to user {status.st_uid}, not to root")
        if is_directory and status.st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
            raise NotTrusted(f"every user may write to the {kind} {path}")

    def _follow(self, target: str, todo: list[str]) -> None:
        self._links += 1
        if self._links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.startswith("/"):
            self._passed.clear()
        self._ends.append(len(todo))
        todo.extend(target.split("/")[::-1])

    def _place(self, rest: tuple[str, ...], mode: int) -> Place:
        parts = tuple(name for name, _ in self._passed)
        return Place(parts, rest, mode, is_dangling=not mode and bool(self._ends))
