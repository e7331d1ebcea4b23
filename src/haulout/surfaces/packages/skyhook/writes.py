"""The writes to a Skyhook: finalizer, version stamp, and its status at a limited rate with events and ConfigMaps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import MARK
from haulout.core.action import Annotate, Edit, Finalize, Patch, Step, Tell
from haulout.surfaces.packages.entries import migration
from haulout.surfaces.packages.events import event
from haulout.surfaces.packages.options import STAMP_VERSION
from haulout.surfaces.packages.skyhook import halts, status_size
from haulout.surfaces.packages.skyhook.config_changes import ConfigChanges
from haulout.surfaces.packages.skyhook.situation import SkyhookSituation
from haulout.surfaces.packages.wire import (
    STAMP,
    UNKNOWN,
    SkyhookRow,
)
from haulout.surfaces.packages.wire_status import (
    SkyhookStatus,
    status_patch,
)

replace = msgspec.structs.replace

# The status is written at most this often. With many nodes, a status that only repeats their states is written less
# often.
STATUS_EVERY_FOR = timedelta(seconds=1)
MIRRORED_FOR_EACH_NODE = timedelta(milliseconds=2)
NONE_FOR = timedelta()
# The part of a status that is about the Skyhook as a whole: the status word and the observed generation.
Outline = tuple[str, int]


def writes_of(
    situation: SkyhookSituation,
    outline: Outline,
    new_status: Callable[[], SkyhookStatus],
    configs: ConfigChanges,
    *,
    is_urgent: bool,
    may_wait: bool,
) -> tuple[list[Step], tuple[Value, ...], datetime | None]:
    """Return the steps, the mark with the time of the next status write, and when the decision has to run again.

    `outline`: that of the new status.
    `new_status`: makes the new status. It goes through all nodes several times, so it is called only when a write is
    due.
    `is_urgent`: the status must be written now, for instance because nodes only start after their pick is stored.
    `may_wait`: the arbiter has not answered every claim yet, and one write can then contain all picks.
    """
    row, now = situation.row, situation.now
    key = Key("", MARK, "packages-status-write", row.name)
    last = situation.view.recall(key, Value)
    next_at = last.value if last is not None and isinstance(last.value, datetime) else now
    only_mirrors = last is not None and outline == outline_of(row.status)
    due_at = next_at + (mirror_delay(len(situation.nodes)) if only_mirrors else NONE_FOR)
    announces = bool(configs.announced)
    is_due = not may_wait and (is_urgent or announces or now >= due_at)
    # A status that is not due is not worked out. The decision runs again when it is.
    wanted = new_status() if is_due else row.status
    body = status_patch(row.status, wanted) if is_due else {}
    steps: list[Step] = [(*version_edits(row), *situation.claimed)]
    if configs.published:
        steps.append(tuple(configs.published))
    if body:
        patch = Patch(
            row.key, body, "status", becomes=replace(row, status=wanted), outcome=status_size.outcome_name(row)
        )
        steps.append((patch, *_transition(row, wanted)))
    if announces:
        steps.append(tuple(configs.announced))
    if body:
        # An urgent write before its time makes the next one wait longer, so the average rate stays the same.
        next_at = min(max(next_at, now), now + STATUS_EVERY_FOR) + STATUS_EVERY_FOR
        return steps, (Value(key=key, value=next_at),), None
    if now >= due_at or last is None:
        return steps, (), None
    return steps, (last,), None if may_wait else due_at


def outline_of(status: SkyhookStatus) -> Outline:
    return status.status, status.observed_generation


def mirror_delay(nodes: int) -> timedelta:
    """Return how much longer a status waits that only repeats the states of nodes.

    Making and storing it takes time for each node. With the delay, its share of the work does not grow with the fleet.
    """
    return max(NONE_FOR, nodes * MIRRORED_FOR_EACH_NODE - STATUS_EVERY_FOR)


def version_edits(row: SkyhookRow) -> tuple[Edit, ...]:
    edits: list[Edit] = []
    if row.group.finalizer not in row.finalizers:
        edits.append(Finalize(row.key, row.group.finalizer, present=True))
    if migration.is_due(row.stamp):
        edits.append(Annotate(row.key, row.group.named(STAMP), STAMP_VERSION))
    return tuple(edits)


def _transition(row: SkyhookRow, wanted: SkyhookStatus) -> tuple[Tell, ...]:
    before = row.status.status or UNKNOWN
    events = []
    if before != wanted.status:
        events.append(event(row.key, "State", f"{row.group.kind} transitioned [{before}] -> [{wanted.status}]"))
    if wanted.halt is not None and wanted.halt != row.status.halt:
        # The note of an event has room for 1 KiB.
        events.append(event(row.key, "Halt", halts.account(row, wanted.halt)[:1024], warning=True))
    return tuple(events)
