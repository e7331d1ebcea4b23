"""Notes in a Node's metadata which client cordoned it, as the real server does for every field of every object."""

from __future__ import annotations

from typing import Any

from haulout.embedded.interfaces import Json

# The name that the real server notes for a client that names neither itself nor its program.
UNKNOWN = "unknown"
# Longer names of programs are cut off by the real server.
LONGEST = 128


def manager_of(named: str, user_agent: str) -> str:
    """Return the name that the server notes for a client: the one that it gives, else that of its program."""
    return named or user_agent.partition("/")[0][:LONGEST] or UNKNOWN


def with_cordon_manager(old: Json, obj: Json, manager: str, at: str) -> Json:
    """Return a changed Node with a note of the client that cordoned it. A write of the same value changes no note.

    `manager`: the client. Empty: nothing is noted, as of nodes whose cordon the real server has no note of.
    """
    is_cordoned = _is_cordoned(obj)
    if not manager or obj is old or is_cordoned == _is_cordoned(old):
        return obj
    meta = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    if is_cordoned:
        meta["managedFields"] = [
            {
                "manager": manager,
                "operation": "Update",
                "apiVersion": "v1",
                "time": at,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:unschedulable": {}}},
            }
        ]
    return {**obj, "metadata": meta}


def _is_cordoned(node: Json) -> bool:
    spec: Any = node.get("spec") or {}
    return bool(spec.get("unschedulable"))
