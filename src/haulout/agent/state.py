"""The agent's own directories on the host: the state root with flags, history, markers and locks; and the log root.

See decision 0042.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import posixpath
import stat
from collections.abc import Iterator

from haulout.agent.errors import doing
from haulout.agent.files import (
    create,
    make_directories,
    open_regular,
    own_directory,
    refuse_special,
    remove,
    rename,
    replace_file,
    restrict,
    take_over,
    temporary_name,
    write_all,
)
from haulout.agent.hostroot import HostRoot

STATE_MODE = 0o711
FOLDER_MODE, FILE_MODE = 0o700, 0o600
LOG_FOLDER_MODE, LOG_MODE = 0o750, 0o640
OWN_FOLDERS = ("flags", "history", "interrupts", "locks")
RESERVATION_SIZE = 256  # larger than any flag's text
LARGEST_STATE = 16 << 20  # bytes; a history of this size has more than 200,000 entries
# Directories that belong to the host, whatever the environment says. The agent does not change their modes.
SHARED_TOP = "bin boot dev etc home lib lib64 media mnt opt proc root run sbin srv sys tmp usr var"
SHARED_BELOW = "usr/lib usr/local usr/share var/cache var/lib var/log var/tmp"
SHARED = frozenset(["", *SHARED_TOP.split(), *SHARED_BELOW.split()])


def is_shared(path: str) -> bool:
    return "/".join(part for part in path.split("/") if part not in ("", ".")) in SHARED


class StateFolder:
    """The state root. Paths are relative to it; no name below it may be a symbolic link."""

    def __init__(self, root: HostRoot, path: str, owner: str) -> None:
        self._root = root
        self._path = path
        self._owner = owner

    def exists(self, path: str) -> bool:
        """Whether a regular file exists. A symbolic link was not made by an agent, and does not count."""
        with doing(f"look for {self._path}/{path}"), self._parent(path) as (parent, name):
            if parent is None:
                return False
            refuse_special(name, parent)
            with contextlib.suppress(FileNotFoundError):
                return stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
            return False

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist.

        A symbolic link, or a file that is too large to be the agent's, counts as an empty file.
        """
        with doing(f"read {self._path}/{path}"), self._parent(path) as (parent, name):
            if parent is None:
                return None
            try:
                fd = open_regular(name, os.O_RDONLY, parent)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                return b""
            with open(fd, "rb") as file:
                return file.read() if os.fstat(fd).st_size <= LARGEST_STATE else b""

    def write(self, path: str, text: str, *, is_durable: bool) -> None:
        with doing(f"write {self._path}/{path}"), self._made_parent(path) as (parent, name):
            data = text.encode(errors="surrogatepass")
            refuse_special(name, parent)
            replace_file(parent, name, data, self._owner, FILE_MODE, is_durable=is_durable)

    def remove(self, path: str) -> None:
        with doing(f"remove {self._path}/{path}"), self._parent(path) as (parent, name):
            if parent is not None and remove(parent, name):
                os.fsync(parent)

    def move(self, path: str, new_path: str) -> None:
        """Rename a file within its directory."""
        with doing(f"rename {self._path}/{path}"), self._parent(path) as (parent, name):
            if parent is not None:
                rename(parent, name, posixpath.basename(new_path))
                os.fsync(parent)

    def reserve(self, package_name: str, flag: str) -> str | None:
        """Reserve disk space for a flag. Return the content of a reservation that a killed run has left, or None.

        That is the path of a flag, or the text of a flag if the killed run was about to rename it.
        """
        with doing(f"write {self._path}/{flag}"), self._made_parent(flag) as (parent, name):
            refuse_special(name, parent)  # after the step it would be too late
        with (
            doing(f"make room for a flag in {self._path}/locks"),
            self._made_parent(f"locks/{package_name}.running") as (parent, name),
        ):
            with doing(f"read {self._path}/locks/{name}"):
                before = self._reserved(parent, name)
            fd = create(parent, name, FILE_MODE)
            try:
                write_all(fd, flag.encode(errors="surrogatepass").ljust(RESERVATION_SIZE, b"\n"))
                os.fsync(fd)
            finally:
                os.close(fd)
            return before

    def _reserved(self, parent: int, name: str) -> str | None:
        try:
            fd = open_regular(name, os.O_RDONLY, parent)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP):
                raise
            return None
        with open(fd, "rb") as file:
            return file.read(LARGEST_STATE).rstrip(b"\n").decode(errors="replace") or None

    def release(self, package_name: str) -> None:
        self.remove(f"locks/{package_name}.running")

    def raise_flag(self, package_name: str, flag: str, text: str) -> None:
        """Write the flag into the reserved file, and rename it. That needs no more disk space."""
        with (
            doing(f"write {self._path}/{flag}"),
            self._made_parent(f"locks/{package_name}.running") as (locks, running),
            self._made_parent(flag) as (parent, name),
        ):
            try:
                _fill(locks, running, text.encode())
                os.rename(running, name, src_dir_fd=locks, dst_dir_fd=parent)
            except OSError:
                # The step has removed or replaced the reserved file, or the flags are on another file system.
                replace_file(parent, name, text.encode(), self._owner, FILE_MODE, is_durable=True)
                with contextlib.suppress(OSError):
                    remove(locks, running)
            os.fsync(parent)

    def try_lock(self, path: str, *, is_folder: bool) -> int | None:
        """Lock a file or directory, and create it if missing. Return its descriptor; None if another process holds it.

        The lock ends when no process has the descriptor any more, or with `unlock`.
        """
        with doing(f"lock {self._path}/{path}"):
            if is_folder:
                fd = self._open_made(path)
            else:
                with self._made_parent(path) as (parent, name):
                    fd = open_regular(name, os.O_RDWR | os.O_CREAT, parent)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return None
            return fd

    def unlock(self, fd: int, path: str) -> None:
        """Release a lock, also for processes that have inherited its descriptor, and remove its file."""
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)
        with contextlib.suppress(OSError), self._parent(path) as (parent, name):
            if parent is not None:
                remove(parent, name)

    def holders(self, path: str) -> list[str]:
        """Return the processes that have a file open, for example "process 4711 (install.sh)"."""
        with contextlib.suppress(OSError), self._parent(path) as (parent, name):
            if parent is not None:
                return list(_holders(os.stat(name, dir_fd=parent, follow_symlinks=False)))
        return []

    def tighten(self) -> None:
        """Restrict the permissions of the agent's directories, which earlier agents left open to others.

        Steps without privileges can still pass through the state root itself.
        """
        with doing(f"set the modes of {self._path}"):
            here = make_directories(self._root, self._path, 0o755, STATE_MODE)
            try:
                for name in OWN_FOLDERS:
                    with contextlib.suppress(FileNotFoundError):
                        inner = own_directory(here, name, FOLDER_MODE, can_create=False)
                        try:
                            restrict(inner, FOLDER_MODE, FILE_MODE)
                        finally:
                            os.close(inner)
                if not is_shared(self._path):
                    take_over(here, STATE_MODE)
            finally:
                os.close(here)

    def _open_made(self, path: str) -> int:
        state = make_directories(self._root, self._path, 0o755, STATE_MODE)
        try:
            return own_directory(state, path, FOLDER_MODE)
        finally:
            os.close(state)

    @contextlib.contextmanager
    def _made_parent(self, path: str) -> Iterator[tuple[int, str]]:
        folder, name = posixpath.split(path)
        parent = self._open_made(folder)
        try:
            yield parent, name
        finally:
            os.close(parent)

    @contextlib.contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int | None, str]]:
        """Yield the open directory of a file, or None if it does not exist, and the file's name."""
        folder, name = posixpath.split(path)
        try:
            with self._root.directory(self._path) as state:
                parent = own_directory(state, folder, 0, can_create=False)
        except (FileNotFoundError, NotADirectoryError):
            yield None, name
            return
        try:
            yield parent, name
        finally:
            os.close(parent)


