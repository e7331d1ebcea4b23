"""Where a NotifyMaintenance stands: what its status, its finalizer and its marks mean together."""

from __future__ import annotations

from haulout.cluster.rows import NodeRow
from haulout.surfaces.notify.wire import (
    CLIENT,
    COMPLETED_AT,
    FINALIZER,
    INCOMPLETE,
    OBJECTS_DRAINED,
    READY,
    RETRY,
    SCHEDULED,
    SLA_EXPIRED,
    STARTED,
    TERMINATED,
    VALIDATING,
    VALIDATION,
    NoticeRow,
)

BEFORE_START = ("", SCHEDULED)
DRAINING = (STARTED, SLA_EXPIRED)
AFTER_START = (STARTED, SLA_EXPIRED, OBJECTS_DRAINED, VALIDATING, INCOMPLETE)
IN_PROGRESS = (OBJECTS_DRAINED, STARTED, SLA_EXPIRED, VALIDATING)
# Which annotation decides in which status; while it is there, an uncordon has no effect.
DECIDED_BY = {STARTED: READY, SLA_EXPIRED: READY, OBJECTS_DRAINED: CLIENT, VALIDATING: VALIDATION}

# The condition that remembers which value of the annotation was followed last.
RETRIED = "retry"


def is_final(row: NoticeRow) -> bool:
    """Whether it is being deleted."""
    return row.deleting_at is not None


def is_terminal(row: NoticeRow) -> bool:
    """Whether its end was announced: nothing but completion can follow."""
    return TERMINATED in row.annotations


def has_finalizer(row: NoticeRow) -> bool:
    return FINALIZER in row.finalizers


def has_started(row: NoticeRow) -> bool:
    return row.state not in BEFORE_START


def is_released(row: NoticeRow) -> bool:
    """Whether it was completed without being deleted: it takes part in nothing any more."""
    return not has_finalizer(row) and has_started(row)


def asks_for_retry(row: NoticeRow) -> bool:
    """Whether it has failed, and its annotation asks for another try that it has not got yet."""
    followed = row.status.condition(RETRIED)
    wanted = row.annotations.get(RETRY, "")
    return row.state == INCOMPLETE and wanted not in ("", followed.status if followed is not None else "")


def is_completing(row: NoticeRow) -> bool:
    """Whether its completion was announced and only the cleaning up is left."""
    return COMPLETED_AT in row.annotations and has_finalizer(row)


def is_shadowed(row: NoticeRow) -> bool:
    """Whether an annotation keeps it from seeing that its node was uncordoned."""
    return not is_terminal(row) and DECIDED_BY.get(row.state, "") in row.annotations


def is_labelled(row: NoticeRow, node: NodeRow) -> bool:
    return row.label in node.labels


def is_in_flight(row: NoticeRow) -> bool:
    """Whether its node is out of service for it."""
    return has_finalizer(row) and row.state in AFTER_START


def awaits_completion(row: NoticeRow, node: NodeRow | None) -> bool:
    """Whether an uncordoned node would complete it, and that has not been announced yet."""
    if not is_in_flight(row) or COMPLETED_AT in row.annotations or is_shadowed(row):
        return False
    return is_final(row) or (node is not None and is_labelled(row, node))
