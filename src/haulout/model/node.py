"""Structs of Nodes."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

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


class Node(Struct, frozen=True, gc=False):
    """A Node (core v1), in part: what rows are made of and what commands print."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
