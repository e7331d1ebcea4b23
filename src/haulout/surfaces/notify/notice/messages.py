"""The messages that announce the steps of a maintenance: their text and bytes, exactly as the original's."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC
from typing import Any

from haulout.surfaces.notify.notice.states import asks_for_retry
from haulout.surfaces.notify.wire import CLIENT_LABEL, NoticeRow

SCHEDULED, SLA_STARTED, SLA_EXPIRED = "Scheduled", "SLAStarted", "SLAExpired"
OBJECTS_DRAINED, VALIDATING, INCOMPLETE = "ObjectsDrained", "Validating", "MaintenanceIncomplete"
CANCELLED, ENDED, COMPLETE = "MaintenanceCancelled", "MaintenanceEnded", "MaintenanceComplete"
VERBS = {
    SCHEDULED: "scheduled",
    SLA_STARTED: "started",
    SLA_EXPIRED: "SLA expired",
    OBJECTS_DRAINED: "objects drained",
    VALIDATING: "validating",
    INCOMPLETE: "incomplete",
    CANCELLED: "cancelled",
    ENDED: "ended",
    COMPLETE: "completed",
}
# The client of a maintenance without the client label (NVIDIA/pika, pkg/notifiers).
DEFAULT_CLIENT = "Slack_ST2"
_GO_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def text_of(row: NoticeRow, event: str) -> str:
    """Return the message as a sentence. Raises ValueError for an unknown event."""
    if event not in VERBS:
        raise ValueError(f"event type {event} is not supported")
    return f"Maintenance {row.maintenance} {VERBS[event]} on [{row.node}]"


def fields_of(row: NoticeRow, event: str) -> dict[str, Any]:
    """Return the fields of a message, in order. Like in the original, empty optional fields are left out."""
    fields = {
        "maintenanceID": row.maintenance,
        "objects": [row.node],
        "event": event,
        "Message": text_of(row, event),
        "namespace": row.key.namespace,
        "maintenanceObjectName": row.key.name,
    }
    optional = {"metadataConfigmap": row.configmap, "owner": row.owner}
    return fields | {name: value for name, value in optional.items() if value}


def payload(row: NoticeRow, event: str) -> bytes:
    """Return the message as the original writes it: compact JSON with Go's escapes."""
    return go_json(fields_of(row, event))


def go_json(value: Any) -> bytes:
    """Return JSON as Go's encoding/json writes it. Only strings can hold what Go escapes beyond Python's rules."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.translate(_GO_ESCAPES).encode(errors="replace")


def group_id(row: NoticeRow) -> str:
    """Return the group id with which an SNS FIFO topic keeps the messages of one node in order."""
    return _md5(row.node)


def deduplication_id(row: NoticeRow, event: str) -> str:
    """Return the id by which an SNS FIFO topic drops a repeated message."""
    created = row.created_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S +0000 UTC") if row.created_at else ""
    return _md5(f"{row.place}/{row.node}/{event}/{created}{_again(row, event)}")


def idempotency_key(row: NoticeRow, event: str) -> str:
    return f"{row.uid}-{event}{_again(row, event)}"


def retries(row: NoticeRow, event: str) -> int:
    """Return how often the maintenance was retried before the transition that an event is about.

    The number is the same before and after that transition is stored, and after the attempt has failed, so that a
    repeated message has the key of the first.
    """
    if event not in (OBJECTS_DRAINED, VALIDATING, INCOMPLETE):
        return 0
    failures = sum(each.maintenance_status == INCOMPLETE for each in row.status.transition_timestamps)
    begins_another = event == OBJECTS_DRAINED and asks_for_retry(row)
    return failures - (row.state == INCOMPLETE and not begins_another)


def _again(row: NoticeRow, event: str) -> str:
    """Return the suffix that distinguishes the message of a retried step from the earlier one."""
    number = retries(row, event)
    return f"-{number}" if number else ""


def client_of(row: NoticeRow) -> str:
    return row.labels.get(CLIENT_LABEL) or DEFAULT_CLIENT


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
