"""Node."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from haulout.model.meta import ConditionState, ObjectMeta


class Taint(Struct, frozen=True, gc=False, rename="camel"):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None


class NodeSpec(Struct, frozen=True, gc=False, rename="camel"):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(default="", name="providerID")


class NodeAddress(Struct, frozen=True, gc=False):
    type: str = ""
    address: str = ""


class NodeInfo(Struct, frozen=True, gc=False, rename="camel"):
    kubelet_version: str = ""
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    architecture: str = ""
    boot_id: str = field(default="", name="bootID")
    machine_id: str = field(default="", name="machineID")


class NodeStatus(Struct, frozen=True, gc=False, rename="camel"):
    conditions: tuple[ConditionState, ...] = ()
    node_info: NodeInfo = NodeInfo()
    addresses: tuple[NodeAddress, ...] = ()
    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}


class Node(Struct, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
