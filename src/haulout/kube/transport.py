"""The one way to an API server: requests and line streams, over HTTP or into a cluster in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from haulout.kube.excerpt import Shape

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
# Requested where the whole object is not needed: 1 KB instead of 9 KB for a Node.
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Reply(msgspec.Struct, frozen=True):
    """The answer of an API server to one request.

    `body` is an `Excerpt` where the answer was too long to be held and the caller said what to keep of it.
    """

    status: int
    body: bytes


class Transport(Protocol):
    """A way to send requests to one API server.

    Raises `ApiError` for 400 and above, `ConnectionFailed` or `RequestTimeout` where no answer came.

    A body or line that is too long to be held becomes an `Excerpt` of what the caller wants to `keep` of it. Where the
    caller does not say, or where it goes on without an end, `TooLarge` is raised.
    """

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float = 30.0,
        keep: Shape | None = None,
    ) -> Reply: ...

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        silence: float = 330.0,
        keep: Shape | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the lines of a watch. Raises `RequestTimeout` once nothing came for `silence` seconds."""
        ...

    async def close(self) -> None: ...
