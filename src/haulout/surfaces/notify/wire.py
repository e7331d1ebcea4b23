"""NotifyMaintenance on the wire: its names, the object, and its row."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from haulout.base.bounds import LONGEST_NAME, instant, text
from haulout.cluster.key import Key
from haulout.cluster.project import Resource
from haulout.cluster.rows import AskedRow, Row
from haulout.cluster.store import Index
from haulout.core.holds import PRIORITY_ANNOTATION
from haulout.model.meta import Condition, ManagedMeta

SURFACE = "notify"
GROUP, VERSION, KIND, PLURAL = "ngn2.nvidia.com", "v1alpha1", "NotifyMaintenance", "notifymaintenances"
API_VERSION = f"{GROUP}/{VERSION}"
FINALIZER = "ngn2.nvidia.com/finalNotice"

WEBHOOK = "vnotifymaintenance.kb.io"
REGISTRATION = "pika-validating-webhook-configuration"
WEBHOOK_PATH = "/validate-ngn2-nvidia-com-v1alpha1-notifymaintenance"
DEFAULTING_WEBHOOK = "mnotifymaintenance.kb.io"
DEFAULTING_PATH = "/mutate-ngn2-nvidia-com-v1alpha1-notifymaintenance"

# The prefix of a maintenance's label, which is set on the NotifyMaintenance and on its Node. PREFIX also begins other
# annotations.
PREFIX = "maintenance/"
# Other tools mark nodes that they cordon with labels of this prefix. They are removed when the node is uncordoned.
CORDONED_PREFIX = "cordoned"
CLIENT_LABEL = "maintenance/maintenance-client"
VALIDATION_LABEL = "haulout.dev/validation-client"

READY = "maintenance/readyForMaintenance"
CLIENT = "maintenance/maintenanceClient"
VALIDATION = "maintenance/validationClient"
TERMINATED = "maintenance.ngn2.nvidia.com/terminated"

COMPLETED_AT = "haulout.dev/completed-at"
UNDELIVERED = "haulout.dev/undelivered"
SLA_PERIOD = "haulout.dev/sla-period"
RETRY = "haulout.dev/retry"
OPERATORS = "haulout.dev/operators"
HOLD = "haulout.dev/hold"
NOT_BEFORE = "haulout.dev/not-before"
EXPECTED_MAINTENANCE = "haulout.dev/expected-maintenance"
NODE_UID = "haulout.dev/node-uid"
BASELINE = "haulout.dev/baseline"
OWNER_PREFIX = "haulout.dev/owner-"
IN_BOX = "in-box"

# Annotations on the Node.
CORDONED_BY = "haulout.dev/cordoned-by"
FORCE_RETURN = "haulout.dev/force-return"

SCHEDULED = "MaintenanceScheduled"
STARTED = "MaintenanceStarted"
SLA_EXPIRED = "SLAExpired"
OBJECTS_DRAINED = "ObjectsDrained"
VALIDATING = "Validating"
INCOMPLETE = "MaintenanceIncomplete"

PLANNED, UNPLANNED = "planned", "unplanned"
OPERATOR_NAMES = ("scheduler", "drainer", "runner", "validator", "returner")

ANNOTATIONS = frozenset(
    {
        *(READY, CLIENT, VALIDATION, TERMINATED, COMPLETED_AT, UNDELIVERED, SLA_PERIOD, RETRY, OPERATORS, HOLD),
        *(NOT_BEFORE, EXPECTED_MAINTENANCE, NODE_UID, BASELINE, PRIORITY_ANNOTATION),
        *(f"{OWNER_PREFIX}{name}" for name in OPERATOR_NAMES),
    }
)
NODE_ANNOTATIONS = frozenset({CORDONED_BY, FORCE_RETURN})


# The longest texts of a NotifyMaintenance that are kept, as in its definition. The original has no limits.
LONGEST_OWNER, LONGEST_TOPIC, LONGEST_WORD, LONGEST_MESSAGE = 1024, 1024, 256, 4096
# The newest transitions that a status has. A maintenance that is tried again and again adds some each time.
MOST_TRANSITIONS = 1000


class MessageChannels(Struct, frozen=True):
    """The receivers of one maintenance's messages, beside those in the configuration file."""

    topic: str = msgspec.field(default="", name="amazonSNSTopicARN")


