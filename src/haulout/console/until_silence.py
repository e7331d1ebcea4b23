"""Questions to an API server that may have gone: after the first one without an answer, the others are not asked any more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager

from haulout.kube.errors import ConnectionFailed, RequestTimeout
from haulout.kube.excerpt import Shape
from haulout.kube.transport import JSON, Reply, Transport

# A page waits for what is asked here. What is not answered by then is not known.
ANSWER_WITHIN = 5.0


class UntilSilence:
    """A transport for the questions of one request of a page. It must not be used for writes.

    `is_silent`: whether the API server is known not to answer, so that nothing is asked at all.
    """

    def __init__(self, transport: Transport, is_silent: Callable[[], bool]) -> None:
        self._transport = transport
        self._is_silent = is_silent
        self._failed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float = ANSWER_WITHIN,
        keep: Shape | None = None,
    ) -> Reply:
        if self._failed or self._is_silent():
            raise ConnectionFailed(f"{method} {path}: not asked, because the API server does not answer")
        within = min(timeout, ANSWER_WITHIN)
        try:
            return await self._transport.request(
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                accept=accept,
                timeout=within,
                keep=keep,
            )
        except (ConnectionFailed, RequestTimeout):
            self._failed = True
            raise

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        silence: float = ANSWER_WITHIN,
        keep: Shape | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._transport.stream(path, query=query, silence=silence, keep=keep)

    async def close(self) -> None:
        """Do nothing: the transport serves other requests, too."""
