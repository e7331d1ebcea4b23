"""Questions about the state of a NotifyMaintenance, answered from its status, finalizer and annotations."""

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
# The annotation that decides the next transition in each status. While it is set, an uncordon has no effect.
DECIDED_BY = {STARTED: READY, SLA_EXPIRED: READY, OBJECTS_DRAINED: CLIENT, VALIDATING: VALIDATION}

# The condition that holds the value of the retry annotation that was followed last.
RETRIED = "retry"


def is_final(row: NoticeRow) -> bool:
    """Whether the maintenance is being deleted."""
    return row.deleting_at is not None


def is_terminal(row: NoticeRow) -> bool:
    """Whether the end of the maintenance was announced, so that only its completion can follow."""
    return TERMINATED in row.annotations


def has_finalizer(row: NoticeRow) -> bool:
    return FINALIZER in row.finalizers


def has_started(row: NoticeRow) -> bool:
    return row.state not in BEFORE_START


def is_released(row: NoticeRow) -> bool:
    """Whether the maintenance was completed without being deleted, so that nothing more happens to it."""
    return not has_finalizer(row) and has_started(row)


def asks_for_retry(row: NoticeRow) -> bool:
    """Whether the maintenance has failed, and its annotation asks for a retry that has not been made."""
    followed = row.status.condition(RETRIED)
    wanted = row.annotations.get(RETRY, "")
    return row.state == INCOMPLETE and wanted not in ("", followed.status if followed is not None else "")


def is_completing(row: NoticeRow) -> bool:
    """Whether the completion of the maintenance was announced, and only labels and finalizer are left to remove."""
    return COMPLETED_AT in row.annotations and has_finalizer(row)


def is_shadowed(row: NoticeRow) -> bool:
    """Whether an annotation decides the next transition, so that uncordoning the node has no effect."""
    return not is_terminal(row) and DECIDED_BY.get(row.state, "") in row.annotations


def is_labelled(row: NoticeRow, node: NodeRow) -> bool:
    return row.label in node.labels


def is_in_flight(row: NoticeRow) -> bool:
    """Whether the maintenance has its node out of service."""
    return has_finalizer(row) and row.state in AFTER_START


def awaits_completion(row: NoticeRow, node: NodeRow | None) -> bool:
    """Whether the maintenance completes as soon as its node is uncordoned, and that was not announced yet."""
    if not is_in_flight(row) or COMPLETED_AT in row.annotations or is_shadowed(row):
        return False
    return is_final(row) or (node is not None and is_labelled(row, node))
