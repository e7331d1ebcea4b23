"""The receiver of what a reflector reads, and the codes with which the reflector reports trouble."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

from haulout.kube.codec import (
    Garbled,
    HasMetadata,
)
from haulout.kube.errors import (
    ApiError,
    Compressed,
    ConnectionFailed,
    Forbidden,
    Gone,
    KubeError,
    Overfull,
    RequestTimeout,
    TooLarge,
    TooManyRequests,
    Unauthorized,
)
from haulout.model.meta import ObjectMeta

T_contra = TypeVar("T_contra", bound=HasMetadata, contravariant=True)


class Sink(Protocol[T_contra]):
    """Where the picture is kept. Called from the event loop, never waited for."""

    def begin(self) -> None:
        """Begin a full list. One that was begun and not finished is abandoned."""
        ...

    def put(self, obj: T_contra) -> None:
        """Take in an object of a list or after a change: in a list it may be older than its row, see `listed`.

        Raises `Overfull` where there are too many.
        """
        ...

    def delete(self, obj: T_contra) -> None:
        """Remove an object. Nothing but its metadata may be relied upon."""
        ...

    def listed(self, version: str, *, future: bool) -> Iterator[None]:
        """End the list: rows not newer than `version` are as they were put since `begin`, or gone.

        Return the steps in which that is taken in. They are taken to their end, unless the reflector is cancelled.

        `future`: the server went back (a restored backup), so this holds for rows newer than `version` too. A kind that
        is not served is listed like this, empty, with an empty version.
        """
        ...

    def oversized(self, metadata: ObjectMeta, length: int) -> None:
        """Note that the object that was put last was too long to be decoded whole: it has what could be kept of its text."""
        ...

    def broken(self, name: str, why: str) -> None:
        """Note an object that cannot be decoded; `name` is "namespace/name", or empty if it cannot be had."""
        ...

    def trouble(self, code: str, why: str) -> None:
        """Note a failure: until `listed` or `fine` the picture may be out of date.

        Codes: unreadable (403), unauthorized (401), throttled (429), unreachable (no answer), expired (the version
        is of no use any more, a list follows), garbled (not from an API server, or without an end), overfull (more
        objects than are read), failing (anything else).
        """
        ...

    def fine(self) -> None:
        """Note after trouble that the watch goes on from where it was: nothing has been missed."""
        ...


def is_from_the_future(error: KubeError) -> bool:
    """Whether the server says that our version is newer than its own. Before 1.18 only the message tells."""
    if not isinstance(error, ApiError) or error.status.code != 504:
        return False
    causes = error.status.details.causes if error.status.details else ()
    return any(
        "ResourceVersionTooLarge" in cause.reason or "Too large resource" in cause.message for cause in causes
    ) or ("Too large resource version" in error.status.message)


def trouble_code(error: KubeError) -> str:
    """Return the code with which an error is reported to sinks."""
    match error:
        case Unauthorized():
            return "unauthorized"
        case Forbidden():
            return "unreadable"
        case TooManyRequests():
            return "throttled"
        case Gone():
            return "expired"
        case ConnectionFailed() | RequestTimeout():
            return "unreachable"
        case Garbled() | TooLarge() | Compressed():
            return "garbled"
        case Overfull():
            return "overfull"
        case _ if is_from_the_future(error):
            return "expired"
        case _:
            return "failing"
