"""The count of maintenances at work, for the limit on them."""

from __future__ import annotations

from haulout.cluster.limits import Count, Group
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import MARK
from haulout.core import cordon
from haulout.surfaces.nodemaintenance.wire import DRAIN_TAINT


class Active(Count, frozen=True):
    """The count of maintenances that hold their node, or are granted it, and have not succeeded yet.

    Only claims are counted, no rows: neither the object of a maintenance nor its node alone shows that it is at work.
    """

    @property
    def kind(self) -> str:
        return MARK

    def describe(self, group: Group) -> str:
        return "maintenances at work"


ACTIVE = Active()


def is_taken_over(node: NodeRow) -> bool:
    """Whether the original tainted the node.

    The original keeps no ledger, so the earlier state of the node is unknown.
    """
    return has_drain_taint(node) and cordon.ANNOTATION not in node.annotations


def has_drain_taint(node: NodeRow) -> bool:
    """Whether the node has the drain taint: its maintenance has begun, and held the lease at that time."""
    for taint in node.taints:  # noqa: SIM110 - most nodes have no taint or a few
        if taint.key == DRAIN_TAINT.key and taint.effect == DRAIN_TAINT.effect:
            return True
    return False
