"""The decision about one node: a record for each maintenance that has begun on it (K23).

A maintenance that has an open record gets no other one. So a claim that takes another form in the middle of it, such as that
of a profile whose drain is followed by its maintenance, stays one maintenance. The name of a record follows from stored
objects alone: a create that was sent before a crash and is sent again is refused, and that refusal is success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from haulout.base.bounds import text
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, ObjectRow, Row
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.core.action import Create, Refusal
from haulout.core.budgets.declare import GROUP
from haulout.core.decision import NOTHING, Decision
from haulout.core.holds import HOLDS_OF_NODE, LONG_AGO, Claim, Grant, Hold, grant_key
from haulout.core.logbook.account import Account, SurfaceLogbook
from haulout.core.logbook.notes import (
    CLAIM_LABEL,
    PART,
    RECORDS_OF_CLAIM,
    UNRECORDED_OF_NODE,
    BegunNote,
    MovedPods,
    WaitingNote,
    claim_id,
    name_of,
    note_key,
    record_name,
    refusal_note,
    subject_of,
)
from haulout.core.logbook.options import NAME, LogbookOptions
from haulout.core.logbook.requester import proof_key, requester_of
from haulout.core.logbook.wire import (
    KIND,
    LONGEST_REASON,
    LONGEST_SUBJECT,
    MOST_ENTRIES,
    OPEN_LABEL,
    Certainty,
    Phase,
    RecordedNode,
    RecordedOwner,
    RecordRow,
    RecordSpec,
    RecordStatus,
)
from haulout.core.pause import CODE as PAUSED
from haulout.core.pause import pause_of_node, pause_of_object
from haulout.core.reason import Reason

# The record of a maintenance that has ended is tried for so long, where it could not be made before.
TRIED_FOR = timedelta(hours=1)

# The surfaces whose claims are recorded, by the names of the decisions that make the claims: the name that records
# have, and how to learn about its maintenances.
Logbooks = Mapping[str, tuple[str, SurfaceLogbook]]


def decide_with(logbooks: Logbooks) -> Callable[[Key, View, datetime], Decision]:
    """Return the decision for these surfaces."""

    def decide(key: Key, view: View, now: datetime) -> Decision:
        rows = view.rows(HOLDS_OF_NODE, key, Row, key.cluster)
        holds = [row for row in rows if isinstance(row, Hold) and row.key.namespace in logbooks]
        unrecorded = view.recall_rows(UNRECORDED_OF_NODE, key.name, BegunNote)
        if not holds and not unrecorded:
            return NOTHING
        setting = view.config(NAME)
        if setting is None or not isinstance(setting.value, LogbookOptions):
            return NOTHING
        places = {hold.key: _place(hold, logbooks) for hold in holds}
        begun = [hold for hold in holds if hold.claim.begun]
        begun_places = {places[hold.key] for hold in begun}
        waiting = [hold for hold in holds if not hold.claim.begun and places[hold.key] not in begun_places]
        marks: list[Row] = [_waiting(hold, places[hold.key], view, now) for hold in waiting]
        current = {note_key("begun", place) for place in begun_places}
        ended = [last for note in unrecorded if note.key not in current and (last := _ended(note, now)) is not None]
        if not begun and not ended:
            return Decision(marks=tuple(marks))
        if view.listing(KIND) is not Listing.LISTED:
            return Decision(marks=tuple(marks), reasons=_unkept(key, view))
        found = _Records(logbooks, key, setting.value, view, now)
        notes = [note for hold in _distinct(begun, places) if (note := found.note(hold, places[hold.key])) is not None]
        notes += [note for note in ended if not found.exists(note.record)]
        creates = tuple(create for each in notes if (create := found.create(each)) is not None)
        refused = [each for create in creates if (each := refusal_note(create.target.name, create.outcome, view))]
        moved = view.recall(note_key("moved", key.name), MovedPods) or MovedPods(key=note_key("moved", key.name))
        for note in notes:
            moved = moved.began(note.record)
        reasons = tuple(Reason("no-record", key, f"the maintenance is not recorded: {each.why}") for each in refused)
        return Decision(
            actions=(creates,) if creates else (),
            marks=(*marks, moved, *notes, *refused),
            reasons=reasons,
            until=min((note.ended_at + TRIED_FOR for note in ended if note.ended_at is not None), default=None),
        )

    return decide


def _ended(note: BegunNote, now: datetime) -> BegunNote | None:
    """Return the note of a maintenance that has ended before its record was made; None if that is too long ago."""
    ended_at = note.ended_at or now
    return msgspec.structs.replace(note, ended_at=ended_at) if now < ended_at + TRIED_FOR else None


def _place(hold: Hold, logbooks: Logbooks) -> str:
    """Return what tells the maintenance of a claim from the others on its node."""
    surface, logbook = logbooks[hold.key.namespace]
    return f"{hold.claim.node.name}/{surface}/{name_of(hold.claim.owner)}/{logbook.part(hold.claim)}"


def _distinct(begun: list[Hold], places: Mapping[Key, str]) -> Iterator[Hold]:
    """Yield one claim of each maintenance. An owner may have several claims for one maintenance."""
    seen: set[str] = set()
    for hold in begun:
        if places[hold.key] not in seen:
            seen.add(places[hold.key])
            yield hold


def _unkept(node: Key, view: View) -> tuple[Reason, ...]:
    why = view.unreadable(KIND)
    return (Reason("no-record", node, f"the maintenance is not recorded: {why}"),) if why is not None else ()


def _waiting(hold: Hold, place: str, view: View, now: datetime) -> WaitingNote:
    """Return what a claim that has not begun waits for, from the arbiter's answers."""
    key = note_key("waiting", place)
    known = view.recall(key, WaitingNote) or WaitingNote(key=key)
    grant = view.get(grant_key(hold.key), Grant)
    causes = [subject_of(reason) for reason in grant.reasons if reason.code != PAUSED] if grant is not None else []
    if grant is not None and any(reason.code == PAUSED for reason in grant.reasons):
        # The reason is about the node. What people look for is the object that carries the pause.
        pause = pause_of_node(hold.claim.node, view) or pause_of_object(hold.claim.owner, view)
        causes += [(PAUSED, name_of(pause.subject))] if pause is not None else []
    budgets = [name_of(budget) for budget in grant.budgets] if grant is not None else []
    own = [limit.count.describe(limit.group) for limit in hold.claim.limits]
    limits = tuple(text(each, LONGEST_SUBJECT) for each in (*budgets, *own)[:MOST_ENTRIES]) or known.limits
    return msgspec.structs.replace(known, waits=known.waits.seen(causes, now), limits=limits)


