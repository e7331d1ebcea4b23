"""A Node with the field names of its Go struct, which the templates of messages use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from haulout.base.gotemplate import Func, Map, Nil, Object, Slice
from haulout.base.gotemplate.times import METHODS, go_time, nanoseconds_of

# Structs of k8s.io/api/core/v1 and apimachinery's meta/v1: the names and types of their fields. The JSON name of a
# field is the same with a small first letter, or the name after the colon.
_STRUCTS = {
    "Node": "Spec NodeSpec, Status NodeStatus",
    "TypeMeta": "Kind string, APIVersion string",
    "ObjectMeta": "Name string, GenerateName string, Namespace string, SelfLink string, UID string,"
    " ResourceVersion string, Generation int, CreationTimestamp Time, DeletionTimestamp *Time,"
    " DeletionGracePeriodSeconds *int, Labels map, Annotations map, OwnerReferences []OwnerReference,"
    " Finalizers []string, ManagedFields []ManagedFieldsEntry",
    "OwnerReference": "APIVersion string, Kind string, Name string, UID string, Controller *bool,"
    " BlockOwnerDeletion *bool",
    "ManagedFieldsEntry": "Manager string, Operation string, APIVersion string, Time *Time, FieldsType string,"
    " Subresource string",
    "NodeSpec": "PodCIDR string, PodCIDRs []string, ProviderID string, Unschedulable bool, Taints []Taint,"
    " ConfigSource *NodeConfigSource, DoNotUseExternalID:externalID string",
    "NodeConfigSource": "ConfigMap *ConfigMapNodeConfigSource",
    "ConfigMapNodeConfigSource": "Namespace string, Name string, UID string, ResourceVersion string,"
    " KubeletConfigKey string",
    "Taint": "Key string, Value string, Effect string, TimeAdded *Time",
    "NodeStatus": "Capacity ResourceList, Allocatable ResourceList, Phase string, Conditions []NodeCondition,"
    " Addresses []NodeAddress, DaemonEndpoints NodeDaemonEndpoints, NodeInfo NodeSystemInfo,"
    " Images []ContainerImage, VolumesInUse []string, VolumesAttached []AttachedVolume, Config *NodeConfigStatus,"
    " RuntimeHandlers []NodeRuntimeHandler, Features *NodeFeatures, DeclaredFeatures []string",
    "NodeCondition": "Type string, Status string, LastHeartbeatTime Time, LastTransitionTime Time, Reason string,"
    " Message string",
    "NodeAddress": "Type string, Address string",
    "NodeDaemonEndpoints": "KubeletEndpoint DaemonEndpoint",
    "DaemonEndpoint": "Port:Port int",
    "NodeSystemInfo": "MachineID string, SystemUUID string, BootID string, KernelVersion string, OSImage string,"
    " ContainerRuntimeVersion string, KubeletVersion string, KubeProxyVersion string, OperatingSystem string,"
    " Architecture string, Swap *NodeSwapStatus",
    "NodeSwapStatus": "Capacity *int",
    "ContainerImage": "Names []string, SizeBytes int",
    "AttachedVolume": "Name string, DevicePath string",
    "NodeConfigStatus": "Assigned *NodeConfigSource, Active *NodeConfigSource, LastKnownGood *NodeConfigSource,"
    " Error string",
    "NodeRuntimeHandler": "Name string, Features *NodeRuntimeHandlerFeatures",
    "NodeRuntimeHandlerFeatures": "RecursiveReadOnlyMounts *bool, UserNamespaces *bool",
    "NodeFeatures": "SupplementalGroupsPolicy *bool",
}
_EMBEDDED = ("TypeMeta", "ObjectMeta")
_PLAIN: dict[str, Any] = {"string": "", "bool": False, "int": 0}
_RESOURCES = {
    "Cpu": "cpu",
    "Memory": "memory",
    "Storage": "storage",
    "Pods": "pods",
    "StorageEphemeral": "ephemeral-storage",
}
_FIRST = re.compile(r"[A-Z]+(?![a-z])|[A-Z]")


def go_node(node: Mapping[str, Any]) -> Object:
    """Return a Node, given as JSON, as Go's struct. Missing fields have Go's zero values: empty, 0 or nil."""
    parts = {"TypeMeta": _fields("TypeMeta", node), "ObjectMeta": _fields("ObjectMeta", _dict(node.get("metadata")))}
    embedded = {name: Object(f"v1.{name}", fields) for name, fields in parts.items()}
    promoted = {**parts["TypeMeta"], **parts["ObjectMeta"]}
    getters = {f"Get{name}": _getter(value) for name, value in parts["ObjectMeta"].items()}
    return Object("*v1.Node", {**embedded, **_fields("Node", node)}, promoted=promoted, methods=getters)


def _getter(value: Any) -> Func:
    return Func(lambda: value)


def _fields(name: str, source: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for written in _STRUCTS[name].split(","):
        names, kind = written.split()
        field, _, wire = names.partition(":")
        fields[field] = _value(kind, source.get(wire or _wire_name(field)))
    return fields


def _wire_name(field: str) -> str:
    """Return the name of a field in JSON: OSImage is osImage, UID is uid, PodCIDR is podCIDR."""
    return _FIRST.sub(lambda found: found[0].lower(), field, count=1)


def _value(kind: str, value: Any) -> Any:
    if kind in _PLAIN:
        return _PLAIN[kind] if value is None else value
    if kind.startswith("*"):
        methods = METHODS if kind == "*Time" else frozenset()
        return _value(kind[1:], value) if value is not None else Nil(_type(kind), methods)
    if kind.startswith("[]"):
        return Slice([_value(kind[2:], item) for item in value or ()], _type(kind))
    match kind:
        case "map":
            return Map(_dict(value), "", "map[string]string")
        case "Time":
            return _time(value)
        case "ResourceList":
            return _resources(_dict(value))
    return Object(f"v1.{kind}", _fields(kind, _dict(value)))


def _type(kind: str) -> str:
    mark = kind[: len(kind) - len(kind.lstrip("*[]"))]
    inner = kind[len(mark) :]
    return mark + (inner if inner in _PLAIN else f"v1.{inner}")


def _time(value: Any) -> Object:
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        return go_time(datetime.fromisoformat("0001-01-01T00:00:00Z"), type_name="v1.Time")
    return go_time(at, nanoseconds_of(str(value)), type_name="v1.Time")


def _resources(amounts: Mapping[str, Any]) -> Map:
    """Return a ResourceList: a map that also has methods, such as `.Node.Status.Capacity.Cpu`."""
    quantities = {name: _quantity(str(amount)) for name, amount in amounts.items()}
    none = _quantity("0")
    methods = {method: _getter(quantities.get(name, none)) for method, name in _RESOURCES.items()}
    return Map(quantities, none, "v1.ResourceList", methods)


def _quantity(amount: str) -> Object:
    return Object("resource.Quantity", {}, methods={"String": Func(lambda: amount)}, text=amount)


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
