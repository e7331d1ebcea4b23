"""The failures that the agent expects. Each carries the one line that the user reads."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator


class AgentError(Exception):
    """A failure that ends the run with exit code 1."""


class UsageError(AgentError):
    """A wrong command line or a wrong path in the environment. The run ends with exit code 2 and has written nothing."""


class LeavesRoot(OSError):
    """A path whose symbolic links lead out of the host root."""


class NotTrusted(OSError):
    """A directory or symbolic link on the way to a file that a user other than root can change."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EPERM, text)
        self.text = text


class NotRegular(OSError):
    """A FIFO, device, socket or directory where the agent expects a regular file."""


def reason(error: OSError) -> str:
    """Return the cause of an operating system error without the names and values that str(error) would print."""
    if isinstance(error, LeavesRoot):
        return "a symbolic link leads out of the host root"
    if isinstance(error, NotTrusted):
        return error.text
    if isinstance(error, NotRegular):
        return "it is not a regular file"
    return os.strerror(error.errno) if error.errno else type(error).__name__


@contextlib.contextmanager
def doing(act: str) -> Iterator[None]:
    """Turn an operating system error of the block into "cannot <act>: <reason>"."""
    try:
        yield
    except OSError as error:
        raise AgentError(f"cannot {act}: {reason(error)}") from error
