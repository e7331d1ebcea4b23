"""What the decisions of the logbook remember until it is written, as marks, and how a claim and its record find each other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec
from msgspec import UNSET

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.store import Index
from haulout.cluster.view import MARK, View
from haulout.core.budgets.declare import GROUP
from haulout.core.holds import LONG_AGO
from haulout.core.logbook.wire import (
    KIND,
    MOST_ENTRIES,
    OPEN_LABEL,
    Certainty,
    Outcome,
    Phase,
    RecordedAct,
    RecordRow,
    Waited,
)
from haulout.core.reason import Reason
from haulout.core.refusals import find_refusal

# The label by which a claim that has begun finds its open record, and the annotation with the part of the owner's work.
CLAIM_LABEL, PART = f"{GROUP}/claim", f"{GROUP}/part"
# The longest waits are recorded.
MOST_WAITS = 16
# Whatever took less than this was no wait that people ask about.
SHORTEST_WAIT_FOR = timedelta(seconds=1)

Cause = tuple[str, str]


class Waits(msgspec.Struct, frozen=True):
    """What a maintenance waits for, and has waited for, by reason code and subject.

    `since`: the causes of now, each since when. `waited`: how long earlier causes lasted.
    `first`: when each of all these causes was first seen.
    """

    since: tuple[tuple[Cause, datetime], ...] = ()
    waited: tuple[tuple[Cause, timedelta], ...] = ()
    first: tuple[tuple[Cause, datetime], ...] = ()

    def seen(self, causes: Iterable[Cause], now: datetime) -> Waits:
        """Return the waits after a look that found these causes."""
        found = sorted(set(causes))
        known = dict(self.since)
        if found == sorted(known):
            return self
        waited = dict(self.waited)
        for cause, since in self.since:
            if cause not in found:
                waited[cause] = waited.get(cause, timedelta()) + max(now - since, timedelta())
        longest = sorted(waited.items(), key=lambda each: -each[1])[:MOST_WAITS]
        since_now = {cause: known.get(cause, now) for cause in found}
        kept = {*found, *(cause for cause, _ in longest)}
        first = {**since_now, **dict(self.first)}
        return Waits(tuple(since_now.items()), tuple(longest), tuple(each for each in first.items() if each[0] in kept))

    def ended(self, now: datetime) -> tuple[Waited, ...]:
        """Return all waits as they are recorded, the longest first."""
        waited, first = dict(self.seen((), now).waited), dict(self.first)
        return tuple(
            Waited(code, subject, int(span.total_seconds()), first.get((code, subject), UNSET))
            for (code, subject), span in sorted(waited.items(), key=lambda each: (-each[1], each[0]))
            if span >= SHORTEST_WAIT_FOR
        )


class WaitingNote(Row, frozen=True, kw_only=True):
    """What a claim that has not begun has waited for since the operator knows it, and the limits that it needs."""

    waits: Waits = Waits()
    limits: tuple[str, ...] = ()


class BegunNote(Row, frozen=True, kw_only=True):
    """A claim that has begun, until it ends: which record it has.

    `record`: the name of its record. `is_recorded`: the record exists or existed.
    `body`: the record as it is to be created. `node`: the name of the Node.
    `ended_at`: when the claim ended before its record was made; None: it has not ended.
    """

    record: str
    is_recorded: bool = False
    body: bytes = b""
    node: str = ""
    ended_at: datetime | None = None


def _node_of_unrecorded(row: Row) -> tuple[str, ...]:
    return (row.node,) if isinstance(row, BegunNote) and not row.is_recorded else ()


UNRECORDED_OF_NODE = Index("unrecorded-of-node", MARK, _node_of_unrecorded)


class MovedPods(Row, frozen=True, kw_only=True):
    """How many pods of a node were made to go while a claim on it has begun. The kernel counts answers of the API server.

    `before`: the counts when each maintenance began, by the name of its record.
    """

    evicted: int = 0
    deleted: int = 0
    before: tuple[tuple[str, int, int], ...] = ()

    def began(self, record: str) -> MovedPods:
        """Return the counts with those of a maintenance that begins now."""
        if any(name == record for name, _, _ in self.before):
            return self
        return msgspec.structs.replace(self, before=(*self.before, (record, self.evicted, self.deleted)))

    def since(self, record: str) -> tuple[int, int]:
        """Return how many pods were evicted and deleted since a maintenance began."""
        evicted, deleted = next(((one, two) for name, one, two in self.before if name == record), (0, 0))
        return self.evicted - evicted, self.deleted - deleted


class RefusedNote(Row, frozen=True, kw_only=True):
    """A record that the API server refuses to create or to close. `why`: its error."""

    why: str


class Progress(Row, frozen=True, kw_only=True):
    """What the operator has seen of a maintenance whose record is open.

    `outcome`: how it would have ended at the last look. `error`: why it would have failed. `drains`: a drain has begun.
    `ignored`: how many pods the drain has left on the node.
    """

    outcome: Outcome | None = None
    error: str = ""
    phases: tuple[Phase, ...] = ()
    waits: Waits = Waits()
    acts: tuple[RecordedAct, ...] = ()
    drains: bool = False
    ignored: int = 0

    def has(self, phase: str) -> bool:
        return any(each.name == phase for each in self.phases)

    def entered(self, phase: str, now: datetime, certainty: Certainty) -> Progress:
        """Return the progress after a phase has been seen."""
        if self.has(phase) or len(self.phases) >= MOST_ENTRIES:
            return self
        return msgspec.structs.replace(self, phases=(*self.phases, Phase(phase, now, certainty)))


def subject_of(reason: Reason) -> Cause:
    """Return the code of a reason and the object that it is about."""
    return reason.code, name_of(reason.subject)


def name_of(key: Key) -> str:
    return "/".join(filter(None, (key.kind, key.namespace, key.name)))


def claim_id(surface: str, owner: str, node: NodeRow, part: str) -> str:
    """Return the text by which a claim that has begun finds its open record. `owner`: the UID of the owner."""
    return _digest(surface, owner, node.uid, part)


def record_name(surface: str, owner: str, node: NodeRow, part: str, occasion: str) -> str:
    """Return the name of the record: the same after a restart, a crash or a change of the leader."""
    return f"{surface}-{_digest(owner, node.uid, part, occasion)}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def note_key(kind: str, name: str, cluster: str = "") -> Key:
    return Key(cluster, MARK, f"logbook-{kind}", name)


def _claim_of(row: Row) -> tuple[str, ...]:
    is_open = isinstance(row, RecordRow) and row.labels.get(OPEN_LABEL) == "true"
    return (row.labels.get(CLAIM_LABEL, ""),) if is_open and isinstance(row, RecordRow) else ()


RECORDS_OF_CLAIM = Index("open-records-of-claim", KIND, _claim_of)


def later(one: datetime | None, other: datetime) -> datetime:
    """Return an instant that is stored, unless it is unknown or lies in the future."""
    return other if one is None or one == LONG_AGO else min(one, other)


def refusal_note(record: str, outcome: str, view: View) -> RefusedNote | None:
    """Return the note that a write of a record is refused; None if it is not. `outcome`: the name of its outcome row."""
    refusal = find_refusal(view, outcome)
    return RefusedNote(key=note_key("refused", record), why=refusal.message) if refusal is not None else None


def _if_refused(row: Row) -> tuple[bool, ...]:
    return (True,) if isinstance(row, RefusedNote) else ()


REFUSED_RECORDS = Index("refused-records", MARK, _if_refused)
