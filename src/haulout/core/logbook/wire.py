"""MaintenanceRecord as it is on the wire, and the row that is kept of an open one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from haulout.base.bounds import ORDINARY, instant, is_within
from haulout.cluster.project import Resource
from haulout.cluster.rows import ObjectRow
from haulout.core.budgets.declare import GROUP
from haulout.model.meta import ObjectMeta

KIND, PLURAL = "MaintenanceRecord", "maintenancerecords"
PREFIX = f"/apis/{GROUP}/v1alpha1"
# The label of a record whose maintenance has not ended. Only such records are watched.
OPEN_LABEL = f"{GROUP}/open"
# Who asked for a maintenance, on the object or Node that asks for it. Admission alone writes both.
REQUESTED_BY, REQUEST_PROOF = f"{GROUP}/requested-by", f"{GROUP}/requested-by-proof"
# The surface in the records of `haulout drain`.
BY_HAND = "byhand"
# The longest texts and lists of a record, as in its definition.
LONGEST_REASON, LONGEST_ERROR, LONGEST_NAME, LONGEST_SUBJECT, MOST_ENTRIES = 1024, 1024, 1024, 600, 64


class Outcome(StrEnum):
    """How a maintenance ended.

    COMPLETED: its work was done. CANCELLED: it was withdrawn before that. FAILED: it ended with an error. NODE_GONE: the
    node was deleted. LOST: it ended while no operator ran, and nothing stored says how.
    """

    COMPLETED = "Completed"
    CANCELLED = "Cancelled"
    FAILED = "Failed"
    NODE_GONE = "NodeGone"
    LOST = "Lost"


class How(StrEnum):
    """How it is known who asked for a maintenance.

    ADMISSION: our webhook noted the user of the request. CLAIMED: a client or a person says so, without proof.
    """

    ADMISSION = "admission"
    CLAIMED = "claimed"
    UNKNOWN = "unknown"


class Certainty(StrEnum):
    """EXACT: the instant is stored, or the operator saw it happen. OBSERVED: it happened then or earlier."""

    EXACT = "exact"
    OBSERVED = "observed"


class RecordedNode(Struct, frozen=True):
    """The Node that was maintained."""

    name: str = ""
    uid: str = ""


class RecordedOwner(Struct, frozen=True, omit_defaults=True):
    """The object that asked for the maintenance; for profiles and drains by hand, the Node itself."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Requester(Struct, frozen=True):
    """The user or client that asked for the maintenance."""

    name: str = ""
    how: How = How.UNKNOWN


class RecordSpec(Struct, frozen=True, rename="camel"):
    """The part of a record that is written when the maintenance begins, and does not change."""

    node: RecordedNode = RecordedNode()
    surface: str = ""
    owner: RecordedOwner = RecordedOwner()
    reason: str = ""
    requested_by: Requester = Requester()
    begun_at: datetime | None = None


class Phase(Struct, frozen=True):
    """The beginning of a phase of a maintenance."""

    name: str
    at: datetime
    certainty: Certainty = Certainty.EXACT


class Waited(Struct, frozen=True):
    """A reason for which a maintenance waited. `subject`: the object that it waited for, as KIND/[NAMESPACE/]NAME.

    `since`: when it was first seen to wait for it. `seconds`: for how long it waited for it, in all.
    """

    code: str
    subject: str = ""
    seconds: int = 0
    since: datetime | UnsetType = UNSET

    @property
    def since_at(self) -> datetime | None:
        return None if isinstance(self.since, UnsetType) else instant(self.since)


class DrainCounts(Struct, frozen=True):
    """How many pods a drain evicted, deleted and left running. Names of pods are not recorded."""

    evicted: int = 0
    deleted: int = 0
    ignored: int = 0


class RecordedAct(Struct, frozen=True, omit_defaults=True):
    """An act of a person during the maintenance, such as a pause or an override. `limit`: the overridden budget."""

    act: str
    by: str = ""
    at: datetime | None = None
    reason: str = ""
    limit: str = ""


class RecordStatus(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The part of a record that is complete once the maintenance has ended.

    `error`: why it failed, in the words of its surface. `limits`: the budgets and the surface's own limits under which it took a place.
    """

    outcome: Outcome | None = None
    error: str = ""
    ended_at: datetime | None = None
    phases: tuple[Phase, ...] = ()
    waited_for: tuple[Waited, ...] = ()
    drain: DrainCounts | None = None
    limits: tuple[str, ...] = ()
    acts: tuple[RecordedAct, ...] = ()


class RecordMeta(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The metadata of a record that history shows."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    creation_timestamp: datetime | None = None


class MaintenanceRecord(Struct, frozen=True, rename="camel"):
    """A MaintenanceRecord (haulout.dev/v1alpha1). History, report and the console's API print it in this form."""

    metadata: RecordMeta = RecordMeta()
    spec: RecordSpec = RecordSpec()
    status: RecordStatus = RecordStatus()

    @property
    def is_open(self) -> bool:
        return self.metadata.labels.get(OPEN_LABEL) == "true"


def read_record(found: object) -> MaintenanceRecord | None:
    """Return a record from a decoded object; None where its fields are not those of a record.

    The definition has a schema, but it may be that of another version, and anyone with the right may write a record.
    """
    try:
        record = msgspec.convert(found, MaintenanceRecord, strict=False)
    except msgspec.ValidationError:
        return None
    return msgspec.structs.replace(record, spec=_bounded_spec(record.spec), status=_bounded_status(record.status))


def _bounded_spec(spec: RecordSpec) -> RecordSpec:
    return msgspec.structs.replace(spec, begun_at=instant(spec.begun_at))


def _bounded_status(status: RecordStatus) -> RecordStatus:
    phases = tuple(msgspec.structs.replace(each, at=instant(each.at)) for each in status.phases)
    acts = tuple(msgspec.structs.replace(each, at=instant(each.at)) for each in status.acts)
    waits = tuple(msgspec.structs.replace(each, since=each.since_at or UNSET) for each in status.waited_for)
    ended_at = instant(status.ended_at)
    return msgspec.structs.replace(status, ended_at=ended_at, phases=phases, acts=acts, waited_for=waits)


class StoredRecord(Struct, frozen=True):
    """A MaintenanceRecord as the API server sends it, not checked. Any shape is decoded, so that none stops the watch."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: Any = None


class RecordRow(ObjectRow, frozen=True, kw_only=True, gc=False):
    """The row of an open record. `record` None: its fields are not those of a record."""

    record: MaintenanceRecord | None = None


def _row(obj: StoredRecord, common: Mapping[str, Any]) -> RecordRow:
    is_usable = is_within(obj.spec, ORDINARY) and is_within(obj.status, ORDINARY)
    parts = {"spec": obj.spec or {}, "status": obj.status or {}}
    return RecordRow(**common, record=read_record(parts) if is_usable else None)


# While the definition is not installed, or records may not be listed, the table is unreadable, and no record is written.
RECORDS = Resource(
    KIND,
    PREFIX,
    PLURAL,
    False,
    StoredRecord,
    _row,
    labels=f"{OPEN_LABEL}=true",
    versions=(PREFIX,),
    optional=True,
    bounds=None,
)
