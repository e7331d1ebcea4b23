"""Structs of Nodes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import UNSET, Struct, field
from msgspec.structs import fields

from haulout.model.meta import ConditionState, ObjectMeta


class Taint(Struct, frozen=True, gc=False, rename="camel"):
    """A taint of a Node (core v1). `time_added`: when it was set, where Kubernetes says so."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None


class NodeCondition(ConditionState, frozen=True, gc=False, rename="camel"):
    """A condition of a Node. The time is kept as text, so that a Node with an invalid time can still be decoded."""

    last_transition_time: str | None = None


class NodeSpec(Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a Node, in part: whether pods may be scheduled on it, and which cloud instance it is."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(default="", name="providerID")


class NodeAddress(Struct, frozen=True, gc=False):
    """One address of a Node (core v1). `type` is InternalIP, ExternalIP or Hostname, for instance."""

    type: str = ""
    address: str = ""


class NodeInfo(Struct, frozen=True, gc=False, rename="camel"):
    """What a Node's kubelet reports about its host: NodeSystemInfo of core v1, in part."""

    kubelet_version: str = ""
    kernel_version: str = ""
    boot_id: str = field(default="", name="bootID")


class NodeStatus(Struct, frozen=True, gc=False, rename="camel"):
    """The status of a Node, in part. Heartbeat times and the list of images, which change often, are not decoded."""

    conditions: tuple[NodeCondition, ...] = ()
    node_info: NodeInfo = NodeInfo()
    addresses: tuple[NodeAddress, ...] = ()
    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}


class OwnedSpec(Struct, frozen=True, gc=False):
    """The fields of a Node's spec that one client has written, in part. `unschedulable` is UNSET if that is not one."""

    unschedulable: Any = field(default=UNSET, name="f:unschedulable")


class RequestLabels(Struct, frozen=True, gc=False):
    """The labels by which people ask for the maintenance of a Node."""

    profile: str | None = field(default=None, name="cloud.sap/maintenance-profile")
    reboot: str | None = field(default=None, name="cloud.sap/esx-reboot-ok")
    deletion: str | None = field(default=None, name="cloud.sap/delete-node")

    @property
    def values(self) -> dict[str, str | None]:
        return {each.encode_name: getattr(self, each.name) for each in fields(self)}


class OwnedLabels(Struct, frozen=True, gc=False):
    """The labels by which people ask for the maintenance of a Node, as far as one client has written them."""

    profile: Any = field(default=UNSET, name="f:cloud.sap/maintenance-profile")
    reboot: Any = field(default=UNSET, name="f:cloud.sap/esx-reboot-ok")
    deletion: Any = field(default=UNSET, name="f:cloud.sap/delete-node")


# The fields of `OwnedLabels`, with the names that the API server notes.
REQUEST_LABELS = {each.name: each.encode_name for each in fields(OwnedLabels)}


class OwnedMeta(Struct, frozen=True, gc=False):
    """The metadata of a Node that one client has written, in part."""

    labels: OwnedLabels = field(default=OwnedLabels(), name="f:labels")


class OwnedFields(Struct, frozen=True, gc=False):
    """The fields of a Node that one client has written, in part: FieldsV1 of meta/v1."""

    spec: OwnedSpec = field(default=OwnedSpec(), name="f:spec")
    metadata: OwnedMeta = field(default=OwnedMeta(), name="f:metadata")


class ManagedFields(Struct, frozen=True, gc=False):
    """The name of a client, and which fields of the object have the value that it wrote. `time`: its last such write."""

    manager: str = ""
    time: str | None = None
    fields: OwnedFields = field(default=OwnedFields(), name="fieldsV1")


class NodeMeta(ObjectMeta, frozen=True, gc=False, rename="camel"):
    """The metadata of a Node. The API server notes there which client wrote which field."""

    managed_fields: tuple[ManagedFields, ...] = ()


class Node(Struct, frozen=True, gc=False):
    """A Node (core v1), in part: what rows are made of and what commands print."""

    metadata: NodeMeta = NodeMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
