"""The picture of all clusters in memory. Every row enters in the same way, and every change names its topics.

A topic is something that a decision can have read: a row (named by its key), a bucket of an index, a count, or whether
a table has been listed. Only the loop writes to the store.

See decision 0102.
"""

from __future__ import annotations

import bisect
import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import datetime
from enum import Enum

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.limits import NOWHERE, Count, Group, Limit, Tally
from haulout.cluster.reservations import ReservedPlaces
from haulout.cluster.rows import ReservingRow, Row
from haulout.cluster.topics import Bucket, CountOf, TableName, Topic

# So many counts may exist before the store first asks which of them have a reader.
COUNTS_AT_FIRST = 16


class Listing(Enum):
    """Whether a table can be relied upon.

    UNREADABLE: the server refused, or gave no answer for a minute. The rows may be wrong.
    """

    WAITING = "waiting"
    LISTED = "listed"
    UNREADABLE = "unreadable"


class Index(msgspec.Struct, frozen=True):
    """Buckets of one kind's rows. `values` returns the buckets that a row belongs to."""

    name: str
    kind: str
    values: Callable[[Row], Iterable[Hashable]]


class Table:
    """The rows of one kind in one cluster. The store keeps it only while there is something in it (K17)."""

    def __init__(self, name: TableName) -> None:
        self.name = name
        self.rows: dict[Key, Row] = {}
        self.listing = Listing.WAITING
        self.why = ""
        # The version of the last full list.
        self.version = 0
        # The members of a bucket are kept in order. Sorting them at each look, or searching them for each removal,
        # would make the drain of a node with thousands of pods quadratic. A set takes nine times as much memory.
        self.indexes: dict[str, tuple[Index, dict[Hashable, list[Key]]]] = {}
        self.tallies: dict[Count, Tally] = {}
        # Rows as they will be once our writes under way have been stored.
        self.expected: dict[Key, Row] = {}
        # While a list is read: the keys that it has shown so far, with the listed row where ours is newer.
        self.seen: dict[Key, Row | None] | None = None

    @property
    def is_void(self) -> bool:
        """Whether the table says nothing more than a table that does not exist."""
        return (
            not (self.rows or self.expected or self.tallies or self.why)
            and self.seen is None
            and self.listing is Listing.WAITING
        )


