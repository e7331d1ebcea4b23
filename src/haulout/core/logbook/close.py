"""The decision about one open record: it is closed, in one patch, once the maintenance has certainly ended (K23)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET

from haulout.base.bounds import text
from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, ObjectRow, PodRow, Row, Value
from haulout.cluster.store import Listing
from haulout.cluster.view import MARK, View, holds_table
from haulout.core.action import Action, Measure, Patch, Say
from haulout.core.budgets.cover import cover_of
from haulout.core.cordon import CORDON_REASON
from haulout.core.decision import NOTHING, Decision
from haulout.core.drain.options import DRAINS_OF_NODE, DrainRow
from haulout.core.drain.pace import WAITING_PERMITS_OF_NODE, Permit
from haulout.core.drain.plan import WAITING
from haulout.core.holds import HOLDS_OF_NODE, Blocked, Hold
from haulout.core.logbook.account import SurfaceLogbook
from haulout.core.logbook.begin import Logbooks
from haulout.core.logbook.notes import PART, MovedPods, Progress, later, name_of, note_key, refusal_note
from haulout.core.logbook.options import NAME, LogbookOptions, People
from haulout.core.logbook.requester import proof_key, shown_name
from haulout.core.logbook.trace import is_sampled, trace_id
from haulout.core.logbook.wire import (
    BY_HAND,
    LONGEST_ERROR,
    LONGEST_REASON,
    MOST_ENTRIES,
    OPEN_LABEL,
    Certainty,
    DrainCounts,
    MaintenanceRecord,
    Outcome,
    Phase,
    RecordedAct,
    RecordRow,
    RecordStatus,
    Waited,
)
from haulout.core.override import override_of, passed_override
from haulout.core.pause import CODE as PAUSED
from haulout.core.pause import Pause, pause_of_node
from haulout.core.steering import OVERRIDE, OVERRIDE_BY
from haulout.model.meta import wire_time

# The cordon of a drain by hand is stored before its record, and should have arrived by then.
HEARD_WITHIN_FOR = timedelta(minutes=1)
OUTCOME = "record-closed"
# The most characters of a budget's name.
LONGEST_LIMIT = 253
ENDED, TOOK = "haulout_maintenances_total", "haulout_maintenance_seconds"


def decide_with(logbooks: Logbooks) -> Callable[[Key, View, datetime], Decision]:
    """Return the decision for the records of these surfaces. Records of other surfaces are closed only with their node."""
    served = dict(logbooks.values())

    def decide(key: Key, view: View, now: datetime) -> Decision:
        row = view.get(key, RecordRow)
        if row is None or row.record is None or row.labels.get(OPEN_LABEL) != "true" or row.deleting_at is not None:
            return NOTHING
        spec, progress = row.record.spec, view.recall(note_key("record", key.name), Progress)
        node = view.get(node_key(spec.node.name), NodeRow)
        if node is None or node.uid != spec.node.uid:
            return _closed(row, row.record, progress, Outcome.NODE_GONE, view, now)
        if spec.surface == BY_HAND:
            return _by_hand(row, row.record, node, progress, view, now)
        if spec.surface not in served:
            return NOTHING
        logbook, part = served[spec.surface], row.annotations.get(PART, "")
        owner = Key("", spec.owner.kind, spec.owner.namespace, spec.owner.name)
        if _stands(spec.surface, owner, part, logbooks, node, view):
            outcome = logbook.outcome(view, owner, node.key, part)
            stage = logbook.stage(view, owner, node.key, part)
            going_on = _progress(row, node, owner, progress, outcome, stage, view, now)
            return Decision(marks=(_with_error(going_on, logbook, owner, node.key, part, view),))
        if not _is_known(spec.surface, node, view):
            return Decision(marks=(progress,) if progress is not None else ())
        stored = logbook.outcome(view, owner, node.key, part) if _is_same(view, owner, spec.owner.uid) else None
        seen = progress.outcome or Outcome.COMPLETED if progress is not None else Outcome.LOST
        if stored is Outcome.FAILED:
            found = msgspec.structs.replace(progress or _new(row), outcome=stored)
            error = _with_error(found, logbook, owner, node.key, part, view).error
            return _closed(row, row.record, progress, stored, view, now, error)
        error = progress.error if progress is not None and stored is None and seen is Outcome.FAILED else ""
        return _closed(row, row.record, progress, stored or seen, view, now, error)

    return decide


def _new(row: RecordRow) -> Progress:
    return Progress(key=note_key("record", row.key.name))


def _with_error(progress: Progress, logbook: SurfaceLogbook, owner: Key, node: Key, part: str, view: View) -> Progress:
    """Return the progress with the error of a maintenance that would end as failed. An error that is known stays."""
    if progress.outcome is not Outcome.FAILED:
        return progress
    found = text(" ".join(logbook.error(view, owner, node, part).split()), LONGEST_ERROR)
    return msgspec.structs.replace(progress, error=found or progress.error)


def _by_hand(
    row: RecordRow, record: MaintenanceRecord, node: NodeRow, progress: Progress | None, view: View, now: datetime
) -> Decision:
    """Close the record of a drain by hand once the node is schedulable again.

    Our row of the Node may be older than the record, so an uncordon is believed when the cordon was seen before, or when
    some time has passed.
    """
    if node.unschedulable:
        known = progress or _new(row)
        return Decision(marks=(known,))
    heard_at = (row.created_at or now) + HEARD_WITHIN_FOR
    if progress is None and now < heard_at:
        return Decision(until=heard_at)
    # A drain that did not end well says so in its record when the command ends.
    outcome = record.status.outcome or Outcome.COMPLETED
    return _closed(row, record, progress, outcome, view, now, record.status.error)


def _is_same(view: View, owner: Key, uid: str) -> bool:
    """Whether the owner is still the object that asked for the maintenance, and no later one of its name."""
    row = view.get(owner, ObjectRow)
    return row is not None and row.uid == uid


def _stands(surface: str, owner: Key, part: str, logbooks: Logbooks, node: NodeRow, view: View) -> bool:
    """Whether a claim stands for the maintenance that does not give the node back yet."""
    for hold in view.rows(HOLDS_OF_NODE, node.key, Row, node.key.cluster):
        if not isinstance(hold, Hold) or not hold.claim.begun or hold.claim.ending or hold.claim.owner != owner:
            continue
        name, logbook = logbooks.get(hold.key.namespace, ("", None))
        if name == surface and logbook is not None and logbook.part(hold.claim) == part:
            return True
    return False


def _is_known(surface: str, node: NodeRow, view: View) -> bool:
    """Whether a claim of the surface that has no row does not exist: all its claims are known, and no decision fails."""
    rows = view.rows(HOLDS_OF_NODE, node.key, Row, node.key.cluster)
    return view.listing(holds_table(surface)) is Listing.LISTED and not any(isinstance(row, Blocked) for row in rows)


def _progress(
    row: RecordRow,
    node: NodeRow,
    owner: Key,
    known: Progress | None,
    outcome: Outcome | None,
    stage: str,
    view: View,
    now: datetime,
) -> Progress:
    """Return what has been seen of a maintenance so far."""
    # After a start it is not known when that happened which is found done.
    certainty = Certainty.EXACT if known is not None else Certainty.OBSERVED
    progress = known or _new(row)
    if node.unschedulable:
        progress = progress.entered("cordoned", now, certainty)
    drains = bool(view.rows(DRAINS_OF_NODE, node.key, DrainRow, node.key.cluster))
    waits = view.get(Key(node.key.cluster, MARK, WAITING, node.key.name), Value) is not None
    # A drain that has failed is over, too, and has left pods on the node.
    is_drained = node.unschedulable and not waits and (drains or progress.drains) and outcome is not Outcome.FAILED
    if is_drained and not progress.has("drained"):
        ignored = sum(not pod.ended for pod in view.recall_rows(PODS_OF_NODE, node.key.name, PodRow))
        progress = msgspec.structs.replace(progress.entered("drained", now, certainty), ignored=ignored)
    if outcome is Outcome.COMPLETED:
        progress = progress.entered("done", now, certainty)
    if stage:
        progress = progress.entered(stage, now, certainty)
    permits = view.rows(WAITING_PERMITS_OF_NODE, node.key, Permit, node.key.cluster)
    pause = pause_of_node(node.key, view)
    causes = [("pdb-blocks", name_of(permit.budget)) for permit in permits]
    causes += [(PAUSED, name_of(pause.subject))] if pause is not None else []
    return msgspec.structs.replace(
        progress,
        outcome=outcome or progress.outcome,
        drains=progress.drains or drains,
        waits=progress.waits.seen(causes, now),
        acts=tuple(_acts(progress.acts, node, view.recall(owner, ObjectRow), pause, view, now)),
    )


def _acts(
    known: tuple[RecordedAct, ...],
    node: NodeRow,
    owner: ObjectRow | None,
    pause: Pause | None,
    view: View,
    now: datetime,
) -> Iterator[RecordedAct]:
    """Yield the acts of people that were seen before, and those that can be seen now."""
    yield from known
    people = _options(view).people
    seen = {(each.act, each.reason) for each in known}
    for each in _visible_acts(node, owner, pause, view, now):
        if (each.act, each.reason) not in seen and len(seen) < MOST_ENTRIES:
            seen.add((each.act, each.reason))
            yield msgspec.structs.replace(each, by=shown_name(each.by, people, proof_key(view)))


def _options(view: View) -> LogbookOptions:
    """Return the options of the logbook. As long as there are none, no names are recorded."""
    setting = view.config(NAME)
    known = setting.value if setting is not None else None
    return known if isinstance(known, LogbookOptions) else LogbookOptions(People.NONE)


def _visible_acts(
    node: NodeRow, owner: ObjectRow | None, pause: Pause | None, view: View, now: datetime
) -> Iterator[RecordedAct]:
    if pause is not None:
        yield RecordedAct("pause", pause.by, later(pause.at, now), pause.reason)
    yield from _override(node.key, owner, view, now)
    if CORDON_REASON in node.annotations:
        yield RecordedAct("cordon", "", now, text(node.annotations[CORDON_REASON], LONGEST_REASON))


def _override(node: Key, owner: ObjectRow | None, view: View, now: datetime) -> Iterator[RecordedAct]:
    """Yield the override of the owner while it is in force for a budget of the node."""
    # It is read first, because most owners have none. The budgets of the node change with each of its looks.
    if owner is None or override_of(owner.key, view, now) is None:
        return
    cover = cover_of(node, view)
    found = passed_override(owner.key, cover.budgets, view, now) if cover is not None else None
    if found is None:
        return
    given, author = (_fields(owner.annotations.get(name, "")) for name in (OVERRIDE, OVERRIDE_BY))
    # Who wrote it is noted for the same end.
    by = author.get("by", "") if author.get("until") == given.get("until") else ""
    yield RecordedAct("override", by, now, text(found.reason, LONGEST_REASON), text(found.limit, LONGEST_LIMIT))


def _fields(value: str) -> dict[str, str]:
    """Return the texts in an annotation that is a JSON object; none if it is not."""
    try:
        found = msgspec.json.decode(value, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {name: text(each, LONGEST_REASON) for name, each in found.items() if isinstance(each, str)}


def _closed(
    row: RecordRow,
    record: MaintenanceRecord,
    progress: Progress | None,
    outcome: Outcome,
    view: View,
    now: datetime,
    error: str = "",
) -> Decision:
    """Return the decision that closes a record."""
    certainty = Certainty.EXACT if progress is not None else Certainty.OBSERVED
    ended = _ended(row.key.name, record, progress, outcome, certainty, view, now, error)
    body = {"metadata": {"labels": {OPEN_LABEL: None}}, "status": msgspec.to_builtins(ended)}
    spec = record.spec
    fields = {
        "node": spec.node.name,
        "surface": spec.surface,
        "owner": "/".join(filter(None, (spec.owner.kind, spec.owner.namespace, spec.owner.name))),
        "outcome": outcome.value,
        "error": error,
        "requestedBy": spec.requested_by.name,
        "begunAt": wire_time(spec.begun_at) if spec.begun_at is not None else "",
        "endedAt": wire_time(now),
        "record": row.key.name,
    }
    labels = (("outcome", outcome.value), ("surface", spec.surface))
    told: list[Action] = [Say("maintenance ended", tuple(fields.items())), Measure(ENDED, labels)]
    if spec.begun_at is not None and certainty is Certainty.EXACT:
        trace = trace_id(row.uid) if is_sampled(row.uid, _options(view).traced) else ""
        told.append(Measure(TOOK, (("surface", spec.surface),), since=spec.begun_at, until=now, trace=trace))
    name = f"{OUTCOME}/{row.key.name}"
    known = (progress, refusal_note(row.key.name, name, view))
    marks = tuple(each for each in known if each is not None)
    return Decision(actions=((Patch(row.key, body, outcome=name), *told),), marks=marks)


def _ended(
    name: str,
    record: MaintenanceRecord,
    progress: Progress | None,
    outcome: Outcome,
    certainty: Certainty,
    view: View,
    now: datetime,
    error: str,
) -> RecordStatus:
    begun = record.status
    ended_at = max(now, *(each.at for each in begun.phases), record.spec.begun_at or now)
    seen = progress or Progress(key=note_key("record", ""))
    phases = (*begun.phases, *seen.phases, Phase("ended", ended_at, certainty))
    moved = view.recall(note_key("moved", record.spec.node.name), MovedPods)
    drain = begun.drain
    evicted, deleted = moved.since(name) if moved is not None else (0, 0)
    if seen.drains or evicted or deleted:
        drain = DrainCounts(evicted, deleted, seen.ignored)
    return msgspec.structs.replace(
        begun,
        outcome=outcome,
        error=error,
        ended_at=ended_at,
        phases=tuple(sorted(phases, key=lambda phase: phase.at))[-MOST_ENTRIES:],
        waited_for=_summed((*begun.waited_for, *seen.waits.ended(now))),
        drain=drain,
        acts=(*begun.acts, *seen.acts)[:MOST_ENTRIES],
    )


def _summed(waits: tuple[Waited, ...]) -> tuple[Waited, ...]:
    seconds: dict[tuple[str, str], int] = {}
    first: dict[tuple[str, str], datetime | None] = {}
    for each in waits:
        cause = each.code, each.subject
        seconds[cause] = seconds.get(cause, 0) + each.seconds
        # Those from before the beginning come first.
        first[cause] = first.get(cause) or each.since_at
    ordered = sorted(seconds.items(), key=lambda each: (-each[1], each[0]))
    return tuple(Waited(*cause, span, first[cause] or UNSET) for cause, span in ordered)[:MOST_ENTRIES]