class Spec(Struct, frozen=True, rename="camel"):
    """The spec of a NotifyMaintenance: its node, its ID and type, and who is informed."""

    node_object: str = ""
    maintenance_id: str = msgspec.field(default="", name="maintenanceID")
    maintenance_type: str = ""
    additional_message_channels: MessageChannels | None = None
    metadata_configmap: str = ""
    owner: str = ""


class Transition(Struct, frozen=True, rename="camel"):
    """One entry of the history of a NotifyMaintenance: the status that it entered, and when."""

    maintenance_status: str = ""
    transition_timestamp: datetime | None = None


class Status(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The status of a NotifyMaintenance. Conditions hold the values of annotations, not True and False."""

    maintenance_status: str = ""
    sla_expires: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    transition_timestamps: tuple[Transition, ...] = ()
    observed_generation: int = 0

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of this type. One whose status is empty counts as absent."""
        return next((each for each in self.conditions if each.type == kind and each.status), None)

    def entered_at(self, status: str) -> datetime | None:
        """Return when the status was last entered."""
        stamps = reversed(self.transition_timestamps)
        return next((each.transition_timestamp for each in stamps if each.maintenance_status == status), None)

    @property
    def last_at(self) -> datetime | None:
        """The time at which the current status was entered; None if it has none."""
        return self.transition_timestamps[-1].transition_timestamp if self.transition_timestamps else None


class NotifyMaintenance(Struct, frozen=True):
    """A NotifyMaintenance (ngn2.nvidia.com/v1alpha1): one maintenance of one node, tracked and announced."""

    metadata: ManagedMeta = ManagedMeta()
    spec: Spec | None = None
    status: Status = Status()


class NoticeRow(AskedRow, frozen=True, kw_only=True):
    """The row of a NotifyMaintenance. `maintenance`: its ID. `type`: planned or unplanned."""

    node: str = ""
    maintenance: str = ""
    type: str = ""
    topic: str = ""
    configmap: str = ""
    owner: str = ""
    generation: int = 0
    status: Status = Status()

    @property
    def state(self) -> str:
        return self.status.maintenance_status

    @property
    def label(self) -> str:
        """The label that marks a node as in this maintenance."""
        return f"{PREFIX}{self.maintenance}"

    @property
    def place(self) -> str:
        return f"{self.key.namespace}/{self.key.name}"

    @property
    def failure(self) -> str:
        """Why a step has failed, as its client reports it; empty if no client does. The later step comes first."""
        reported = (self.status.condition(kind) for kind in ("validationRun", "maintenanceRun"))
        whys = (": ".join(filter(None, (each.reason, each.message))) for each in reported if each is not None)
        return next(filter(None, whys), "")


def _project(obj: NotifyMaintenance, common: dict[str, Any]) -> NoticeRow:
    spec = obj.spec or Spec()
    channels = spec.additional_message_channels or MessageChannels()
    return NoticeRow(
        **common,
        creator=obj.metadata.creator,
        node=text(spec.node_object, LONGEST_NAME),
        maintenance=text(spec.maintenance_id, LONGEST_WORD),
        type=text(spec.maintenance_type, LONGEST_WORD),
        topic=text(channels.topic, LONGEST_TOPIC),
        configmap=text(spec.metadata_configmap, LONGEST_NAME),
        owner=text(spec.owner, LONGEST_OWNER),
        status=_bounded(obj.status),
        generation=obj.metadata.generation,
    )


def _bounded(status: Status) -> Status:
    """Return the status with its times clamped, because people can write them and deadlines are counted from them."""
    replace = msgspec.structs.replace
    conditions = tuple(
        replace(each, last_transition_time=instant(each.last_transition_time)) for each in status.conditions
    )
    stamps = tuple(
        replace(each, transition_timestamp=instant(each.transition_timestamp)) for each in status.transition_timestamps
    )
    expires = instant(status.sla_expires)
    return replace(status, conditions=conditions, transition_timestamps=stamps, sla_expires=expires)


RESOURCE = Resource(KIND, f"/apis/{API_VERSION}", PLURAL, True, NotifyMaintenance, _project)


def notice_key(namespace: str, name: str) -> Key:
    return Key("", KIND, namespace, name)


def _node_of(row: Row) -> tuple[Hashable, ...]:
    return (row.node,) if isinstance(row, NoticeRow) and row.node else ()


NOTICES_OF_NODE = Index("notices-of-node", KIND, _node_of)
