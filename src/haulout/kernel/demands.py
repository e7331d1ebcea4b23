"""The demands of decisions on the outside world: kinds to be watched, and facts to be probed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from haulout.cluster.key import Key
from haulout.cluster.view import FactDemand
from haulout.core.decision import Source
from haulout.kernel.rooms import Subject


class SourceDemands:
    """The sources that subjects want watched.

    Thousands of subjects may want the same source. So each source has a counter, while other demands are rows.
    """

    def __init__(self) -> None:
        self.wanted: dict[Subject, tuple[Source, ...]] = {}
        self._count: Counter[Source] = Counter()
        self._known: frozenset[Source] | None = None

    def __contains__(self, subject: Subject) -> bool:
        return subject in self.wanted

    def __len__(self) -> int:
        return len(self.wanted)

    def want(self, subject: Subject, sources: tuple[Source, ...]) -> None:
        """Replace the sources that a subject wants."""
        before = self.wanted.get(subject, ())
        if before == sources:
            return
        if sources:
            self.wanted[subject] = sources
        else:
            del self.wanted[subject]
        self._count.update(sources)
        self._count.subtract(before)
        for source in (*sources, *before):
            if self._count[source] in (0, 1):
                self._known = None
            if not self._count[source]:
                del self._count[source]

    def all(self) -> frozenset[Source]:
        """Return all sources that are wanted: the same object for as long as they do not change."""
        if self._known is None:
            self._known = frozenset(self._count)
        return self._known


class FactDemands:
    """The facts that subjects read, each with how often its readers want it renewed."""

    def __init__(self) -> None:
        self._readers: dict[Key, dict[Subject, FactDemand]] = {}

    def __contains__(self, fact: Key) -> bool:
        return fact in self._readers

    def __len__(self) -> int:
        return len(self._readers)

    def want(self, subject: Subject, before: Mapping[Key, FactDemand], after: Mapping[Key, FactDemand]) -> None:
        """Replace the facts that a subject reads."""
        for key in before.keys() - after.keys():
            del self._readers[key][subject]
            if not self._readers[key]:
                del self._readers[key]
        for key, demand in after.items():
            self._readers.setdefault(key, {})[subject] = demand

    def all(self) -> dict[Key, FactDemand]:
        """Return the facts that are read, each at the fastest pace that a reader asks for."""
        return {key: min(each.values(), key=lambda demand: demand.pace_for) for key, each in self._readers.items()}
