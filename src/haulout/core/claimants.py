"""Whether all claims on a node are known. After a start they are not, until each surface has decided once about each object."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.cluster.key import Key
from haulout.cluster.rows import Row, Value
from haulout.cluster.store import Listing
from haulout.cluster.view import CONFIG, View, holds_table
from haulout.core.holds import HOLDS_OF_NODE, Blocked

NAME = "claimants"


def row_of(surfaces: Iterable[str]) -> Value:
    """Return the row by which decisions know the surfaces that are served and claim nodes."""
    return Value(key=Key("", CONFIG, "", NAME), value=tuple(surfaces))


def are_claims_known(view: View, node: Key, surface: str) -> bool:
    """Whether the claims of all other surfaces on a node are known, so that a missing claim means that there is none.

    A surface whose objects cannot be read claims nothing that we could know of. Only a decision that claims nothing itself may
    wait for this: two that claim would wait for each other.
    """
    known = view.config(NAME)
    names = known.value if known is not None and isinstance(known.value, tuple) else ()
    waiting = [name for name in names if view.listing(holds_table(name), node.cluster) is Listing.WAITING]
    rows = view.rows(HOLDS_OF_NODE, node, Row, node.cluster)
    return not waiting and not any(isinstance(row, Blocked) and row.surface != surface for row in rows)
