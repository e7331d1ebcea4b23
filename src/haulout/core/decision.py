"""Decision functions and their answers."""

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
    """A kind that is to be watched in a cluster.

    `keep`: what is kept of its objects. `access`: how to reach the cluster; None: it is the home cluster.
    """

    cluster: str
    kind: str
    keep: Keep = Keep()
    access: Hashable = None


class Decision(msgspec.Struct, frozen=True):
    """The answer of a decision function: what it wants done, what it claims, and why.

    `actions`: steps in their order.
    `claims`: all claims, whether they are granted or not.
    `until`: the instant before which time alone does not change the answer.
    `grants`: the arbiter's answers to holds.
    `sources`: kinds that have to be watched because of this answer.
    `marks`: rows that other decisions count or read.
    """

    actions: tuple[Step, ...] = ()
    claims: tuple[Claim, ...] = ()
    until: datetime | None = None
    reasons: tuple[Reason, ...] = ()
    grants: tuple[Grant, ...] = ()
    sources: tuple[Source, ...] = ()
    marks: tuple[Row, ...] = ()


STATEMENTS = (Tell, Measure, Say)


def ensure_hashable(decision: Decision) -> None:
    """Raise TypeError unless every value that the kernel compares by its hash is hashable.

    These are keys, claims, sources, statements and the targets of actions. A value that is not hashable, such as a list
    in a field of a plugin's log line, is a fault of that decision. The bodies of patches and messages need not be
    hashable.
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
            hash(action if isinstance(action, STATEMENTS) else getattr(action, "target", None))


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
    """A decision function, with the rows that it runs for: each row of `kind`, in every cluster or in `cluster`.

    `phase`: of the decisions that are due, those of an earlier phase run first, so that the arbiter sees all claims of
    an instant.
    `rank`: the order within a phase.
    `nodes`: the nodes on which nothing new is granted while this decision fails.
    `within`: the surface that it claims for, where that has another name.
    `edits`: how often it may edit one object within ten seconds before it is slowed down (K9).
    `touches`: the Nodes and other objects whose pause holds its disruptive actions back, beside those that it claims or
    writes. None: those in `nodes` of any decision about the kind.
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
    touches: Callable[[Key, Store], Iterable[Key]] | None = None

    @property
    def surface(self) -> str:
        return self.within or self.name

    @property
    def is_ranked(self) -> bool:
        """Whether its subjects have an order within a phase, besides that of their keys."""
        return self.rank is not _alike


def earliest(*instants: datetime | None) -> datetime | None:
    first: datetime | None = None
    for instant in instants:
        if instant is not None and (first is None or instant < first):
            first = instant
    return first
