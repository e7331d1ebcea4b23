"""Copies the package's root_dir onto the host."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from haulout.agent.errors import AgentError, LeavesRoot, doing
from haulout.agent.files import create, entries, is_root, make_directory, remove, rename, temporary_name
from haulout.agent.hostroot import DIRECTORY, HostRoot, Place
from haulout.agent.sources import READ, is_below

FORBIDDEN = ("proc", "sys", "dev")
CHUNK = 1 << 20
LABEL = "security.selinux"


@dataclass(frozen=True, slots=True)
class Entry:
    """A directory or file of root_dir, links resolved. The descriptor is open while the entry is at hand."""

    path: str  # as it stands in root_dir: etc/demo/f
    fd: int
    mode: int

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)


def overlay(root: HostRoot, source: str, owner: str) -> None:
    """Copy a tree onto the root. Nothing is changed if any entry of the tree cannot be copied."""
    for _ in walk_source(root, source):
        pass
    for entry in walk_source(root, source):
        with doing(f"copy root_dir/{entry.path} to the host"):
            if entry.is_directory:
                make_host_directory(root, entry)
            else:
                copy_to_host(root, entry.path, entry.fd, stat.S_IMODE(entry.mode), owner)


def walk_source(root: HostRoot, source: str) -> Iterator[Entry]:
    """Yield the entries of root_dir, a directory before what is in it."""
    folder = root.locate(source)
    if not stat.S_ISDIR(folder.mode):
        raise AgentError("root_dir is not a directory")
    with root.directory(source) as here:
        for entry in entries(here):
            if entry.name in FORBIDDEN:
                raise AgentError(f"root_dir must not contain {entry.name}")
    yield from _walk(root, folder, folder.path, "", ())


def _walk(root: HostRoot, top: Place, source: str, path: str, above: tuple[str, ...]) -> Iterator[Entry]:
    """Yield what is in a directory. `above` are the real directories that lead to it: a link to one is a cycle."""
    with root.directory(source) as here:
        names = [entry.name for entry in entries(here)]
    for name in names:
        inner = f"{path}/{name}" if path else name
        place = _resolve(root, top, f"{source}/{name}", inner)
        if place.path in above or place.path == source:
            raise AgentError(f"root_dir/{inner} is a link to a directory that contains it")
        with doing(f"read root_dir/{inner}"), _opened(root, place) as fd:
            yield Entry(inner, fd, place.mode)
        if stat.S_ISDIR(place.mode):
            yield from _walk(root, top, place.path, inner, (*above, source))


def _resolve(root: HostRoot, top: Place, source: str, shown: str) -> Place:
    try:
        place = root.locate(source)
    except LeavesRoot:
        raise AgentError(f"root_dir/{shown} is a link that leaves root_dir") from None
    except OSError as error:
        raise AgentError(f"root_dir/{shown} cannot be resolved: {os.strerror(error.errno or 0)}") from None
    if not is_below(place, top) and place.path != top.path:
        raise AgentError(f"root_dir/{shown} is a link that leaves root_dir")
    if not place.mode:
        raise AgentError(f"root_dir/{shown} is a dangling link")
    if not stat.S_ISDIR(place.mode) and not stat.S_ISREG(place.mode):
        raise AgentError(f"root_dir/{shown} is neither a file nor a directory")
    return place


@contextlib.contextmanager
def _opened(root: HostRoot, place: Place) -> Iterator[int]:
    with root.directory("/".join(place.parts)) as parent:
        fd = os.open(place.rest[0] if place.rest else ".", READ, dir_fd=parent)
    try:
        yield fd
    finally:
        os.close(fd)


def is_on_host(root: HostRoot, entry: Entry) -> bool:
    """Whether copying an entry would change nothing."""
    try:
        with root.walk(entry.path) as (place, parent):
            if entry.is_directory or not place.rest or not stat.S_ISREG(place.mode):
                return entry.is_directory and not place.rest
            fd = os.open(place.rest[0], READ, dir_fd=parent)
    except OSError:
        return False
    try:
        return _is_same(fd, entry.fd, stat.S_IMODE(entry.mode))
    finally:
        os.close(fd)


def make_host_directory(root: HostRoot, entry: Entry) -> None:
    """Create a directory that is missing. One that exists keeps its mode, owner and times."""
    with root.walk(entry.path) as (place, parent):
        if not place.rest:
            return
        if place.mode:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if place.is_dangling:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        here = os.open(".", DIRECTORY, dir_fd=parent)
        try:
            os.close(make_directory(here, place.rest[0], stat.S_IMODE(entry.mode)))
        finally:
            os.close(here)


def copy_to_host(root: HostRoot, path: str, source: int, mode: int, owner: str) -> None:
    """Replace a file of the host. Links on the way are resolved as the host would, so that they stay what they are."""
    with root.walk(path) as (place, parent):
        if not place.rest:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if place.mode and not stat.S_ISREG(place.mode):
            # Replacing a device by a file would harm the host, writing to it perhaps more.
            raise AgentError(f"cannot copy root_dir/{path} to the host: {place.path} is not a regular file there")
        if len(place.rest) > 1:  # a dangling link into a directory that does not exist
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        here = os.open(".", DIRECTORY, dir_fd=parent)
        try:
            _replace(here, place.rest[0], source, mode, owner, exists=bool(place.mode))
        finally:
            os.close(here)


def _replace(directory: int, name: str, source: int, mode: int, owner: str, *, exists: bool) -> None:
    before = os.open(name, READ, dir_fd=directory) if exists else None
    try:
        if before is not None and _is_same(before, source, mode):
            return
        temporary = temporary_name(owner)
        fd = create(directory, temporary, 0o600)
        try:
            copy_content(source, fd)
            _dress(fd, before, mode)
            os.fsync(fd)
            _put(directory, temporary, name, source, mode)
        except OSError:
            with contextlib.suppress(OSError):
                remove(directory, temporary)
            raise
        finally:
            os.close(fd)
    finally:
        if before is not None:
            os.close(before)


def _put(directory: int, temporary: str, name: str, source: int, mode: int) -> None:
    """Give the new file its name, or write into the old one where that is a mount point."""
    try:
        rename(directory, temporary, name)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _write_in_place(directory, name, source, mode)
        remove(directory, temporary)


def _write_in_place(directory: int, name: str, source: int, mode: int) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        copy_content(source, fd)
        os.ftruncate(fd, os.fstat(source).st_size)
        os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_same(before: int, source: int, mode: int) -> bool:
    """Whether the host already has the file. Then it is left alone: its inode, and with it hard links, stay."""
    there, new = os.fstat(before), os.fstat(source)
    if stat.S_IMODE(there.st_mode) != mode or there.st_size != new.st_size:
        return False
    position = 0
    while chunk := os.pread(source, CHUNK, position):
        if os.pread(before, CHUNK, position) != chunk:
            return False
        position += len(chunk)
    return True


def copy_content(source: int, target: int) -> None:
    position, size = 0, os.fstat(source).st_size
    while position < size:
        sent = os.sendfile(target, source, position, min(size - position, CHUNK))
        if not sent:
            break
        position += sent


def _dress(fd: int, before: int | None, mode: int) -> None:
    """Give a new file the owner and security label of the old one, or root, and the mode of the package's file."""
    if is_root():
        owner = os.fstat(before) if before is not None else None
        os.fchown(fd, owner.st_uid if owner else 0, owner.st_gid if owner else 0)
    if before is not None:
        with contextlib.suppress(OSError):
            os.setxattr(fd, LABEL, os.getxattr(before, LABEL))
    os.fchmod(fd, mode)