class _Records:
    """The records of the claims that have begun on one node."""

    def __init__(self, logbooks: Logbooks, node: Key, options: LogbookOptions, view: View, now: datetime) -> None:
        self._logbooks = logbooks
        self._node = node
        self._options = options
        self._view = view
        self._now = now

    def note(self, hold: Hold, place: str) -> BegunNote | None:
        """Return which record the maintenance of a claim has; None if the claim is no maintenance."""
        key, view = note_key("begun", place), self._view
        known = view.recall(key, BegunNote)
        if known is not None and known.is_recorded:
            # Nothing else is read, so that changes of the Node or the owner do not wake the decision.
            return known
        surface, logbook = self._logbooks[hold.key.namespace]
        node, account = view.get(self._node, NodeRow), logbook.account(view, hold.claim)
        if node is None or account is None:
            return known
        part, owner = logbook.part(hold.claim), view.get(hold.claim.owner, ObjectRow)
        uid = owner.uid if owner is not None and owner.uid else name_of(hold.claim.owner)
        identity = claim_id(surface, uid, node, part)
        # The name that was tried first stays, because that create may have been carried out without an answer.
        name = known.record if known is not None else record_name(surface, uid, node, part, account.occasion)
        records = view.rows(RECORDS_OF_CLAIM, identity, RecordRow)
        if records or self.exists(name):
            return BegunNote(key=key, record=records[0].key.name if records else name, is_recorded=True)
        if known is not None:
            return known
        body = self._body(name, identity, part, owner, node, hold, surface, account, place)
        return BegunNote(key=key, record=name, body=msgspec.json.encode(body), node=node.key.name)

    def create(self, note: BegunNote) -> Create | None:
        """Return the write that creates the record of a maintenance; None if it exists."""
        if note.is_recorded:
            return None
        return Create(Key("", KIND, "", note.record), msgspec.json.decode(note.body), outcome=f"record/{note.record}")

    def exists(self, name: str) -> bool:
        """Whether a record of this name exists or existed."""
        return self._view.get(Key("", KIND, "", name), RecordRow) is not None or self._is_taken(name)

    def _is_taken(self, name: str) -> bool:
        """Whether the API server has refused the record because it exists: an earlier term of leadership has made it.

        Admission may answer with the same code for another reason.
        """
        outcome = self._view.outcome(f"record/{name}")
        refusal = outcome.value if outcome is not None else None
        return isinstance(refusal, Refusal) and refusal.code == 409 and "already exists" in refusal.message

    def _body(
        self,
        name: str,
        identity: str,
        part: str,
        owner: ObjectRow | None,
        node: NodeRow,
        hold: Hold,
        surface: str,
        account: Account,
        place: str,
    ) -> dict[str, Any]:
        claim = hold.claim
        asker = self._view.get(account.asker, ObjectRow) if account.asker is not None else owner
        waited = self._view.recall(note_key("waiting", place), WaitingNote)
        was_seen = waited is not None
        begun_at = min(account.begun_at, self._now) if account.begun_at is not None else self._now
        certainty = Certainty.EXACT if account.begun_at is not None or was_seen else Certainty.OBSERVED
        secret = proof_key(self._view)
        spec = RecordSpec(
            node=RecordedNode(node.key.name, node.uid),
            surface=surface,
            owner=RecordedOwner(claim.owner.kind, claim.owner.namespace, claim.owner.name, owner.uid if owner else ""),
            reason=text(account.reason, LONGEST_REASON),
            requested_by=requester_of(asker, account.request, secret, self._options.people, begun_at),
            begun_at=begun_at,
        )
        status = RecordStatus(
            phases=tuple(_first_phases(claim, account, begun_at, certainty)),
            waited_for=waited.waits.ended(self._now) if waited is not None else (),
            limits=self._limits(hold, waited),
        )
        metadata: dict[str, Any] = {"name": name, "labels": {OPEN_LABEL: "true", CLAIM_LABEL: identity}}
        if part:
            metadata["annotations"] = {PART: part}
        return {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": KIND,
            "metadata": metadata,
            "spec": msgspec.to_builtins(spec),
            "status": msgspec.to_builtins(status),
        }

    def _limits(self, hold: Hold, waited: WaitingNote | None) -> tuple[str, ...]:
        grant = self._view.recall(grant_key(hold.key), Grant)
        budgets = [name_of(budget) for budget in grant.budgets] if grant is not None else []
        return tuple(dict.fromkeys((*budgets, *(waited.limits if waited is not None else ()))))[:MOST_ENTRIES]


def _first_phases(claim: Claim, account: Account, begun_at: datetime, certainty: Certainty) -> Iterator[Phase]:
    asked_at = account.asked_at
    if asked_at is not None and LONG_AGO < asked_at <= begun_at:
        yield Phase("requested", asked_at)
    yield Phase("begun", begun_at, certainty)
