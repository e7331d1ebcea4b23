"""The sinks through which reflectors fill the tables of the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any, Never

from haulout.base.clock import Clock
from haulout.cluster.key import Key
from haulout.cluster.project import Projector, version_number
from haulout.cluster.rows import ObjectRow
from haulout.cluster.store import Listing, Store
from haulout.kube.errors import Overfull, shorten
from haulout.model.meta import ObjectMeta
from haulout.runtime.connections import Connections
from haulout.runtime.metrics import Metrics
from haulout.runtime.outages import Interruptions, Outage

log = logging.getLogger(__name__)

UNREADABLE_AFTER = 60.0
FORBIDDEN_ACT = "grant the right to list and watch this kind (`haulout rbac` prints the roles)"
# The codes of failures that make a table unreadable at once, because its rows cannot be relied upon.
AT_ONCE = frozenset({"unreadable", "overfull"})
# The most characters that are kept of one object of another cluster. API servers limit the lengths of names and labels,
# and Cluster API writes little, so that real objects have fewer. The server of a hostile cluster has no such limits.
MOST_KEPT = 2048
# At most so many broken or oversized objects of a table are reported by name.
MOST_ODD = 1000


class TableSink:
    """The sink of one kind in one cluster. It fills a table of the store and calls `on_change` after each change."""

    def __init__(
        self,
        store: Store,
        projector: Projector,
        clock: Clock,
        metrics: Metrics,
        on_change: Callable[[], None],
        on_outage: Callable[[Outage], None] = lambda outage: None,
        connections: Connections | None = None,
        on_oversized: Callable[[str, str], None] = lambda what, why: None,
        optional: bool = False,
    ) -> None:
        self._store = store
        self._projector = projector
        self._clock = clock
        self._metrics = metrics
        self._on_change = on_change
        self._on_outage = on_outage
        self._connections = connections if projector.cluster else None
        self._kind = projector.resource.kind
        # The kind in metrics. A table with a single object has its namespace and name in the kind. These are left out,
        # because there is such a table for each workload cluster.
        self._plain_kind = self._kind.partition("/")[0]
        self._cluster = projector.cluster
        self._interruptions = Interruptions(self._cluster, self._kind, clock)
        self._on_oversized = on_oversized
        self._optional = optional
        self._troubled_at: float | None = None
        self._why = ""
        self._reported_code = ""
        # Set at each failure, until a minute of failures has made the table unreadable.
        self._in_trouble = asyncio.Event()
        # The objects that have been reported as broken or oversized and still exist, and those of them that a list
        # under way has shown.
        self._odd: set[str] = set()
        self._odd_in_list: set[str] | None = None
        # The objects that a list under way has shown, including broken ones.
        self._listed_count = 0

    @property
    def away(self) -> bool:
        """Whether the table belongs to another cluster than our own."""
        return bool(self._cluster)

    @property
    def is_troubled(self) -> bool:
        """Whether the watch has failed and not resumed yet."""
        return self._troubled_at is not None

    def begin(self) -> None:
        self._store.begin_list(self._cluster, self._kind)
        self._odd_in_list = set()
        self._listed_count = 0

    def put(self, obj: Any) -> None:
        row = self._row(obj)
        if row is None:
            return
        self._take(row)
        if self._projector.left_out:
            self._read_in_part(_name(obj.metadata), self._projector.left_out)

    def _row(self, obj: Any) -> ObjectRow | None:
        """Return the row of an object; None if it is one of another cluster and too large, which is reported."""
        row = self._projector.row(obj)
        if self.away and _length(row) > MOST_KEPT:
            self.report_broken(shorten(_name(obj.metadata)), f"its metadata has more than {MOST_KEPT} characters")
            return None
        return row

    def _take(self, row: ObjectRow) -> None:
        self._count(row.key)
        self._store.put(row)
        self._on_change()

    def _count(self, key: Key | None = None) -> None:
        """Count an object. Raises `Overfull` if there are too many. `key` is None if it could not be decoded."""
        most = self._projector.most
        if not most:
            return
        is_listing = self._odd_in_list is not None
        self._listed_count += is_listing
        rows = self._store.table(self._cluster, self._kind).rows
        number = self._listed_count if is_listing else len(rows) + (key not in rows)
        if number > most:
            raise Overfull(f"it has more than {most} {self._projector.resource.plural}, and they are not read")

    def delete(self, obj: Any) -> None:
        self._store.remove(self._projector.key(obj.metadata), version_number(obj.metadata.resource_version))
        self._odd.discard(_name(obj.metadata))
        self._on_change()

    def end_list(self, version: str, *, future: bool) -> Iterator[None]:
        yield from self._store.ending_list(self._cluster, self._kind, version_number(version), future=future)
        if self._odd_in_list is not None:
            self._odd, self._odd_in_list = self._odd & self._odd_in_list, None
        log.info("listed", extra={"kind": self._kind, "cluster": self._cluster, "version": version})
        self.fine()
        self._on_change()

    def report_broken(self, name: str, why: str) -> None:
        self._count()
        if self._is_news(name):
            log.error(
                "object cannot be read and is left alone", extra={"kind": self._kind, "object": name, "error": why}
            )
        self._metrics.count("haulout_undecodable_objects_total", kind=self._plain_kind)

    def report_oversized(self, metadata: ObjectMeta, length: int) -> None:
        self._read_in_part(_name(metadata), f"it has {length} bytes of JSON")

    def _read_in_part(self, name: str, why: str) -> None:
        if self._is_news(name):
            where = {"kind": self._kind, "cluster": self._cluster, "object": name}
            log.warning("object is too large and is read in part", extra={**where, "why": why})
            self._on_oversized(f"{self._kind} {name}", why)
        self._metrics.count("haulout_oversized_objects_total", kind=self._plain_kind)

    def _is_news(self, name: str) -> bool:
        """Whether the object has not been reported yet: a broken object comes again with every change and list."""
        if self._odd_in_list is not None and len(self._odd_in_list) < MOST_ODD:
            self._odd_in_list.add(name)
        if name in self._odd or len(self._odd) >= MOST_ODD:
            return False
        self._odd.add(name)
        return True

    def trouble(self, code: str, why: str) -> None:
        now = self._clock.monotonic()
        self._troubled_at = now if self._troubled_at is None else self._troubled_at
        self._why = why
        self._in_trouble.set()
        self._interruptions.trouble(code, why)
        if self._connections is not None:
            self._connections.trouble(self._cluster, code, why)
            self._on_change()
        # A failure is logged once, and again when its code changes: a watch may break for one reason and then not
        # recover for another.
        if code != self._reported_code:
            self._reported_code = code
            if self._optional and code == "unreadable":
                # The role is that of an original operator, which reads fewer kinds. So a missing right is no error.
                log.info("kind is left out: the role does not allow to list it", extra={"kind": self._kind})
            else:
                where = {"kind": self._kind, "cluster": self._cluster}
                advice = {"act": FORBIDDEN_ACT} if code == "unreadable" and not self._cluster else {}
                log.warning("watch interrupted", extra={**where, "code": code, "error": why, **advice})
        self._metrics.count("haulout_watch_troubles_total", kind=self._plain_kind, code=code)
        if code in AT_ONCE or self._readable_for() <= 0:
            self._doubt()

    def absent(self, listing: Listing, why: str) -> None:
        """Note that the kind is not served. That is no failure: there is nothing to watch."""
        self._troubled_at = None
        self._in_trouble.clear()
        self._store.set_listing(self._cluster, self._kind, listing, why)
        self._on_change()

    async def watch_over(self) -> Never:
        """Make the table unreadable once its watch has been in trouble for a minute, whether it was listed or not."""
        while True:
            await self._in_trouble.wait()
            await asyncio.sleep(max(self._readable_for(), 0.0))
            if self._troubled_at is not None and self._readable_for() <= 0:
                self._in_trouble.clear()
                self._doubt()

    def _readable_for(self) -> float:
        """Return for how many seconds the rows may still be relied upon if the watch does not recover."""
        since = self._clock.monotonic() if self._troubled_at is None else self._troubled_at
        return since + UNREADABLE_AFTER - self._clock.monotonic()

    def _doubt(self) -> None:
        # Each write wakes all readers of the table, so a new error text alone is not written.
        if self._store.table(self._cluster, self._kind).listing is not Listing.UNREADABLE:
            self._store.set_listing(self._cluster, self._kind, Listing.UNREADABLE, self._why)
            self._on_change()

    def fine(self) -> None:
        self._in_trouble.clear()
        if self._connections is not None:
            self._connections.fine(self._cluster)
            self._on_change()
        if self._troubled_at is not None:
            self._troubled_at, self._reported_code = None, ""
            log.info("watch restored", extra={"kind": self._kind, "cluster": self._cluster})
            if outage := self._interruptions.fine():
                self._on_outage(outage)
        if self._store.table(self._cluster, self._kind).listing is Listing.UNREADABLE:
            self._store.set_listing(self._cluster, self._kind, Listing.LISTED)
            self._on_change()


def _length(row: ObjectRow) -> int:
    """Return the number of characters in the names, labels and annotations of a row."""
    texts = (*row.labels.values(), *row.annotations.values(), row.key.namespace, row.key.name, row.uid)
    return sum(map(len, texts))


def _name(metadata: ObjectMeta) -> str:
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


class TakingOver(TableSink):
    """The sink of a watch that replaces another one.

    The other watch is one of the same kind through another access. It is replaced once this one has listed everything.

    Until then this sink only collects objects. If its watch fails, the table stays as the other watch keeps it.

    `over`: called once the list is complete.
    """

    def __init__(self, *arguments: Any, over: Callable[[], None]) -> None:
        super().__init__(*arguments)
        self._over: Callable[[], None] | None = over
        # Rows, because an object may have a hundred times as much that is not kept.
        self._gathered: dict[Key, ObjectRow] = {}

    def begin(self) -> None:
        if self._over is None:
            super().begin()
        else:
            self._gathered = {}
            self._odd_in_list = set()
            self._listed_count = 0

    def put(self, obj: Any) -> None:
        if self._over is None:
            super().put(obj)
        elif row := self._row(obj):
            self._count()
            self._gathered[row.key] = row

    def delete(self, obj: Any) -> None:
        if self._over is None:
            super().delete(obj)
        else:
            self._gathered.pop(self._projector.key(obj.metadata), None)

    def trouble(self, code: str, why: str) -> None:
        """Report a failure of the new access only. The table is current while the other watch works."""
        if self._over is None:
            super().trouble(code, why)
            return
        if code != self._reported_code:
            self._reported_code = code
            extra = {"kind": self._kind, "cluster": self._cluster, "code": code, "error": why}
            log.warning("the new access does not work yet", extra=extra)
            if self._connections is not None:
                self._connections.astray(self._cluster, why)
                self._on_change()
        self._metrics.count("haulout_watch_troubles_total", kind=self._plain_kind, code=code)

    def report_oversized(self, metadata: ObjectMeta, length: int) -> None:
        """Ignore an oversized object until the takeover: the other watch has reported it."""
        if self._over is None:
            super().report_oversized(metadata, length)

    def end_list(self, version: str, *, future: bool) -> Iterator[None]:
        over, self._over = self._over, None
        if over is not None:
            gathered, self._gathered = self._gathered, {}
            self._reported_code = ""
            over()
            super().begin()
            for row in gathered.values():
                self._take(row)
                yield
            # The new access may lead to another server. Its list counts, even if our rows have greater versions.
            future = True
        yield from super().end_list(version, future=future)
