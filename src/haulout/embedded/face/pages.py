"""Lists in pages: every page of a list shows the objects at the revision of its first page."""

from __future__ import annotations

import base64
import binascii

import msgspec

from haulout.embedded.face.list_options import ListOptions, read_version
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import refusals
from haulout.embedded.store.selectors import Filter, find
from haulout.embedded.store.storage import Storage, Table, key_of

# Stands in a token for the newest revision at the time of the next page.
_NOW = -1
_TOO_OLD = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."


class Page(msgspec.Struct, frozen=True):
    """One page of a list.

    `revision`: the revision of the storage that the whole list shows.
    `next`: the token for the next page; empty on the last one.
    `remaining`: how many objects follow; None where that is not known.
    """

    items: list[Json]
    revision: int
    next: str = ""
    remaining: int | None = None


def page(storage: Storage, table: Table, namespace: str, chosen: Filter, options: ListOptions) -> Page:
    if options.token:
        if options.version and options.version != "0":
            raise refusals.bad_request("specifying resource version is not allowed when using continue")
        revision, start = _decode(options.token)
        if revision == _NOW:
            revision = storage.revision
        if revision < table.compacted:
            raise refusals.expired_revision(_TOO_OLD, _encode(_NOW, start))
        return _cut(_then(storage, table, namespace, chosen, revision), revision, start, chosen, options)
    version = read_version(options.version, "invalid resource version: ")
    if version > storage.revision:
        raise refusals.too_large(version, storage.revision)
    exact = options.match == "Exact" or (not options.match and options.limit and version)
    if exact and version != storage.revision:
        if version < table.compacted:
            raise refusals.expired_revision("The resourceVersion for the provided list is too old.")
        return _cut(_then(storage, table, namespace, chosen, version), version, ("", ""), chosen, options)
    return _cut(find(table, namespace, chosen), storage.revision, ("", ""), chosen, options)


def _then(storage: Storage, table: Table, namespace: str, chosen: Filter, revision: int) -> list[Json]:
    if revision == storage.revision:
        return find(table, namespace, chosen)
    objects = table.at(revision)
    keys = sorted(key for key in objects if not namespace or key[0] == namespace)
    return [obj for key in keys if chosen.matches(obj := objects[key])]


def _cut(items: list[Json], revision: int, start: tuple[str, str], chosen: Filter, options: ListOptions) -> Page:
    if start != ("", ""):
        items = [obj for obj in items if key_of(obj) > start]
    if options.limit <= 0 or len(items) <= options.limit:
        return Page(items, revision)
    kept = items[: options.limit]
    remaining = len(items) - options.limit if chosen.everything else None
    return Page(kept, revision, _encode(revision, key_of(kept[-1])), remaining)


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


def _encode(revision: int, key: tuple[str, str]) -> str:
    token = msgspec.json.encode(_Token("meta.k8s.io/v1", revision, f"{key[0]}/{key[1]}\0"))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _decode(text: str) -> tuple[int, tuple[str, str]]:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise refusals.bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    namespace, _, name = token.start.rstrip("\0").rpartition("/")
    return token.rv, (namespace, name)
