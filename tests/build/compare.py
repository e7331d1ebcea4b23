"""What tests compare rows and requests by."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from haulout.cluster.rows import Row
from haulout.core.action import Create, Delete, Evict
from haulout.kernel.requests import Body, Change


def content(row: Row | None) -> Row | None:
    """Return a row without its version, which no decision can read."""
    return None if row is None else msgspec.structs.replace(row, version=0)


def wish_of(body: Body) -> Hashable:
    """Return what two requests for the same thing have in common."""
    match body:
        case Change():
            return (body.target, body.subresource, repr(body.body))
        case Create():
            return ("create", body.target)
        case Evict() | Delete():
            return (type(body).__name__, body.target, body.uid)
        case _:
            return repr(body)
