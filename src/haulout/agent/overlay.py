"""Copies the package's root_dir onto the host."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from haulout.agent.errors import AgentError, LeavesRoot, NotTrusted, doing
from haulout.agent.files import create, entries, is_root, make_directory, open_regular, remove, rename, temporary_name
from haulout.agent.hostroot import DIRECTORY, HostRoot, Place, Trust
from haulout.agent.sources import READ, is_below
from haulout.agent.syncfs import sync_files

FORBIDDEN = ("proc", "sys", "dev")
CHUNK = 1 << 20
LABEL = "security.selinux"


@dataclass(frozen=True, slots=True)
class Entry:
    """A directory or file of root_dir, with links resolved. Its descriptor is closed when the next entry is yielded."""

    path: str  # relative to root_dir, links not resolved: etc/demo/f
    fd: int
    mode: int

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)


def overlay(root: HostRoot, source: str, owner: str, trust: Trust) -> None:
    """Copy a tree onto the root. Nothing is changed if any entry cannot be read, or would go to a place without trust."""
    for entry in walk_source(root, source):
        check_target(root, entry.path, trust)
    with Batch(owner) as batch:
        for entry in walk_source(root, source):
            with doing(f"copy root_dir/{entry.path} to the host"):
                if entry.is_directory:
                    make_host_directory(root, entry, trust)
                else:
                    copy_to_host(root, entry.path, entry.fd, stat.S_IMODE(entry.mode), batch, trust)
        with doing("copy root_dir to the host"):
            batch.finish()


def check_target(root: HostRoot, path: str, trust: Trust) -> None:
    """Raise an AgentError if a user other than root could lead a file of root_dir to another place of the host."""
    with contextlib.suppress(OSError):  # the copy itself names any other problem
        try:
            with root.walk(path, trust):
                pass
        except NotTrusted as error:
            hint = "(SKYHOOK_AGENT_OVERLAY_OWNERS=any copies it nevertheless)"
            raise AgentError(f"cannot copy root_dir/{path} to the host: {error.text} {hint}") from None


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
    """Yield the entries of a directory, recursively.

    `above` are the real directories that contain it. A link to one of them would be a cycle, and is an error.
    """
    with root.directory(source) as here:
        for found in entries(here):
            inner = f"{path}/{found.name}" if path else found.name
            if found.is_symlink():
                place = _resolve(root, top, f"{source}/{found.name}", inner)
                if place.path in above or place.path == source:
                    raise AgentError(f"root_dir/{inner} is a link to a directory that contains it")
                real, mode = place.path, place.mode
            else:
                real, mode = f"{source}/{found.name}", found.stat(follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                raise AgentError(f"root_dir/{inner} is neither a file nor a directory")
            with doing(f"read root_dir/{inner}"), _opened(root, real, here if not found.is_symlink() else None) as fd:
                yield Entry(inner, fd, mode)
            if stat.S_ISDIR(mode):
                yield from _walk(root, top, real, inner, (*above, source))


def _resolve(root: HostRoot, top: Place, source: str, name: str) -> Place:
    try:
        place = root.locate(source)
    except LeavesRoot:
        raise AgentError(f"root_dir/{name} is a link that leaves root_dir") from None
    except OSError as error:
        raise AgentError(f"root_dir/{name} cannot be resolved: {os.strerror(error.errno or 0)}") from None
    if not is_below(place, top) and place.path != top.path:
        raise AgentError(f"root_dir/{name} is a link that leaves root_dir")
    if not place.mode:
        raise AgentError(f"root_dir/{name} is a dangling link")
    return place


@contextlib.contextmanager
def _opened(root: HostRoot, real: str, parent: int | None) -> Iterator[int]:
    """Open a file or directory by its real path. `parent` is its directory if that is open already."""
    folder, _, name = real.rpartition("/")
    if parent is not None:
        fd = os.open(name, READ, dir_fd=parent)
    else:
        with root.directory(folder) as found:
            fd = os.open(name or ".", READ, dir_fd=found)
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


def make_host_directory(root: HostRoot, entry: Entry, trust: Trust) -> None:
    """Create a directory on the host if it is missing. An existing one keeps its mode, owner and times."""
    with root.walk(entry.path, trust) as (place, parent):
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


def copy_to_host(root: HostRoot, path: str, source: int, mode: int, batch: Batch, trust: Trust) -> None:
    """Copy a file to the host, as part of a batch. Links in its path are followed as the host would, not replaced."""
    with root.walk(path, trust) as (place, parent):
        if not place.rest:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if place.mode and not stat.S_ISREG(place.mode):
            # Replacing a device by a file would harm the host. Writing into the device could harm it more.
            raise AgentError(f"cannot copy root_dir/{path} to the host: {place.path} is not a regular file there")
        if len(place.rest) > 1:  # a dangling link into a directory that does not exist
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        batch.sweep(place.parts, parent)
        before = os.open(place.rest[0], READ, dir_fd=parent) if place.mode else None
        try:
            if before is None or not _is_same(before, source, mode):
                batch.add(parent, place.rest[0], source, before, mode)
        finally:
            if before is not None:
                os.close(before)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A complete file that still has its temporary name."""

    directory: int
    temporary: str
    name: str
    fd: int
    mode: int


