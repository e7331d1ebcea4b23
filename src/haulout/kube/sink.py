"""The interface of the store to which a reflector reports objects, and the codes with which it reports trouble."""

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
    """A store for the objects that a reflector reads. Its methods are called from the event loop and must not block."""

    def begin(self) -> None:
        """Begin a full list. A list that was begun before and not finished is discarded."""
        ...

    def put(self, obj: T_contra) -> None:
        """Store an object from a list, or after a change. From a list it may be older than its row, see `end_list`.

        Raises `Overfull` if there are too many objects.
        """
        ...

    def delete(self, obj: T_contra) -> None:
        """Remove an object. Only its metadata are certain to be there."""
        ...

    def end_list(self, version: str, *, future: bool) -> Iterator[None]:
        """End the list. Rows that were not put since `begin` are removed, unless they are newer than `version`.

        Return an iterator that does this work in steps. The reflector runs it to its end, unless it is cancelled.

        `future`: the server went back to an older version (a restored backup), so newer rows are removed, too. For a
        kind that is not served, the reflector reports an empty list of this sort, with an empty version.
        """
        ...

    def report_oversized(self, metadata: ObjectMeta, length: int) -> None:
        """Note that the object that was put last was too long: only the fields of an excerpt could be decoded."""
        ...

    def report_broken(self, name: str, why: str) -> None:
        """Note an object that cannot be decoded. `name` is "namespace/name", or empty if it cannot be read."""
        ...

    def trouble(self, code: str, why: str) -> None:
        """Note a failure. Until `end_list` or `fine` is called, the stored objects may be out of date.

        Codes: unreadable (403), unauthorized (401), throttled (429), unreachable (no answer), expired (the resource
        version cannot be watched from any more, a list follows), garbled (not from an API server, or without an end),
        overfull (more objects than may be read), failing (anything else).
        """
        ...

    def fine(self) -> None:
        """Note that after trouble the watch continues from its last version. No change has been missed."""
        ...


def is_from_the_future(error: KubeError) -> bool:
    """Whether the server says that our version is newer than its own. Before 1.18, only the message says so."""
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
