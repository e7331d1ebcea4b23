"""Events, as we write them: in events.k8s.io/v1 and in core v1."""

from __future__ import annotations

from msgspec import Struct


class ObjectReference(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventMeta(Struct, frozen=True, gc=False):
    name: str
    namespace: str


class Series(Struct, frozen=True, gc=False, rename="camel"):
    """The server accepts no series of one."""

    count: int
    last_observed_time: str


class Event(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """events.k8s.io/v1; times as `wire_micro_time` gives them."""

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
    component: str
    host: str = ""


class CoreEvent(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """core v1; times as `wire_time` gives them."""

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