class Batch:
    """A group of files that are written under temporary names, then synced to the disk together, then renamed.

    Waiting for the disk once a batch, and not once a file, makes large packages many times faster.
    """

    MOST_FILES = 128
    MOST_BYTES = 32 << 20

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._waiting: list[Waiting] = []
        self._bytes = 0
        self._swept: set[tuple[str, ...]] = set()

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the files that have not been renamed."""
        for one in self._waiting:
            with contextlib.suppress(OSError):
                remove(one.directory, one.temporary)
            os.close(one.fd)
            os.close(one.directory)
        self._waiting.clear()

    def sweep(self, parts: tuple[str, ...], directory: int) -> None:
        """Remove the temporary files that a killed run has left in a directory. Each directory is swept once."""
        if parts in self._swept:
            return
        self._swept.add(parts)
        here = os.open(".", DIRECTORY, dir_fd=directory)
        try:
            for entry in entries(here):
                if entry.name.startswith(temporary_name(self._owner)):
                    remove(here, entry.name)
        finally:
            os.close(here)

    def add(self, parent: int, name: str, source: int, before: int | None, mode: int) -> None:
        directory = os.open(".", DIRECTORY, dir_fd=parent)
        temporary = f"{temporary_name(self._owner)}{len(self._waiting)}"
        try:
            fd = create(directory, temporary, 0o600)
        except OSError:
            os.close(directory)
            raise
        self._waiting.append(Waiting(directory, temporary, name, fd, mode))
        copy_content(source, fd)
        _dress(fd, before, mode)
        self._bytes += os.fstat(fd).st_size
        if len(self._waiting) >= self.MOST_FILES or self._bytes >= self.MOST_BYTES:
            self.finish()

    def finish(self) -> None:
        """Sync all files to the disk, then rename them. So no file has its final name before its content is safe."""
        sync_files(one.fd for one in self._waiting)
        while self._waiting:
            one = self._waiting[0]
            _put(one)
            os.close(one.fd)
            os.close(one.directory)
            del self._waiting[0]
        self._bytes = 0


def _put(one: Waiting) -> None:
    """Rename a new file to its final name. If the old file is a mount point, write the content into it instead."""
    try:
        rename(one.directory, one.temporary, one.name)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        source = os.open(one.temporary, READ, dir_fd=one.directory)
        try:
            _write_in_place(one.directory, one.name, source, one.mode)
        finally:
            os.close(source)
        remove(one.directory, one.temporary)


def _write_in_place(directory: int, name: str, source: int, mode: int) -> None:
    fd = open_regular(name, os.O_WRONLY, directory)
    try:
        copy_content(source, fd)
        os.ftruncate(fd, os.fstat(source).st_size)
        os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_same(before: int, source: int, mode: int) -> bool:
    """Whether the host already has the same content and mode. Such a file is not replaced, which keeps hard links."""
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
    """Set the attributes of a new file: owner and SELinux label of the old file (else root), mode of the package's."""
    if is_root():
        owner = os.fstat(before) if before is not None else None
        os.fchown(fd, owner.st_uid if owner else 0, owner.st_gid if owner else 0)
    if before is not None:
        with contextlib.suppress(OSError):
            os.setxattr(fd, LABEL, os.getxattr(before, LABEL))
    os.fchmod(fd, mode)
