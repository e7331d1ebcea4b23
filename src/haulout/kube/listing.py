"""Lists in pages, each bounded in bytes: a page that is too long is asked for again with fewer objects."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from haulout.kube.codec import Broken, Garbled, HasMetadata, Kind, Page, Shortened
from haulout.kube.errors import TooLarge
from haulout.kube.excerpt import LONGEST_OBJECT, Shape
from haulout.kube.transport import Transport

K = TypeVar("K", bound=HasMetadata)


class Pages(Generic[K]):
    """The pages of one list, in order. `size` is how many objects the next page may have.

    If a page, or an object in it, is too long, the page is requested again with a quarter of the objects. Each page
    that is short enough doubles the size again. A single object that is too long becomes an excerpt, so every list can
    be read to its end.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        kind: Kind[K],
        query: Mapping[str, str] | None = None,
        *,
        size: int = 500,
        within: float = 60.0,
    ) -> None:
        self._transport = transport
        self._path = path
        self._kind = kind
        self._query = dict(query or {})
        self._most = self.size = size
        self._within = within
        self._token = ""
        self.complete = False

    async def next(self) -> Page[K]:
        """Fetch one page; afterwards `complete` says whether it was the last."""
        page = await self._page()
        if page.next and page.next == self._token:
            raise Garbled(f"list {self._path}: the server sends the same page again and again")
        self._token, self.complete = page.next, not page.next
        # The size stays at one object after an excerpt: objects that are too long tend to follow each other.
        if not page.is_excerpt:
            self.size = min(self.size * 2, self._most)
        return page

    async def _page(self) -> Page[K]:
        while self.size > 1:
            with contextlib.suppress(TooLarge):
                page = self._kind.page(await self._body(None))
                if page.longest <= LONGEST_OBJECT:
                    return page
                # Free the page's memory before the next one is requested.
                del page
            self.size = max(1, self.size // 4)
        return self._kind.page(await self._body(self._kind.page_shape))

    async def _body(self, keep: Shape | None) -> bytes:
        token = {"continue": self._token} if self._token else {}
        query = {"limit": str(self.size), **self._query, **token}
        return (await self._transport.request("GET", self._path, query=query, timeout=self._within, keep=keep)).body


async def read_list(
    transport: Transport,
    path: str,
    kind: type[K],
    query: Mapping[str, str] | None = None,
    *,
    size: int = 500,
    keep: Callable[[K], K] = lambda obj: obj,
) -> list[K]:
    """Return all objects of a list, except those that cannot be decoded. `keep` returns what is kept of an object."""
    pages, found = Pages(transport, path, Kind(kind), query, size=size), list[K]()
    while not pages.complete:
        for item in await pages.next():
            if not isinstance(item, Broken):
                found.append(keep(item.object if isinstance(item, Shortened) else item))
    return found
