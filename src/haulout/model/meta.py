"""The metadata of objects, and small types that several kinds share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Protocol

from msgspec import Struct

# The clients under which the API server notes the fields that the operator writes, and those that people write with our
# commands.
FIELD_MANAGER = "haulout"
COMMAND_MANAGER = "haulout-cli"


class OwnerReference(Struct, frozen=True, gc=False, rename="camel"):
    """An owner of an object: an OwnerReference of meta/v1. `controller` marks the one owner that manages the object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct, frozen=True, gc=False, rename="camel"):
    """The metadata of an object: ObjectMeta of meta/v1 without the fields that most kinds need not be read for, such as managedFields."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object; the API server allows at most one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ManagedBy(Struct, frozen=True, gc=False):
    """A client that has written fields of an object, and when. `subresource`: it has written that alone."""

    manager: str = ""
    operation: str = ""
    time: str | None = None
    subresource: str = ""


class ClientNote(Protocol):
    """What the API server notes of one client that has written an object."""

    @property
    def manager(self) -> str: ...
    @property
    def time(self) -> str | None: ...
    @property
    def subresource(self) -> str: ...


def creator_of(managed: Iterable[ClientNote]) -> str:
    """Return the client that created an object: the first one that wrote more than its status.

    The operator often writes within the same second, so that it counts only where there is no other.
    """
    known = [each for each in managed if not each.subresource and each.time]
    writers = [each for each in known if each.manager != FIELD_MANAGER] or known
    return min(writers, key=lambda each: each.time or "").manager[:256] if writers else ""


class ManagedMeta(ObjectMeta, frozen=True, gc=False, rename="camel"):
    """The metadata of an object by which people ask for a maintenance, with the clients that have written it."""

    managed_fields: tuple[ManagedBy, ...] = ()

    @property
    def creator(self) -> str:
        """The client that created the object."""
        return creator_of(self.managed_fields)


class PartialObject(Struct, frozen=True, gc=False):
    """Any object of which only the metadata matters."""

    metadata: ObjectMeta = ObjectMeta()


class ConditionState(Struct, frozen=True, gc=False):
    """A condition of a Pod or Node, in part. Times are not decoded, because an invalid one would make decoding fail."""

    type: str = ""
    status: str = ""
    reason: str = ""


class Condition(Struct, frozen=True, gc=False, rename="camel"):
    """A condition of an object, without its heartbeat time: that would make every heartbeat a change."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int | None = None
    last_transition_time: datetime | None = None


class LabelRequirement(Struct, frozen=True, gc=False):
    """One of a selector's matchExpressions: a LabelSelectorRequirement of meta/v1."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True, gc=False, rename="camel"):
    """A LabelSelector of meta/v1. An empty one selects everything.

    A field is `LabelSelector | None` in kinds where an absent selector selects nothing.
    """

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelRequirement, ...] = ()


def wire_time(instant: datetime) -> str:
    """Return an instant in the format of `metav1.Time`, with whole seconds."""
    # `isoformat` takes half the time of `strftime`, and writes the year with four digits.
    return f"{instant.astimezone(UTC).isoformat()[:19]}Z"


def wire_micro_time(instant: datetime) -> str:
    """Return an instant in the format of `metav1.MicroTime`. Go requires exactly six digits after the point."""
    return f"{instant.astimezone(UTC).isoformat(timespec='microseconds')[:26]}Z"
