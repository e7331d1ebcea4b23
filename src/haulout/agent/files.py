"""Writes files to the host. Each is written under another name and then renamed. Symbolic links are never followed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from haulout.agent.errors import NotRegular
from haulout.agent.hostroot import DIRECTORY, HostRoot, Trust

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OWN_DIRECTORY = DIRECTORY | os.O_NOFOLLOW


def is_root() -> bool:
    return os.geteuid() == 0


def write_all(fd: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def temporary_name(owner: str) -> str:
    """Return the temporary name of files that are being written.

    `owner` names the lock that the process holds, so no other process uses the name at the same time. A file that a
    killed run left behind is replaced by the next run.
    """
    return f".haulout-{owner}.tmp"


def create(directory: int, name: str, mode: int) -> int:
    """Create an empty file, replace any other of that name, and return its descriptor."""
    remove(directory, name)
    fd = os.open(name, NEW, 0o600, dir_fd=directory)
    os.fchmod(fd, mode)
    return fd


def open_regular(name: str, flags: int, directory: int | None = None, *, follows_links: bool = False) -> int:
    """Open a regular file. Anything else is refused: opening a FIFO would wait, and opening a device may act on it."""
    refuse_special(name, directory, follows_links=follows_links)
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | (0 if follows_links else os.O_NOFOLLOW)
    fd = os.open(name, flags, 0o600, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):  # it has been replaced in the meantime
        os.close(fd)
        raise NotRegular(errno.EINVAL, name)
    return fd


def refuse_special(name: str, directory: int | None = None, *, follows_links: bool = False) -> None:
    """Raise NotRegular if a name is neither free nor that of a regular file or symbolic link."""
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(name, dir_fd=directory, follow_symlinks=follows_links).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
            raise NotRegular(errno.EINVAL, name)


def remove(directory: int, name: str) -> bool:
    """Remove a file or link. Return whether there was one."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True


def rename(directory: int, old: str, new: str) -> None:
    os.rename(old, new, src_dir_fd=directory, dst_dir_fd=directory)


def replace_file(directory: int, name: str, data: bytes, owner: str, mode: int, *, is_durable: bool) -> None:
    """Replace the content of a file. Readers see either the old or the new content, also after a crash of the host."""
    temporary = temporary_name(owner)
    fd = create(directory, temporary, mode)
    try:
        write_all(fd, data)
        if is_durable:
            os.fsync(fd)
        rename(directory, temporary, name)
    except OSError:
        with contextlib.suppress(OSError):
            remove(directory, temporary)
        raise
    finally:
        os.close(fd)
    if is_durable:
        os.fsync(directory)


def make_directory(directory: int, name: str, mode: int) -> int:
    """Create a directory with exactly this mode, or open the one that is there. A link is not followed."""
    # mkdir sets the final mode at once. If a run is killed here, it must not leave a directory that no process can
    # enter.
    umask = os.umask(0)
    try:
        os.mkdir(name, mode, dir_fd=directory)
    except FileExistsError:
        pass
    else:
        os.fsync(directory)
    finally:
        os.umask(umask)
    return os.open(name, OWN_DIRECTORY, dir_fd=directory)


def make_directories(root: HostRoot, path: str, mode: int, last_mode: int | None = None) -> int:
    """Create the missing directories of a path on the host. Return the last one, open.

    Links may not leave the root, and must belong to root.
    """
    with root.walk(path, Trust.ROOT_LINKS) as (place, parent):
        if place.mode and place.rest:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if place.is_dangling:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        here = os.open(".", DIRECTORY, dir_fd=parent)
    for index, name in enumerate(place.rest):
        is_last = index == len(place.rest) - 1
        here = _step_into(here, name, last_mode if is_last and last_mode is not None else mode)
    return here


def own_directory(directory: int, path: str, mode: int, *, can_create: bool = True) -> int:
    """Open a directory of the agent, relative to an open one. No name in the path may be a symbolic link."""
    here = os.open(".", DIRECTORY, dir_fd=directory)
    for name in path.split("/") if path else ():
        here = _step_into(here, name, mode if can_create else None)
    return here


def _step_into(here: int, name: str, mode: int | None) -> int:
    """Open a directory in `here`, and close `here`. With a mode it is created if missing."""
    try:
        if mode is None:
            return os.open(name, OWN_DIRECTORY, dir_fd=here)
        return make_directory(here, name, mode)
    finally:
        os.close(here)


def remove_tree(directory: int, name: str) -> None:
    """Remove a directory with everything in it. Links are removed, not followed; mounts in it are left alone."""
    try:
        here = os.open(name, OWN_DIRECTORY, dir_fd=directory)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        remove(directory, name)
        return
    try:
        for entry in list(entries(here)):
            if entry.is_dir(follow_symlinks=False):
                remove_tree(here, entry.name)
            else:
                remove(here, entry.name)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=directory)


def entries(directory: int) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of an open directory, in the order of their names."""
    with os.scandir(directory) as found:
        yield from sorted(found, key=lambda entry: entry.name)


def restrict(directory: int, folder_mode: int, file_mode: int) -> None:
    """Take permissions away from an open directory and everything in it.

    A directory with the right mode is skipped. So each directory is changed after its content: if a run is killed, the
    next one continues.
    """
    found = os.fstat(directory)
    if not stat.S_IMODE(found.st_mode) & ~folder_mode and (found.st_uid == 0 or not is_root()):
        return
    for entry in entries(directory):
        if entry.is_dir(follow_symlinks=False):
            inner = os.open(entry.name, OWN_DIRECTORY, dir_fd=directory)
            try:
                restrict(inner, folder_mode, file_mode)
            finally:
                os.close(inner)
        elif entry.is_file(follow_symlinks=False):
            _restrict_file(directory, entry.name, file_mode)
    take_over(directory, folder_mode)


def _restrict_file(directory: int, name: str, mode: int) -> None:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        take_over(fd, mode)
    finally:
        os.close(fd)


def take_over(fd: int, mode: int) -> None:
    """Make root the owner of an open file, and take away the permissions that are not in `mode`."""
    found = os.fstat(fd)
    if is_root() and found.st_uid != 0:
        os.fchown(fd, 0, 0)
    if stat.S_IMODE(found.st_mode) & ~mode:
        os.fchmod(fd, stat.S_IMODE(found.st_mode) & mode)
