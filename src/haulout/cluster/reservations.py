"""Places under limits that one row reserves for another object, as a grant does for its node."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from haulout.cluster.key import Key
from haulout.cluster.limits import NOWHERE, Count, Group, Limit
from haulout.cluster.rows import Reservation, ReservingRow, Row


def reservations(limits: Iterable[Limit], entity: Key) -> Iterator[Reservation]:
    """Return the places that an object takes under limits."""
    for limit in limits:
        yield Reservation(limit.count, limit.group, entity)


class ReservedPlaces:
    """The groups in which an object counts because rows reserve a place for it there."""

    def __init__(self) -> None:
        # By object, then by count, then by the row that reserves the place.
        self._places: dict[Key, dict[Count, dict[Key, frozenset[Group]]]] = {}

    def __contains__(self, entity: Key) -> bool:
        return entity in self._places

    def __len__(self) -> int:
        return sum(len(counts) for counts in self._places.values())

    def groups(self, entity: Key, count: Count) -> frozenset[Group]:
        """Return the groups in which places are reserved for an object."""
        holders = self._places.get(entity, {}).get(count)
        return frozenset().union(*holders.values()) if holders else NOWHERE

    def entities(self, cluster: str, count: Count) -> set[Key]:
        """Return the objects of a cluster for which places are reserved under a count."""
        return {key for key, counts in self._places.items() if key.cluster == cluster and count in counts}

    def replace(self, holder: Key, old: Row | None, new: Row | None) -> Iterator[tuple[Count, Key]]:
        """Replace the places that a row reserves.

        After each change, yield the count and the object that have to be counted again.
        """
        before = old.reserves if isinstance(old, ReservingRow) else ()
        after = new.reserves if isinstance(new, ReservingRow) else ()
        places: dict[tuple[Hashable, Key], set[Group]] = {(place.of, place.entity): set() for place in before}
        for place in after:
            places.setdefault((place.of, place.entity), set()).add(place.group)
        for (count, entity), groups in places.items():
            assert isinstance(count, Count)
            self._set(count, entity, holder, frozenset(groups))
            yield count, entity

    def _set(self, count: Count, entity: Key, holder: Key, groups: frozenset[Group]) -> None:
        counts = self._places.setdefault(entity, {})
        holders = counts.setdefault(count, {})
        if groups:
            holders[holder] = groups
        else:
            holders.pop(holder, None)
        if not holders:
            del counts[count]
        if not counts:
            del self._places[entity]
