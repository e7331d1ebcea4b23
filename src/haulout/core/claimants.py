"""Whether the claims of all surfaces are known.

After a start they are not, until each has decided once about each object.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from haulout.cluster.key import Key
from haulout.cluster.rows import Row, Value
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import CONFIG, View, holds_table

_KEY = Key("", CONFIG, "", "claimants")


def row_of(surfaces: Iterable[str]) -> Value:
    """Return the configuration row that lists the decisions that claim nodes."""
    return Value(key=_KEY, value=tuple(surfaces))


def follow(view: View, cluster: str) -> None:
    """Subscribe the decision that reads `view` to the moment when the claims of other surfaces become known."""
    for name in _names(view.get(_KEY, Value)):
        view.listing(holds_table(name), cluster)


def are_known_to(view: View, cluster: str) -> bool:
    """Whether every claim is known. The decision that reads `view` runs again when that changes."""
    names = _names(view.get(_KEY, Value))
    return all(view.listing(holds_table(name), cluster) is not Listing.WAITING for name in names)


def are_known(store: Store, cluster: str) -> bool:
    """Whether every claim is known, so that a claim without a row does not exist.

    A surface whose objects cannot be read does not count: its claims would never become known.
    """
    names = _names(store.row(_KEY))
    return not any(store.table(cluster, holds_table(name)).listing is Listing.WAITING for name in names)


def may_claim(view: View, deciders: Container[str], cluster: str) -> bool:
    """Whether one of these decisions may hold claims that are not known yet."""
    names = (name for name in _names(view.get(_KEY, Value)) if name in deciders)
    return any(view.listing(holds_table(name), cluster) is Listing.WAITING for name in names)


def _names(row: Row | None) -> tuple[str, ...]:
    return row.value if isinstance(row, Value) and isinstance(row.value, tuple) else ()
