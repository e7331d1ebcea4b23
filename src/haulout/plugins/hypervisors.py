"""Hypervisor objects of another operator (kvm.cloud.sap): their rows, and the fields that plugins may name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from haulout.cluster.key import Key
from haulout.cluster.project import Resource
from haulout.cluster.rows import ObjectRow
from haulout.model.meta import ObjectMeta
from haulout.plugins.config import ConfigProblem

KIND = "Hypervisor"
NEEDS = frozenset({KIND})

# The fields of the status and the spec by their JSON names, with their Go types.
STATUS = {
    **dict.fromkeys(
        ("libVirtVersion", "hypervisorVersion", "hypervisorId", "serviceId", "internalIp", "specHash"), "string"
    ),
    "evicted": "bool",
    "numInstances": "int",
    "traits": "[]string",
    "operatingSystem": "v1.OperatingSystemStatus",
    "updateStatus": "v1.HyperVisorUpdateStatus",
    "instances": "[]v1.Instance",
    "capabilities": "v1.Capabilities",
    "domainCapabilities": "v1.DomainCapabilities",
    **dict.fromkeys(("allocation", "capacity", "effectiveCapacity"), "map[v1.ResourceName]resource.Quantity"),
    "cells": "[]v1.Cell",
    "aggregates": "[]v1.Aggregate",
    "conditions": "[]v1.Condition",
}
SPEC = {
    **dict.fromkeys(("version", "maintenance", "maintenanceReason"), "string"),
    **dict.fromkeys(
        (
            "reboot",
            "evacuateOnReboot",
            "lifecycleEnabled",
            "skipTests",
            "highAvailability",
            "createCertManagerCertificate",
            "installCertificate",
        ),
        "bool",
    ),
    **dict.fromkeys(("customTraits", "aggregates", "allowedProjects"), "[]string"),
    "groups": "[]v1.HypervisorGroup",
    "overcommit": "map[v1.ResourceName]float64",
}
# The value of an absent field in Go, for each type that can be compared.
_ZEROS: dict[str, object] = {"string": "", "bool": False, "int": 0, "[]string": ()}


class HypervisorRow(ObjectRow, frozen=True, kw_only=True, gc=False):
    """The row of a Hypervisor: the comparable fields of its spec and status. An absent one has Go's zero value."""

    spec: Mapping[str, object] = {}
    status: Mapping[str, object] = {}
    conditions: tuple[tuple[str, str], ...] = ()

    def condition(self, kind: str) -> str | None:
        return next((status for name, status in self.conditions if name == kind), None)


class Hypervisor(Struct, frozen=True):
    """A Hypervisor (kvm.cloud.sap), with spec and status as they are on the wire."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


def hypervisor_key(node: Key) -> Key:
    """Return the key of a node's Hypervisor, which has the node's name."""
    return Key(node.cluster, KIND, "", node.name)


def not_found(node: Key) -> str:
    return f'hypervisors.kvm.cloud.sap "{node.name}" not found'


def check_fields(fields: Mapping[str, Any], known: Mapping[str, str], struct: str) -> None:
    """Check fields of a configuration. Raises ConfigProblem for the first one that is unknown or has a wrong type."""
    for name, value in fields.items():
        if name not in known:
            comparable = ", ".join(sorted(field for field, kind in known.items() if kind in _ZEROS))
            raise ConfigProblem(f"field {name} not found in {struct}", right=f"known: {comparable}")
        if _go_type(value) != known[name]:
            wrong = f"field {name} has incorrect type: expected {known[name]}, got {_go_type(value)}"
            raise ConfigProblem(wrong)


def plain(fields: Mapping[str, Any]) -> dict[str, object]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def _go_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int():
            return "int"
        case float():
            return "float64"
        case list() if all(isinstance(item, str) for item in value):
            return "[]string"
        case list():
            return "[]interface {}"
        case dict():
            return "map[string]interface {}"
        case _:
            return "<nil>"


def _comparable(fields: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, object]:
    kept = {name: zero for name, kind in known.items() if (zero := _ZEROS.get(kind)) is not None}
    return kept | plain({name: value for name, value in fields.items() if name in kept and value is not None})


def _row(obj: Hypervisor, common: dict[str, Any]) -> HypervisorRow:
    # The schema belongs to another operator and may change, so entries that are no conditions are ignored.
    written = obj.status.get("conditions")
    conditions = [each for each in written if isinstance(each, dict)] if isinstance(written, list) else []
    return HypervisorRow(
        **common,
        spec=_comparable(obj.spec, SPEC),
        status=_comparable(obj.status, STATUS),
        conditions=tuple((each.get("type", ""), each.get("status", "")) for each in conditions),
    )


HYPERVISORS = Resource(KIND, "/apis/kvm.cloud.sap/v1", "hypervisors", False, Hypervisor, _row)
