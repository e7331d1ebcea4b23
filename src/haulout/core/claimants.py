"""Whether the claims of all surfaces are known. After a start they are not, until each has decided once about each object."""

from __future__ import annotations

from collections.abc import Container, Iterable

from haulout.cluster.key import Key
from haulout.cluster.rows import Row, Value
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import CONFIG, View, holds_table

_KEY = Key("", CONFIG, "", "claimants")


def row_of(surfaces: Iterable[str]) -> Value:
    """Return the row by which decisions know the surfaces that are served and claim nodes."""
    return Value(key=_KEY, value=tuple(surfaces))


def follow(view: View, cluster: str) -> None:
    """Have the decision asked again when the claims of another surface become known."""
    for name in _names(view.get(_KEY, Value)):
        view.listing(holds_table(name), cluster)


def are_known(store: Store, cluster: str) -> bool:
    """Whether a claim that is missing does not stand. A surface whose objects cannot be read claims nothing that is known."""
    names = _names(store.row(_KEY))
    return not any(store.table(cluster, holds_table(name)).listing is Listing.WAITING for name in names)


def may_claim(view: View, deciders: Container[str], cluster: str) -> bool:
    """Whether one of these decisions may hold claims that are not known yet."""
    names = (name for name in _names(view.get(_KEY, Value)) if name in deciders)
    return any(view.listing(holds_table(name), cluster) is Listing.WAITING for name in names)


def _names(row: Row | None) -> tuple[str, ...]:
    return row.value if isinstance(row, Value) and isinstance(row.value, tuple) else ()
