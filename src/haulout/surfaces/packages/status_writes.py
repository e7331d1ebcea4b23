"""The writes of a Skyhook: its status, at a pace, with its events, and its annotations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import MARK
from haulout.core.action import Annotate, Edit, Finalize, Patch, Step, Tell
from haulout.surfaces.packages import halts, migration, skyhook_status
from haulout.surfaces.packages.configs import ConfigChanges
from haulout.surfaces.packages.options import STAMP_VERSION
from haulout.surfaces.packages.situation import Situation, event
from haulout.surfaces.packages.wire import (
    FINALIZER,
    STAMP,
    UNKNOWN,
    SkyhookRow,
)
from haulout.surfaces.packages.wire_status import (
    SkyhookStatus,
    status_patch,
)

replace = msgspec.structs.replace

# A status that only repeats the states of nodes is written at most this often, and less often with many nodes.
STATUS_EVERY_FOR = timedelta(seconds=1)
MIRRORED_FOR_EACH_NODE = timedelta(milliseconds=2)
NONE_FOR = timedelta()
# What a status says of the Skyhook as a whole: the status and the observed generation.
Outline = tuple[str, int]


def writes_of(
    situation: Situation,
    outline: Outline,
    new_status: Callable[[], SkyhookStatus],
    configs: ConfigChanges,
    *,
    is_urgent: bool,
    may_wait: bool,
) -> tuple[list[Step], tuple[Value, ...], datetime | None]:
    """Return the steps: finalizer and stamp, the status where it says something new, then the ConfigMaps.

    `outline`: that of the status to be stored. `new_status` makes it, which goes through all nodes several times, and is
    called only when it is due. `is_urgent`: nodes were picked, which has to be stored before they start. `may_wait`:
    the arbiter is about to answer, so that one write can say both.
    """
    row, now = situation.row, situation.now
    key = Key("", MARK, "packages-status-write", row.name)
    last = situation.view.recall(key, Value)
    next_at = last.value if last is not None and isinstance(last.value, datetime) else now
    only_mirrors = last is not None and outline == outline_of(row.status)
    due_at = next_at + (mirror_delay(len(situation.nodes)) if only_mirrors else NONE_FOR)
    announces = bool(configs.announced)
    is_due = not may_wait and (is_urgent or announces or now >= due_at)
    # What is not written yet need not be worked out: at its time this decision runs again.
    wanted = new_status() if is_due else row.status
    body = status_patch(row.status, wanted) if is_due else {}
    steps: list[Step] = [version_edits(row)]
    if configs.published:
        steps.append(tuple(configs.published))
    if body:
        patch = Patch(
            row.key, body, "status", becomes=replace(row, status=wanted), outcome=skyhook_status.outcome_name(row)
        )
        steps.append((patch, *_transition(row, wanted)))
    if announces:
        steps.append(tuple(configs.announced))
    if body:
        # A write that could not wait is made up for by the next one, which waits longer.
        next_at = min(max(next_at, now), now + STATUS_EVERY_FOR) + STATUS_EVERY_FOR
        return steps, (Value(key=key, value=next_at),), None
    if now >= due_at or last is None:
        return steps, (), None
    return steps, (last,), None if may_wait else due_at


def outline_of(status: SkyhookStatus) -> Outline:
    return status.status, status.observed_generation


def mirror_delay(nodes: int) -> timedelta:
    """Return for how much longer than usual a status waits that only mirrors its nodes.

    Working it out and storing it takes time for each node. So its share of the work does not grow with the fleet.
    """
    return max(NONE_FOR, nodes * MIRRORED_FOR_EACH_NODE - STATUS_EVERY_FOR)


def version_edits(row: SkyhookRow) -> tuple[Edit, ...]:
    edits: list[Edit] = []
    if FINALIZER not in row.finalizers:
        edits.append(Finalize(row.key, FINALIZER, present=True))
    if migration.is_due(row.annotations.get(STAMP)):
        edits.append(Annotate(row.key, STAMP, STAMP_VERSION))
    return tuple(edits)


def _transition(row: SkyhookRow, wanted: SkyhookStatus) -> tuple[Tell, ...]:
    before = row.status.status or UNKNOWN
    events = []
    if before != wanted.status:
        events.append(event(row.key, "State", f"Skyhook transitioned [{before}] -> [{wanted.status}]"))
    if wanted.halt is not None and wanted.halt != row.status.halt:
        # An event has room for 1 KiB.
        events.append(event(row.key, "Halt", halts.account(row, wanted.halt)[:1024], warning=True))
    return tuple(events)
