"""The subjects that have not been asked yet.

The claims of a surface are known once none of its subjects is among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from haulout.cluster.store import Listing, Store
from haulout.cluster.topics import TableName
from haulout.cluster.view import OWN_KINDS, holds_table
from haulout.core.decision import Decider
from haulout.kernel.rooms import Subject


class Newcomers:
    """The subjects that have not been asked yet, counted by decider and cluster.

    A surface's claims count as listed once its own table is listed and each of its subjects has been asked.
    """

    def __init__(self, store: Store, deciders: Sequence[Decider]) -> None:
        self._store = store
        self._deciders = deciders
        self.subjects: set[Subject] = set()
        self._count: Counter[tuple[str, str]] = Counter()
        for kind in OWN_KINDS:
            self.table_changed(TableName("", kind))

    def __contains__(self, subject: Subject) -> bool:
        return subject in self.subjects

    def __iter__(self) -> Iterator[Subject]:
        return iter(self.subjects)

    def __len__(self) -> int:
        return len(self.subjects)

    def add(self, subject: Subject) -> None:
        if subject not in self.subjects:
            self.subjects.add(subject)
            self._count[subject.decider, subject.key.cluster] += 1

    def discard(self, subjects: Iterable[Subject]) -> None:
        """Forget subjects whose rows were removed before they were asked."""
        for subject in subjects:
            self._remove(subject)

    def on_decision(self, subject: Subject, decider: Decider) -> None:
        """Note that a subject has been asked. After the last one of a decider, the claims of its surface are known."""
        if subject in self.subjects:
            self._remove(subject)
            self._judge(decider, subject.key.cluster)

    def table_changed(self, table: TableName) -> None:
        """Update whether the claims of surfaces are known after their table was listed or became unreadable."""
        for decider in self._deciders:
            if decider.kind == table.kind and decider.cluster in (None, table.cluster):
                self._judge(decider, table.cluster)

    def restart(self, subjects: set[Subject]) -> None:
        """Make all subjects newcomers again, so that no claim counts as known."""
        self.subjects = subjects
        self._count = Counter((subject.decider, subject.key.cluster) for subject in subjects)
        for cluster in self._store.clusters():
            for decider in self._deciders:
                self._store.set_listing(cluster, holds_table(decider.name), Listing.WAITING)
                if decider.cluster in (None, cluster):
                    self._judge(decider, cluster)

    def _remove(self, subject: Subject) -> None:
        if subject in self.subjects:
            self.subjects.discard(subject)
            if not self.subjects:
                # A set does not give back its memory by itself, and after a start it is one of the largest.
                self.subjects = set()
            place = (subject.decider, subject.key.cluster)
            self._count[place] -= 1
            if self._count[place] <= 0:
                del self._count[place]

    def _judge(self, decider: Decider, cluster: str) -> None:
        table = self._store.table(cluster, decider.kind)
        # The process writes rows of its own kinds itself, so they are known without a list. Rows about another cluster
        # make no claims, and a listing for them would outlast the cluster.
        listing = Listing.LISTED if decider.kind in OWN_KINDS and not cluster else table.listing
        if listing is not Listing.LISTED or not self._count[decider.name, cluster]:
            self._store.set_listing(cluster, holds_table(decider.name), listing, table.why)
