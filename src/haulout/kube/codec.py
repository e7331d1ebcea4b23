"""From bytes to objects: watch lines in one pass, list pages item by item; one bad object spoils no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from haulout.kube.errors import UNFIT, KubeError, Status, shorten
from haulout.kube.excerpt import SCALAR, Excerpt, Shape, count_values, shape_of
from haulout.model.meta import ObjectMeta, PartialObject


class HasMetadata(Protocol):
    """Any struct of a Kubernetes object: it has metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


# Names and namespaces of objects have at most 253 characters.
LONGEST_PART, LONGEST_WHY = 253, 400

T = TypeVar("T")
K = TypeVar("K", bound=HasMetadata)


class Added(Struct, Generic[T], frozen=True, gc=False, tag_field="type", tag="ADDED"):
    """A watch event: the object exists, and the watch has not shown it before."""

    object: T


class Modified(Struct, Generic[T], frozen=True, gc=False, tag_field="type", tag="MODIFIED"):
    """A watch event: the object has changed."""

    object: T


class Deleted(Struct, Generic[T], frozen=True, gc=False, tag_field="type", tag="DELETED"):
    """A watch event: the object is gone. `object` is its last state."""

    object: T


class Bookmark(Struct, frozen=True, gc=False, tag_field="type", tag="BOOKMARK"):
    """A watch event without a change: everything up to the version in its metadata has been sent."""

    object: PartialObject

    @property
    def ends_list(self) -> bool:
        return self.object.metadata.annotations.get("k8s.io/initial-events-end") == "true"


class Failure(Struct, frozen=True, gc=False, tag_field="type", tag="ERROR"):
    """A watch event with which the server ends the watch, such as 410 when the version is too old."""

    object: Status


class Shortened(Struct, Generic[T], frozen=True, gc=False):
    """An object of a list that was too long to be decoded whole: what was kept, and the length of its text in bytes."""

    object: T
    length: int


class Broken(Struct, frozen=True, gc=False):
    """An object that does not fit its type. `name` (with its namespace) and `version` are empty if they cannot be had."""

    name: str
    version: str
    why: str


class TooManyValues(msgspec.DecodeError):
    """An object has more values than may be decoded, which would take too long."""


class Garbled(KubeError):
    """The server sent bytes that are neither a watch event nor a list: cut off, or not from an API server."""


class _Envelope(Struct, frozen=True):
    type: str
    object: Raw


class _AnyMeta(Struct, frozen=True, rename="camel"):
    name: Any = ""
    namespace: Any = ""
    resource_version: Any = ""


class _AnyObject(Struct, frozen=True):
    metadata: _AnyMeta = _AnyMeta()


class _MetaOnly(Struct, frozen=True):
    metadata: Raw