def _holders(file: os.stat_result) -> Iterator[str]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # the process has ended
            if any(os.path.samestat(os.stat(f"/proc/{pid}/fd/{fd}"), file) for fd in os.listdir(f"/proc/{pid}/fd")):
                with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
                    yield f"process {pid} ({comm.read().strip()})"


def _fill(directory: int, name: str, data: bytes) -> None:
    fd = open_regular(name, os.O_WRONLY, directory)
    try:
        write_all(fd, data)
        os.ftruncate(fd, len(data))
        os.fsync(fd)
    finally:
        os.close(fd)


class LogFolder:
    """The log root. Paths are relative to it; no name below it may be a symbolic link."""

    def __init__(self, root: HostRoot, path: str, owner: str) -> None:
        self._root = root
        self._path = path
        self._owner = owner

    def create(self, path: str) -> tuple[int, int]:
        """Create a log and its .err file, replacing existing ones. Return both descriptors."""
        folder, name = posixpath.split(path)
        with doing(f"create {self._path}/{path}"):
            directory = self._open(folder)
            try:
                return self._create(directory, name), self._create(directory, f"{name}.err")
            finally:
                os.close(directory)

    def _create(self, directory: int, name: str) -> int:
        temporary = temporary_name(self._owner)
        fd = create(directory, temporary, LOG_MODE)
        rename(directory, temporary, name)
        return fd

    def _open(self, folder: str) -> int:
        log_root = make_directories(self._root, self._path, 0o755, LOG_FOLDER_MODE)
        try:
            if not is_shared(self._path):
                restrict(log_root, LOG_FOLDER_MODE, LOG_MODE)
            return own_directory(log_root, folder, LOG_FOLDER_MODE)
        finally:
            os.close(log_root)

    @contextlib.contextmanager
    def opened(self, folder: str) -> Iterator[int]:
        directory = self._open(folder)
        try:
            yield directory
        finally:
            os.close(directory)
