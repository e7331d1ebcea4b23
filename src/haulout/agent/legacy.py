"""Work that old operators leave to the agent: copying the package and resolv.conf to the host."""

from __future__ import annotations

import os
import posixpath
import stat

from haulout.agent.errors import doing
from haulout.agent.files import create, entries, make_directories, make_directory, open_regular, remove_tree
from haulout.agent.hostroot import DIRECTORY, HostRoot, Trust
from haulout.agent.overlay import Batch, copy_content, copy_to_host

NODE_FILES = "/etc/nvidia-bootstrap/node-files"
RESOLV = "/etc/resolv.conf"


def copy_package(root: HostRoot, data_dir: str, copy_dir: str) -> None:
    """Copy the package from the agent's own file system. The copy appears under its name when it is complete."""
    folder, name = posixpath.split(copy_dir.rstrip("/"))
    temporary = f".haulout-{name}"[:200]
    with doing(f"copy {data_dir} to {copy_dir}"):
        parent = make_directories(root, folder, 0o755)
        try:
            remove_tree(parent, temporary)
            copy_tree(data_dir, parent, temporary)
            if os.path.isdir(NODE_FILES):
                copy_tree(NODE_FILES, parent, temporary)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            os.fsync(parent)
        finally:
            os.close(parent)


def copy_tree(source: str, parent: int, name: str) -> None:
    """Copy a directory of the agent's own file system into an open directory. Links are copied as what they lead to."""
    opened = os.open(source, DIRECTORY)
    try:
        target = make_directory(parent, name, stat.S_IMODE(os.fstat(opened).st_mode))
        try:
            for entry in entries(opened):
                inner = f"{source}/{entry.name}"
                if entry.is_dir():
                    copy_tree(inner, target, entry.name)
                else:
                    _copy_file(inner, target, entry.name)
        finally:
            os.close(target)
    finally:
        os.close(opened)


def _copy_file(source: str, directory: int, name: str) -> None:
    opened = open_regular(source, os.O_RDONLY, follows_links=True)
    try:
        fd = create(directory, name, stat.S_IMODE(os.fstat(opened).st_mode))
        try:
            copy_content(opened, fd)
        finally:
            os.close(fd)
    finally:
        os.close(opened)


def copy_resolv(root: HostRoot, own: str = RESOLV) -> None:
    """Replace the host's resolv.conf with the agent's.

    It is often a link of root into a directory of systemd-resolved, so directories of other users are allowed here.
    No lock is held yet, so the temporary file has the process id in its name.
    """
    with doing("copy resolv.conf to the host"):
        source = open_regular(own, os.O_RDONLY, follows_links=True)
        try:
            with Batch(f"resolv-{os.getpid()}") as batch:
                copy_to_host(root, RESOLV, source, 0o644, batch, Trust.ROOT_LINKS)
                batch.finish()
        finally:
            os.close(source)
