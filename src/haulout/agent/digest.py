"""The digest of a package directory, by which the agent checks that it got the package that the operator expects."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from haulout.agent.errors import AgentError, doing
from haulout.agent.files import OWN_DIRECTORY, entries, open_regular
from haulout.agent.hostroot import DIRECTORY

# The operator mounts these directories at run time. They are no part of the package.
MOUNTED = ("configmaps", "node-metadata")
CHUNK = 1 << 20


def digest_of(path: str) -> str:
    """Return the digest of a package directory anywhere in the file system."""
    with doing(f"read {path}"):
        directory = os.open(path, DIRECTORY)
        try:
            return tree_digest(directory)
        finally:
            os.close(directory)


def tree_digest(directory: int) -> str:
    lines = sorted(_lines(directory, b"", MOUNTED))
    whole = hashlib.sha256(b"".join(line for _, line in lines))
    return f"sha256:{whole.hexdigest()}"


def check_digest(directory: int, expected: str) -> None:
    found = tree_digest(directory)
    if found != expected:
        raise AgentError(f"Package digest mismatch: expected {expected}, got {found}")


def _lines(directory: int, above: bytes, without: tuple[str, ...] = ()) -> Iterator[tuple[bytes, bytes]]:
    """Yield (path, line) for every regular file and symbolic link."""
    for entry in entries(directory):
        path = above + os.fsencode(entry.name)
        if entry.is_symlink():
            text = hashlib.sha256(os.fsencode(os.readlink(entry.name, dir_fd=directory)))
            yield path, b"l %s %s\n" % (text.hexdigest().encode(), path)
        elif entry.is_file(follow_symlinks=False):
            yield path, b"f %s %s\n" % (_content(directory, entry.name).encode(), path)
        elif entry.is_dir(follow_symlinks=False) and entry.name not in without:
            inner = os.open(entry.name, OWN_DIRECTORY, dir_fd=directory)
            try:
                yield from _lines(inner, path + b"/")
            finally:
                os.close(inner)


def _content(directory: int, name: str) -> str:
    fd = open_regular(name, os.O_RDONLY, directory)
    found = hashlib.sha256()
    with open(fd, "rb") as file:
        while chunk := file.read(CHUNK):
            found.update(chunk)
    return found.hexdigest()