class Store:
    """All tables of all clusters, with their indexes and counts, and the topics that have changed."""

    def __init__(self) -> None:
        # By cluster and kind, as any tuple: making a TableName for each look would cost more. Only the store changes it.
        self.tables: dict[tuple[str, str], Table] = {}
        # The indexes that decisions have read, by kind. A table that is opened again needs them from its first row on,
        # because the readers of an empty bucket are woken when it fills.
        self._indexes: dict[str, dict[str, Index]] = {}
        # The tables with counts: only these change with time alone.
        self._counted: dict[tuple[str, str], Table] = {}
        # Closed tables some of whose rows have not been announced as gone. Their rows cannot be read any more.
        self._departing: deque[Table] = deque()
        self._open: dict[Key, int] = {}
        self._open_tables: dict[tuple[str, str], int] = {}
        self._buried: dict[Key, int] = {}
        self._reserved = ReservedPlaces()
        # The topics that have changed since `take_changes`, and the places that have come free. Only the store adds to them.
        self.changed: set[Topic] = set()
        self.freed: set[CountOf] = set()
        # The keys of new rows. Each of them is a changed topic, too.
        self._arrived: list[Key] = []
        self.on_version: Callable[[Key], None] = lambda key: None
        self.on_replaced: Callable[[Key], None] = lambda key: None
        self.on_listed: Callable[[TableName], None] = lambda table: None
        # Called with a table whose list has shown an earlier state than ours: a backup of the storage was restored.
        self.on_rewound: Callable[[TableName], None] = lambda table: None
        self.now: datetime | None = None
        # Some counts may have no reader any more: a table with counts was closed, or there are twice as many counts as
        # had a reader at the last look. Each count costs time at every change of a row, and budgets come and go.
        self.has_idle_counts = False
        self._counts, self._most_counts = 0, COUNTS_AT_FIRST

    def table(self, cluster: str, kind: str) -> Table:
        """Return a table to read. If it does not exist, return an empty one that the store does not keep."""
        return self.tables.get((cluster, kind)) or Table(TableName(cluster, kind))

    def unreadable(self, cluster: str) -> list[Table]:
        """Return the tables of a cluster that cannot be read, by kind."""
        found = (table for table in self.tables.values() if table.listing is Listing.UNREADABLE)
        return sorted((table for table in found if table.name.cluster == cluster), key=lambda table: table.name.kind)

    def _table(self, cluster: str, kind: str) -> Table:
        """Return a table to write to. If it does not exist, create it."""
        found = self.tables.get((cluster, kind))
        if found is None:
            name = TableName(cluster, kind)
            found = self.tables[name] = Table(name)
            for index in self._indexes.get(kind, {}).values():
                found.indexes[index.name] = (index, {})
        return found

    def _tidy(self, table: Table) -> None:
        """Forget a table in which nothing is left to remember."""
        if table.is_void:
            self.tables.pop(table.name, None)

    def row(self, key: Key) -> Row | None:
        table = self.tables.get(key[:2])
        return table.rows.get(key) if table is not None else None

    def rows(self, cluster: str, kind: str) -> list[Row]:
        """Return the current rows, in no order. Other threads may call it, because it changes nothing."""
        table = self.tables.get((cluster, kind))
        return list(table.rows.values()) if table is not None else []

    def listing(self, cluster: str, kind: str) -> Listing:
        """Return whether a table is listed. Other threads may call it."""
        table = self.tables.get((cluster, kind))
        return table.listing if table is not None else Listing.WAITING

    def clusters(self) -> set[str]:
        return {cluster for cluster, _ in self.tables}

    def keys(self, cluster: str, kind: str) -> list[Key]:
        return sorted(self.table(cluster, kind).rows)

    def keep_index(self, index: Index) -> None:
        """Maintain an index from now on, so that its topics change even before a bucket of it is first read."""
        self._indexes.setdefault(index.kind, {}).setdefault(index.name, index)

    def bucket(self, index: Index, cluster: str, value: Hashable) -> list[Row]:
        """Return the rows of a bucket, in the order of their keys."""
        table = self.tables.get((cluster, index.kind))
        if table is None:
            self.keep_index(index)
            return []
        known = table.indexes.get(index.name)
        members = (known[1] if known is not None else self._buckets(table, index)).get(value)
        if not members:
            return []
        rows = table.rows
        return [rows[key] for key in members]

    def stored_count(self, cluster: str, count: Count, group: Group) -> int:
        return self._tally(cluster, count).stored[group]

    def has_room(self, limit: Limit) -> bool:
        return self._tally(limit.cluster, limit.count).has_room(limit.group, limit.most)

    def takers(self, limit: Limit) -> list[Key]:
        return self._tally(limit.cluster, limit.count).members(limit.group)

    def put(self, row: Row) -> None:
        """Take in a row from a list or a watch.

        It counts as shown by a list that is being read. The answer to a write does not, see `answer`.
        """
        table = self._table(row.key.cluster, row.key.kind)
        is_news = self._take(table, row)
        if table.seen is not None:
            table.seen[row.key] = None if is_news else row

    def _take(self, table: Table, row: Row) -> bool:
        """Take in a row unless ours is newer: of one object the greater version wins. Return whether it was taken."""
        key = row.key
        old = table.rows.get(key)
        if old is None:
            self._depart_before(key)
            if row.version <= self._buried.get(key, -1):
                return False
        elif row.version < old.version:
            return False
        elif row.uid != old.uid:
            self._drop(table, key, row.version)
            old = None
        else:
            version = row.version
            msgspec.structs.force_setattr(row, "version", old.version)
            equal = row == old
            msgspec.structs.force_setattr(row, "version", version)
            if equal:
                # Decisions keep a reference to the row. The object stays the same, so that `is` shows whether a row is
                # still as it was decided upon.
                if version > old.version:
                    msgspec.structs.force_setattr(old, "version", version)
                    self.on_version(key)
                return True
        if old is None:
            self._arrived.append(key)
        else:
            # The table, its indexes and the records of decisions keep the first key. A second one that is equal to it
            # would take 160 bytes for each row that has ever changed.
            key = old.key
            msgspec.structs.force_setattr(row, "key", key)
        self._replace(table, key, old, row)
        self.on_version(key)
        return True

    def answer(self, row: Row) -> None:
        """Take in the answer to a write or a look. A kind that is not watched gets no row from it."""
        table = self.tables.get((row.key.cluster, row.key.kind))
        if table is not None and (table.listing is Listing.LISTED or row.key in table.rows):
            self._take(table, row)

    def remove(self, key: Key, version: int) -> None:
        """Remove the row of an object that no longer exists as of this version."""
        table = self.tables.get((key.cluster, key.kind))
        old = table.rows.get(key) if table is not None else None
        if table is not None and old is not None and old.version <= version:
            self._drop(table, key, version)
            self._tidy(table)
        elif old is None:
            self._bury(key, version)

    def write(self, row: Row) -> bool:
        """Write a row of our own, such as a hold, a fact or configuration. Return whether it has changed."""
        key = row.key
        table = self.tables.get(key[:2]) or self._table(key.cluster, key.kind)
        old = table.rows.get(key)
        if old == row:
            return False
        self._replace(table, key, old, row)
        if old is None:
            self._arrived.append(key)
        return True

    def erase(self, key: Key) -> None:
        table = self.tables.get((key.cluster, key.kind))
        if table is not None and key in table.rows:
            self._drop(table, key, -1)
            self._tidy(table)

    def begin_list(self, cluster: str, kind: str) -> None:
        """Begin a full list. A list that was begun and not finished is abandoned."""
        self._table(cluster, kind).seen = {}

    def end_list(self, cluster: str, kind: str, version: int, *, future: bool = False) -> None:
        """End a list: remove the rows that it did not show, except those that are newer than the list.

        `future`: the server has older versions than we do, as after a restored backup. Then the list replaces all rows.
        """
        for _ in self.ending_list(cluster, kind, version, future=future):
            pass

    def ending_list(self, cluster: str, kind: str, version: int, *, future: bool = False) -> Iterator[None]:
        """Complete a list as `end_list` does, in steps of one row each. After the last step the table is listed.

        Other work may go on between two steps. It finds the table as if a watch had brought each change. If the steps
        are not taken to their end, the list was not finished.
        """
        table = self._table(cluster, kind)
        seen = table.seen = table.seen if table.seen is not None else {}
        # Without a version the kind is not served any more. That says nothing about the storage.
        is_rewound = 0 < version < table.version
        for key in [key for key in table.rows if key not in seen]:
            row = table.rows.get(key)
            if row is not None and (future or row.version <= version):
                is_rewound |= 0 < version < row.version
                self._drop(table, key, -1 if future else version)
                yield
        for key in [key for key in self._open if (key.cluster, key.kind) == table.name and key not in table.rows]:
            # A late answer must not bring back an object that the list did not show, even one that we did not know.
            self._bury(key, version)
        # What the list shows of an object is its newest state up to `version`. If our row is newer than that, and not newer
        # than the list, it is from a history that the server has lost: a backup was restored, and the versions have caught
        # up since.
        for key, row in [(key, row) for key, row in seen.items() if row is not None]:
            if future or self._known_version(table, key) <= version:
                is_rewound = True
                if key in table.rows:
                    self._drop(table, key, -1)
                self._buried.pop(key, None)
                self._take(table, row)
                yield
        table.seen = None
        table.version = version
        if is_rewound:
            self.on_rewound(table.name)
        self.set_listing(cluster, kind, Listing.LISTED)
        self.on_listed(table.name)

    def _known_version(self, table: Table, key: Key) -> int:
        row = table.rows.get(key)
        return row.version if row is not None else self._buried.get(key, -1)

    def take_bucket(self, index: Index, cluster: str, value: Hashable, rows: Iterable[Row], version: int) -> None:
        """Take in a complete list of one bucket, as it was at `version`.

        Rows of the bucket that it did not show are removed, unless they are newer. If a later full list did not show an
        object, this list adds no row for it. Call `hold_table` before the list is sent, so that deletions seen
        meanwhile are remembered.
        """
        table = self.table(cluster, index.kind)
        adds = table.listing is Listing.LISTED and version >= table.version
        keys: set[Key] = set()
        for row in rows:
            keys.add(row.key)
            if adds or row.key in table.rows:
                self._take(table, row)
        for row in self.bucket(index, cluster, value):
            if row.key not in keys and row.version <= version:
                # An object of the same name may be in another bucket, so only the version in this row is known to be
                # gone.
                self._drop(table, row.key, row.version)

    def set_listing(self, cluster: str, kind: str, listing: Listing, why: str = "") -> None:
        if listing is Listing.WAITING and not why and (cluster, kind) not in self.tables:
            return
        table = self._table(cluster, kind)
        if (table.listing, table.why) != (listing, why):
            table.listing, table.why = listing, why
            self.changed.add(table.name)
            self._tidy(table)

    def close(self, cluster: str, kind: str) -> None:
        """Close the table of a kind that is no longer watched. It counts as never listed, and its rows cannot be read.

        `depart` announces its rows as gone, a few at a time, because there may be thousands.
        """
        table = self.tables.pop((cluster, kind), None)
        if table is None:
            return
        self.has_idle_counts |= self._counted.pop(table.name, None) is not None
        if table.rows:
            self._departing.append(table)
        if table.listing is not Listing.WAITING or table.why:
            self.changed.add(table.name)
        created = {key: row for key, row in table.expected.items() if key not in table.rows}
        if created:
            # Objects that a write under way creates and that no list has shown. They stay expected until the write is
            # answered.
            self._table(cluster, kind).expected = created
            table.expected = {key: row for key, row in table.expected.items() if key in table.rows}
        for count in table.tallies:
            # Places that are reserved or expected stay taken, and the subjects that wait for them are woken when they
            # come free.
            self._tally(cluster, count)

    def depart(self, most: int) -> None:
        """Announce at most so many rows of closed tables as gone. `has_departing` says whether there are more."""
        while self._departing and most > 0:
            table = self._departing[0]
            for key in list(itertools.islice(table.rows, most)):
                self._drop(table, key, -1)
                most -= 1
            if not table.rows:
                self._departing.popleft()

    @property
    def has_departing(self) -> bool:
        return bool(self._departing)

    def _depart_before(self, key: Key) -> None:
        """Announce that the object of a closed table is gone, before a new row enters under its name."""
        for table in self._departing:
            if key in table.rows:
                self._drop(table, key, -1)

    def hold_open(self, key: Key) -> None:
        """Remember deletions of this object while a write or a look of it is under way."""
        self._open[key] = self._open.get(key, 0) + 1

    def let_go(self, key: Key) -> None:
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]
            if key[:2] not in self._open_tables:
                self._buried.pop(key, None)

    def hold_table(self, cluster: str, kind: str) -> None:
        """Remember every deletion in this table, while a list of a part of it is under way."""
        self._open_tables[cluster, kind] = self._open_tables.get((cluster, kind), 0) + 1

    def let_go_table(self, cluster: str, kind: str) -> None:
        name = (cluster, kind)
        self._open_tables[name] -= 1
        if not self._open_tables[name]:
            del self._open_tables[name]
            for key in [key for key in self._buried if key[:2] == name and key not in self._open]:
                del self._buried[key]

    def expect(self, row: Row) -> None:
        """Count an object under every limit as a write under way will make it."""
        self._depart_before(row.key)
        table = self._table(row.key.cluster, row.key.kind)
        table.expected[row.key] = row
        self._recount(table, row.key)

    def settle(self, key: Key) -> None:
        table = self.tables.get((key.cluster, key.kind))
        if table is not None and table.expected.pop(key, None) is not None:
            self._recount(table, key)
            self._tidy(table)

    def expects(self, key: Key) -> Row | None:
        return self.table(key.cluster, key.kind).expected.get(key)

    def take_changes(self) -> tuple[set[Topic], set[CountOf], list[Key]]:
        """Return what has changed since the last call: topics, places that came free, and new keys."""
        changed, freed, arrived = self.changed, self.freed, self._arrived
        self.changed, self.freed, self._arrived = set(), set(), []
        return changed, freed, arrived

    def pass_time(self, now: datetime) -> None:
        """Update the counts of memberships that end with time."""
        self.now = now
        for table in self._counted.values():
            for tally in table.tallies.values():
                # Checked here and not in `take_ended`, because this runs for every event of every watch.
                if tally.ends and tally.ends[0][0] <= now:
                    for entity in list(tally.take_ended(now)):
                        self._recount_in(table, tally, entity)

    def next_instant(self) -> datetime | None:
        ends = (tally.next_end() for table in self._counted.values() for tally in table.tallies.values())
        return min((end for end in ends if end is not None), default=None)

    def forget_counts(self, read: set[tuple[str, Count]]) -> None:
        """Keep only the counts that subjects have read. After a change of the configuration they read others."""
        for table in list(self._counted.values()):
            for count in [count for count in table.tallies if (table.name.cluster, count) not in read]:
                del table.tallies[count]
            if not table.tallies:
                del self._counted[table.name]
                self._tidy(table)
        self._counts = sum(len(table.tallies) for table in self._counted.values())
        self._most_counts = 2 * self._counts + COUNTS_AT_FIRST
        self.has_idle_counts = False

    def size(self) -> int:
        """Return how many entries are remembered besides rows; tests compare it before and after churn."""
        extra = len(self._open) + len(self._open_tables) + len(self._buried) + len(self._reserved)
        extra += sum(len(table.rows) for table in self._departing)
        return extra + sum(len(table.expected) for table in self.tables.values())

    def _replace(self, table: Table, key: Key, old: Row | None, new: Row | None) -> None:
        if new is None:
            del table.rows[key]
        else:
            table.rows[key] = new
        changed, cluster = self.changed, key.cluster
        changed.add(key)
        for index, buckets in table.indexes.values():
            before = tuple(index.values(old)) if old is not None else ()
            after = tuple(index.values(new)) if new is not None else ()
            for value in before:
                changed.add(Bucket(index.name, cluster, value))
            if before == after:
                # Most rows stay where they are.
                continue
            for value in after:
                changed.add(Bucket(index.name, cluster, value))
            for value in {*before}.difference(after):
                _leave(buckets, value, key)
            for value in {*after}.difference(before):
                bisect.insort(buckets.setdefault(value, []), key)
        if isinstance(old, ReservingRow) or isinstance(new, ReservingRow):
            self._reserve(key, old, new)
        if table.tallies:
            self._recount(table, key)

    def _drop(self, table: Table, key: Key, version: int) -> None:
        self._replace(table, key, table.rows[key], None)
        self._bury(key, version)
        if table.expected.pop(key, None) is not None:
            self._recount(table, key)
        self.on_replaced(key)

    def _bury(self, key: Key, version: int) -> None:
        """Remember the version as of which an object is gone, while a write, look or list of it is under way."""
        if version >= 0 and (key in self._open or key[:2] in self._open_tables):
            self._buried[key] = max(version, self._buried.get(key, -1))

    def _buckets(self, table: Table, index: Index) -> dict[Hashable, list[Key]]:
        """Return the buckets of an index that the table does not have yet, and keep them from now on."""
        self.keep_index(index)
        buckets: dict[Hashable, list[Key]] = {}
        for key, row in table.rows.items():
            for value in set(index.values(row)):
                buckets.setdefault(value, []).append(key)
        for members in buckets.values():
            members.sort()
        table.indexes[index.name] = (index, buckets)
        return buckets

    def _tally(self, cluster: str, count: Count) -> Tally:
        kind = count.kind
        table = self.tables.get((cluster, kind)) or self._table(cluster, kind)
        tally = table.tallies.get(count)
        if tally is None:
            tally = table.tallies[count] = Tally(count)
            self._counted[table.name] = table
            self._counts += 1
            self.has_idle_counts |= self._counts > self._most_counts
            for entity in {*table.rows, *table.expected, *self._reserved.entities(cluster, count)}:
                tally.update(entity, *self._standing(table, entity, count), self.now)
        return tally

    def _standing(self, table: Table, entity: Key, count: Count) -> tuple[Row | None, Row | None, frozenset[Group]]:
        return table.rows.get(entity), table.expected.get(entity), self._reserved.groups(entity, count)

    def _recount(self, table: Table, entity: Key) -> None:
        """Count a row under every limit.

        What all counts share is looked up once, because there may be as many as profiles.
        """
        if not table.tallies:
            return
        stored, expected = table.rows.get(entity), table.expected.get(entity)
        is_reserved = entity in self._reserved
        for tally in table.tallies.values():
            places = self._reserved.groups(entity, tally.count) if is_reserved else NOWHERE
            self._say(table, tally.count, *tally.update(entity, stored, expected, places, self.now))

    def _recount_in(self, table: Table, tally: Tally, entity: Key) -> None:
        self._say(table, tally.count, *tally.update(entity, *self._standing(table, entity, tally.count), self.now))

    def _say(self, table: Table, count: Count, changed: frozenset[Group], freed: frozenset[Group]) -> None:
        if changed:
            self.changed.update(CountOf(table.name.cluster, count, group) for group in changed)
        if freed:
            self.freed.update(CountOf(table.name.cluster, count, group) for group in freed)

    def _reserve(self, holder: Key, old: Row | None, new: Row | None) -> None:
        for count, entity in self._reserved.replace(holder, old, new):
            table = self.tables.get((entity.cluster, count.kind))
            if table is not None and count in table.tallies:
                self._recount_in(table, table.tallies[count], entity)


def _leave(buckets: dict[Hashable, list[Key]], value: Hashable, key: Key) -> None:
    members = buckets[value]
    del members[bisect.bisect_left(members, key)]
    if not members:
        del buckets[value]