class _ListMeta(Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[Raw] | None = None


class _ListHead(Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_ANY_META = msgspec.json.Decoder(_AnyMeta)
_ANY_OBJECT = msgspec.json.Decoder(_AnyObject)
_META_ONLY = msgspec.json.Decoder(_MetaOnly)
_LIST = msgspec.json.Decoder(_List)
_LIST_HEAD = msgspec.json.Decoder(_ListHead)

Event = Added[K] | Modified[K] | Deleted[K] | Bookmark | Failure | Broken


class Page(Generic[K]):
    """One page of a list. Iterating decodes one item at a time, so that no second copy of the page ever exists.

    `length`: the bytes of the whole text if the page is an excerpt, else 0.
    """

    def __init__(self, kind: Kind[K], head: _ListMeta, items: list[Raw], length: int = 0) -> None:
        self._kind = kind
        self._items = items
        self._length = length
        self.version = head.resource_version
        self.next = head.continue_
        self.remaining = head.remaining_item_count

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[K | Shortened[K] | Broken]:
        for item in self._items:
            found = self._kind.item(item)
            yield Shortened(found, self._length) if self._length and not isinstance(found, Broken) else found

    @property
    def is_excerpt(self) -> bool:
        return self._length > 0

    @property
    def longest(self) -> int:
        """The length of the longest object's JSON, in bytes."""
        return max(map(len, self._items), default=0)


class Kind(Generic[K]):
    """The decoders of one type of object.

    An object with more than `most_values` objects, arrays and strings in it is not decoded; 0 is any number.
    """

    def __init__(self, kind: type[K], most_values: int = 0) -> None:
        self._most_values = most_values
        # The type is known only at run time. mypy cannot check such a union, msgspec can decode it.
        union: Any = Added[kind] | Modified[kind] | Deleted[kind] | Bookmark | Failure  # type: ignore[valid-type]
        self._event: msgspec.json.Decoder[Event[K]] = msgspec.json.Decoder(union)
        self._item = msgspec.json.Decoder(kind)
        # The fields that are kept of an object, a watch event and a page that are too long to be held.
        self.shape = shape_of(kind)
        self.event_shape = Shape({b'"type"': SCALAR, b'"object"': self.shape})
        self.page_shape = Shape({b'"metadata"': shape_of(_ListMeta), b'"items"': Shape(rest=self.shape)})

    def event(self, line: bytes) -> Event[K] | None:
        """Decode one line of a watch; None for an unknown event type. Raises `Garbled`."""
        try:
            self._check_values(line)
            return self._event.decode(line)
        except UNFIT as error:
            return self._salvage(line, error)

    def item(self, raw: Raw | bytes) -> K | Broken:
        try:
            self._check_values(raw)
            return self._item.decode(raw)
        except UNFIT as error:
            return _broken(raw, error)

    def page(self, body: bytes) -> Page[K]:
        """Decode the answer to a LIST. Raises `Garbled`."""
        try:
            found = _LIST.decode(body)
        except RecursionError:
            head, items = _split(body)
            return Page(self, head, items)
        except UNFIT as error:
            raise Garbled(f"not a list: {error}") from error
        length = body.length if isinstance(body, Excerpt) else 0
        return Page(self, found.metadata, found.items or [], length)

    def _check_values(self, raw: Raw | bytes) -> None:
        # A value has at least two bytes, such as two quotes. So counting can be skipped for a short text.
        if self._most_values and len(raw) > 2 * self._most_values and count_values(raw) > self._most_values:
            raise TooManyValues(f"it has more than {self._most_values} values")

    def _salvage(self, line: bytes, error: Exception) -> Event[K] | None:
        try:
            envelope = _ENVELOPE.decode(line)
        except RecursionError:
            return _broken(line, error)
        except UNFIT as worse:
            raise Garbled(f"not a watch event: {worse}") from worse
        match envelope.type:
            case "DELETED":
                return self._deleted(envelope.object, error)
            case "ADDED" | "MODIFIED":
                return _broken(envelope.object, error)
            case "BOOKMARK" | "ERROR":
                raise Garbled(f"{envelope.type} cannot be read: {error}")
        return None

    def _deleted(self, raw: Raw, error: Exception) -> Deleted[K] | Broken:
        """Decode the metadata of a deleted object. An error in its other fields must not keep its row in the store."""
        try:
            meta = bytes(_META_ONLY.decode(raw).metadata)
            if isinstance(error, TooManyValues):
                meta = msgspec.json.encode(_ANY_META.decode(meta))
            return Deleted(self._item.decode(b'{"metadata":' + meta + b"}"))
        except UNFIT:
            return _broken(raw, error)


def _broken(raw: Raw | bytes, error: Exception) -> Broken:
    try:
        meta = _ANY_OBJECT.decode(raw).metadata
    except UNFIT:
        return Broken("", "", shorten(str(error), LONGEST_WHY))
    # A hostile server may send values here that are no strings, or that are very long.
    space, name = (shorten(str(part), LONGEST_PART) for part in (meta.namespace, meta.name))
    version = shorten(str(meta.resource_version), LONGEST_PART)
    return Broken(f"{space}/{name}" if space else name, version, shorten(str(error), LONGEST_WHY))


_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def _split(body: bytes) -> tuple[_ListMeta, list[Raw]]:
    """Split a list into its items by counting brackets, where an item is nested too deeply for msgspec."""
    depth, start, cut, items = 0, 0, len(body), list[Raw]()
    for token in _BRACKET.finditer(body):
        match token[0]:
            case b"[" | b"{":
                depth += 1
                if depth == 3 and cut < token.start():
                    start = token.start()
            case b"]" | b"}":
                depth -= 1
                if depth == 2 and cut < token.start():
                    items.append(Raw(body[start : token.end()]))
                elif depth == 1 and cut < token.start():
                    return _LIST_HEAD.decode(body[:cut] + b"null" + body[token.end() :]).metadata, items
            case b'"items"' if depth == 1:
                cut = token.end() + 1
    raise Garbled("not a list: no end of its items")
