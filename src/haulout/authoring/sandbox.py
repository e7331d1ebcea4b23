"""A throw-away root directory for trying a package, in its own namespaces, with read-only programs of this computer.

See decision 0043.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
from collections.abc import Callable

from haulout.agent.errors import AgentError, doing

NEW_USER, NEW_MOUNTS, NEW_PIDS, NEW_HOSTNAME, NEW_IPC = 0x10000000, 0x20000, 0x20000000, 0x4000000, 0x8000000
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE, RELATIME = 1, 32, 4096, 16384, 1 << 18, 1 << 21
KEPT_FLAGS = 2 | 4 | 8 | 1024 | 2048  # nosuid, nodev, noexec, noatime, nodiratime: the same bits in statvfs and mount
STATVFS_RELATIME = 4096
PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
DEVICES = ("null", "zero", "full", "random", "urandom")
FOLDERS = ("dev", "etc", "home", "opt", "proc", "root", "run", "srv", "tmp", "var/lib", "var/log", "var/tmp")
# The entries of /etc that programs need to start and to find each other. The rest of the computer's /etc is hidden.
ETC = ("alternatives", "group", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "nsswitch.conf", "passwd", "ssl")


def inside(root: str, work: Callable[[], bytes]) -> bytes:
    """Call `work` in new namespaces, with the throw-away root mounted. Return its result.

    All processes that `work` starts end with it. `work` is root in the namespaces and has no capabilities outside: it
    can neither reboot the computer nor change its settings.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os._exit(_outer(root, work, writing))
    os.close(writing)
    with open(reading, "rb") as report:
        answer = report.read()
    _, status = os.waitpid(pid, 0)
    if status:
        raise AgentError(answer.decode(errors="replace") or "the throw-away root ended unexpectedly")
    return answer


def _outer(root: str, work: Callable[[], bytes], report: int) -> int:
    """Create the namespaces, and fork the first process in them."""
    try:
        uid, gid = os.geteuid(), os.getegid()
        with doing("make a throw-away root (--exec local does without: the steps then run on this computer)"):
            _call("unshare", NEW_USER | NEW_MOUNTS | NEW_PIDS | NEW_HOSTNAME | NEW_IPC)
            for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
                with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                    file.write(text)
        pid = os.fork()
        if pid == 0:
            os._exit(_inner(root, work, report))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except AgentError as error:
        os.write(report, str(error).encode())
        return 1


def _inner(root: str, work: Callable[[], bytes], report: int) -> int:
    try:
        with doing("furnish the throw-away root"):
            furnish(root)
        answer = work()
    except AgentError as error:
        os.write(report, str(error).encode())
        return 1
    with open(report, "wb") as file:
        file.write(answer)
    return 0


def furnish(root: str) -> None:
    """Mount this computer's programs into the root, read-only."""
    _mount(None, "/", None, PRIVATE | RECURSIVE)
    for folder in FOLDERS:
        os.makedirs(f"{root}/{folder}", exist_ok=True)
    for name in PROGRAMS:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{root}/{name}")
        elif os.path.isdir(f"/{name}"):
            os.mkdir(f"{root}/{name}")
            _bind_read_only(f"/{name}", f"{root}/{name}")
    for name in DEVICES:
        with open(f"{root}/dev/{name}", "w", encoding="ascii"):
            pass
        _mount(f"/dev/{name}", f"{root}/dev/{name}", None, BIND)
    for name in ETC:
        _copy(f"/etc/{name}", f"{root}/etc/{name}")
    # A container may not be allowed to mount /proc. Then the steps have none. It is read-only because the kernel lets
    # the computer's root write settings such as vm.swappiness from any user namespace.
    with contextlib.suppress(OSError):
        _mount("proc", f"{root}/proc", "proc", READ_ONLY | 2 | 4 | 8)


def _copy(source: str, target: str) -> None:
    if os.path.isdir(source):
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("private"))
    elif os.path.isfile(source):
        shutil.copy(source, target)


def _bind_read_only(source: str, target: str) -> None:
    _mount(source, target, None, BIND | RECURSIVE)
    found = os.statvfs(source).f_flag
    flags = found & KEPT_FLAGS | (RELATIME if found & STATVFS_RELATIME else 0)
    _mount(None, target, None, BIND | REMOUNT | READ_ONLY | flags)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = [word and os.fsencode(word) for word in (source, target, kind)]
    _call("mount", *words, ctypes.c_ulong(flags), None)


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
