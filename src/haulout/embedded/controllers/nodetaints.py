"""The taints that follow from a node's conditions and from a cordon."""

from __future__ import annotations

from haulout.embedded.controllers.node_fit import NO_SCHEDULE
from haulout.embedded.controllers.object_fields import condition
from haulout.embedded.interfaces import Json

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OURS = frozenset((*_BY_CONDITION.values(), UNSCHEDULABLE))


def swept(node: Json, now: str) -> list[Json]:
    """Return the taints with the controller's NoSchedule ones up to date; others keep their place and time."""
    taints: list[Json] = (node.get("spec") or {}).get("taints") or []
    wanted = _no_schedule(node)
    kept = [one for one in taints if one["effect"] != NO_SCHEDULE or one["key"] not in _OURS or one["key"] in wanted]
    present = {one["key"] for one in kept if one["effect"] == NO_SCHEDULE}
    return [*kept, *({"key": key, "effect": NO_SCHEDULE, "timeAdded": now} for key in wanted if key not in present)]


def of_readiness(node: Json | None) -> str | None:
    """Return the key of the NoExecute taint for a node that is not ready; None if it is ready."""
    ready = condition(node, "Ready") if node else None
    return _BY_CONDITION.get(("Ready", ready["status"])) if ready else None


def _no_schedule(node: Json) -> list[str]:
    conditions = (node.get("status") or {}).get("conditions") or ()
    keys = [key for one in conditions if (key := _BY_CONDITION.get((one["type"], one["status"])))]
    if (node.get("spec") or {}).get("unschedulable"):
        keys.append(UNSCHEDULABLE)
    return keys
