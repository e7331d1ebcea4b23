"""The interface to an API server: requests and line streams, over HTTP or to a cluster in this process."""

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
# Server-side apply. JSON is YAML, too.
APPLY_PATCH = "application/apply-patch+yaml"
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

    Raises `ApiError` for an answer of 400 and above, `ConnectionFailed` or `RequestTimeout` without an answer.

    `keep`: the fields to keep of a body or line that is too long to be held; it becomes an `Excerpt`. Without `keep`,
    or if the body or line does not end, `TooLarge` is raised.
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
        """Yield the lines of a watch. Raises `RequestTimeout` if nothing arrives for `silence` seconds."""
        ...

    async def close(self) -> None: ...
