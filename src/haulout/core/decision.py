"""What a decision function answers, and what a decision function is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.project import Keep
from haulout.cluster.rows import Row
from haulout.cluster.store import Store
from haulout.cluster.view import View
from haulout.core.action import Measure, Say, Step, Tell
from haulout.core.holds import Claim, Grant, Rank
from haulout.core.reason import Reason


class Source(msgspec.Struct, frozen=True):
    """A kind to be watched in a cluster, what is kept of it, and how to get to that cluster (None: the home cluster)."""

    cluster: str
    kind: str
    keep: Keep = Keep()
    access: Hashable = None


class Decision(msgspec.Struct, frozen=True):
    """The answer of a decision function: what it wants done, what it claims, and why.

    Steps are in order, and claims are made whether granted or not.
    `until`: the instant before which time alone does not change the answer.

    `marks` are rows for others to count: what is known of a key from several tables at once.
    """

    actions: tuple[Step, ...] = ()
    claims: tuple[Claim, ...] = ()
    until: datetime | None = None
    reasons: tuple[Reason, ...] = ()
    grants: tuple[Grant, ...] = ()
    sources: tuple[Source, ...] = ()
    marks: tuple[Row, ...] = ()


def ensure_hashable(decision: Decision) -> None:
    """Raise TypeError unless everything is hashable by which the kernel tells things apart.

    These are keys, claims, sources, statements and the targets of actions. What is not, as a list in the field of a
    plugin's log line, is a fault of the decision that has it. The bodies of patches and messages are sent as they are.
    """
    if decision.claims:
        hash(decision.claims)
    if decision.sources:
        hash(decision.sources)
    for grant in decision.grants:
        hash(grant.key)
    for mark in decision.marks:
        hash(mark.key)
    for step in decision.actions:
        for action in step:
            hash(action if isinstance(action, Tell | Measure | Say) else getattr(action, "target", None))


NOTHING = Decision()
Decide = Callable[[Key, View, datetime], Decision]


ALIKE = Rank()


def _alike(key: Key, store: Store) -> Rank:
    return ALIKE


def _itself(key: Key, store: Store) -> Iterable[Key]:
    return (key,) if key.kind == "Node" else ()


# A subject that edits one object more often than this within ten seconds reacts to its own edits.
USUAL_EDITS = 20


class Decider(msgspec.Struct, frozen=True):
    """A decision function and the rows that it is asked for: each row of `kind`, in every cluster or the given one.

    Keys of an earlier phase are asked first, so that the arbiter sees all the claims of an instant. `nodes` says on
    whose grants a decision that throws must not be trusted. `within`: the surface that it belongs to, where that has
    another name: what it claims, it claims for that. `edits`: how often it may edit one object within ten seconds before
    it is slowed down (K9).
    """

    name: str
    kind: str
    decide: Decide
    phase: int = 0
    cluster: str | None = ""
    rank: Callable[[Key, Store], Rank] = _alike
    nodes: Callable[[Key, Store], Iterable[Key]] = _itself
    within: str = ""
    edits: int = USUAL_EDITS

    @property
    def surface(self) -> str:
        return self.within or self.name


def earliest(*instants: datetime | None) -> datetime | None:
    known = [instant for instant in instants if instant is not None]
    return min(known) if known else None
