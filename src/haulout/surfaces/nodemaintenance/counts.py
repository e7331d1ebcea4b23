"""The number of maintenances at work, for the limit on them."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.cluster.key import Key
from haulout.cluster.limits import Count, Group, Membership
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.view import MARK
from haulout.core import cordon
from haulout.surfaces.nodemaintenance.wire import DRAIN_TAINT, SUCCEEDED, MaintenanceRow

_MARKS = "nodemaintenance-active"


class Active(Count, frozen=True):
    """Maintenances that have their lease and have not succeeded yet."""

    @property
    def kind(self) -> str:
        return MARK

    def groups(self, row: Row) -> Iterable[Membership]:
        return (Membership(""),) if row.key.namespace == _MARKS else ()

    def describe(self, group: Group) -> str:
        return "maintenances at work"


ACTIVE = Active()


def active_mark(row: MaintenanceRow) -> tuple[Value, ...]:
    """Return the row that stands while a maintenance is at work, which neither its object nor its node shows alone."""
    return () if row.status.phase == SUCCEEDED else (Value(key=Key("", MARK, _MARKS, row.key.name)),)


def is_taken_over(node: NodeRow) -> bool:
    """Whether the original tainted the node. It keeps no ledger, so that the state before is not known."""
    return has_drain_taint(node) and cordon.ANNOTATION not in node.annotations


def has_drain_taint(node: NodeRow) -> bool:
    """Whether the node has the taint of a maintenance that has begun. The lease was ours by then."""
    return any((taint.key, taint.effect) == (DRAIN_TAINT.key, DRAIN_TAINT.effect) for taint in node.taints)
