"""Everything that one decision about a NotifyMaintenance reads."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.action import Measure, Tell
from haulout.surfaces.notify.declared_metrics import TIMES
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.wire import NOTICES_OF_NODE, SURFACE, NoticeRow, Status

REPORTER = "notifymaintenance"
COMPLETED = "MaintenanceCompleted"
MINUTE = 60.0
# What takes a node out of service, lets the work on it begin, and ends it. Every warning is about the node, too.
ON_NODE = frozenset(
    {
        "MaintenanceSelected",
        "SLAStarted",
        "ObjectsDrained",
        "MaintenanceIncomplete",
        "MaintenanceCancelled",
        "MaintenanceComplete",
    }
)


class NoticeSituation(msgspec.Struct, frozen=True):
    """The inputs of one decision about a maintenance: the maintenance, its node, the options and the time."""

    row: NoticeRow
    view: View
    now: datetime
    options: Options
    node: NodeRow | None

    @property
    def key(self) -> Key:
        return self.row.key

    @property
    def status(self) -> Status:
        return self.row.status

    @property
    def node_key(self) -> Key:
        return node_key(self.row.node)

    def siblings(self) -> list[NoticeRow]:
        """Return the other maintenances of the node."""
        rows = self.view.rows(NOTICES_OF_NODE, self.row.node, NoticeRow)
        return [other for other in rows if other.key != self.row.key]


def situation_of(key: Key, view: View, now: datetime) -> NoticeSituation | None:
    """Return the inputs of a decision about this maintenance; None if it is gone or the surface has no options."""
    row, setting = view.get(key, NoticeRow), view.config(SURFACE)
    if row is None or setting is None:
        return None
    assert isinstance(setting.value, Options)
    return NoticeSituation(row, view, now, setting.value, view.node(row.node) if row.node else None)


def events_of(situation: NoticeSituation, reason: str, note: str, *, warning: bool = False) -> tuple[Tell, ...]:
    """Return an event about the maintenance, and the same event about its node if people look for it there.

    The original makes each event twice. See decision 0196.
    """
    subjects = [situation.key]
    if situation.node is not None and (situation.options.alone or warning or reason in ON_NODE):
        subjects.append(situation.node.key)
    return tuple(Tell(each, reason, reason, note, REPORTER, warning=warning, core=True) for each in subjects)


def time_in_status(
    situation: NoticeSituation, status: str, since: datetime | None, until: datetime | None = None
) -> tuple[Measure, ...]:
    """Return the measurement of how long the maintenance was in a status, in minutes."""
    if since is None:
        return ()
    labels = (("maintenance_id", situation.row.maintenance), ("status", status))
    return (Measure(TIMES, labels, since=since, until=until, unit=MINUTE),)
