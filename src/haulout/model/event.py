"""Events, as we write them: in events.k8s.io/v1 and in core v1."""

from __future__ import annotations

from msgspec import Struct


class ObjectReference(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The object that an event is about: an ObjectReference of core v1. Empty fields are left out on the wire."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventMeta(Struct, frozen=True, gc=False):
    """The metadata of an event that we create: the part of ObjectMeta that we set."""

    name: str
    namespace: str


class Series(Struct, frozen=True, gc=False, rename="camel"):
    """The repetitions of an event: how often it has happened, and when last. The server refuses a count of 1."""

    count: int
    last_observed_time: str


class Event(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An Event of events.k8s.io/v1, as we write it. Its times are in the format of `wire_micro_time`."""

    api_version: str
    kind: str
    metadata: EventMeta
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    type: str
    regarding: ObjectReference
    related: ObjectReference | None = None
    note: str = ""
    series: Series | None = None


class EventSource(Struct, frozen=True, gc=False, omit_defaults=True):
    """The component that reports an event, in the form of core v1. `host` is the node that it runs on, if any."""

    component: str
    host: str = ""


class CoreEvent(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An Event of core v1, as we write it. Its times are in the format of `wire_time`."""

    api_version: str
    kind: str
    metadata: EventMeta
    involved_object: ObjectReference
    reason: str
    message: str
    source: EventSource
    first_timestamp: str
    last_timestamp: str
    count: int
    type: str
    reporting_component: str
    reporting_instance: str = ""
    action: str = ""
    related: ObjectReference | None = None
