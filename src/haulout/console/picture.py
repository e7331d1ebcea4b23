"""The picture that the console shows: everything that one look at the cluster gave, and what changed since another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from haulout.cluster.store import Listing, Store
from haulout.cluster.view import OWN_KINDS
from haulout.core.declaration import Rollout
from haulout.explain.fleet import BudgetState, Cause, Failure, Work
from haulout.explain.installation import Installation
from haulout.explain.node_rows import FleetRow

LISTED, NOT_YET = "listed", "not-yet"
MOST_TEXT = 500
# The parts of a picture besides its rows. Each is sent whole when it has changed.
PARTS = ("causes", "failures", "budgets", "works", "rollouts", "installation", "tables")


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the cluster.

    `seq`: grows with each picture that differs from the last. `tables`: whether each kind could be read, in words.
    `at`: when it was last known to be so; None before the first look.
    """

    seq: int
    tables: Mapping[str, str]
    at: datetime | None = None
    rows: Mapping[str, FleetRow] = {}
    causes: tuple[Cause, ...] = ()
    failures: tuple[Failure, ...] = ()
    budgets: tuple[BudgetState, ...] = ()
    works: tuple[Work, ...] = ()
    rollouts: tuple[Rollout, ...] = ()
    installation: Installation = Installation("")


class Changes(msgspec.Struct, frozen=True):
    """What differs between two pictures: the names of rows that are new or other or gone, and the names of parts."""

    rows: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()

    def __or__(self, other: Changes) -> Changes:
        return Changes(self.rows | other.rows, self.parts | other.parts)

    def __bool__(self) -> bool:
        return bool(self.rows or self.parts)


def changes_between(old: Picture, new: Picture) -> Changes:
    """Return what differs between two pictures."""
    other = (name for name, row in new.rows.items() if old.rows.get(name) != row)
    gone = (name for name in old.rows if name not in new.rows)
    parts = frozenset(name for name in PARTS if getattr(old, name) != getattr(new, name))
    return Changes(frozenset((*other, *gone)), parts)


def tables_of(store: Store, kinds: tuple[str, ...], outage: str) -> dict[str, str]:
    """Return whether each kind could be read. `outage`: why the API server does not answer now; empty: it does."""
    return {kind: _standing(store, kind, outage) for kind in sorted(kinds)}


def _standing(store: Store, kind: str, outage: str) -> str:
    table = store.table("", kind)
    match table.listing:
        case Listing.WAITING:
            return NOT_YET
        case Listing.UNREADABLE:
            return f"unreadable: {(table.why or outage or 'no answer')[:MOST_TEXT]}"
        case Listing.LISTED:
            return f"unreadable: {outage[:MOST_TEXT]}" if outage else LISTED


def kinds_of(store: Store) -> Iterator[str]:
    """Yield the kinds of the home cluster that are being read."""
    yield from (kind for cluster, kind in store.tables if not cluster and kind.partition("/")[0] not in OWN_KINDS)


def outage_text(since: datetime, why: str) -> str:
    return f"the API server has not answered since {since:%Y-%m-%d %H:%M:%S} UTC: {why}"
