"""Fields that controllers read in objects, and small values that they write: conditions, times, owner references."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from haulout.base.number import digits
from haulout.embedded.interfaces import Json

Key = tuple[str, str]

# Stands for a missing timestamp.
LONG_AGO = datetime.fromtimestamp(0, UTC)
_ENDED = frozenset(("Succeeded", "Failed"))


def key_of(obj: Json) -> Key:
    """Return the namespace and name of an object."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def labels_of(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def controller_of(obj: Json) -> Json | None:
    """Return the owner reference that is marked as `controller`, or None."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Json = reference
            return found
    return None


def owned_by(owner: Json, api_version: str, kind: str) -> Json:
    """Return an owner reference that makes `owner` the controller of an object."""
    metadata = owner["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_terminating(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def phase_of(pod: Json) -> str:
    phase: str = (pod.get("status") or {}).get("phase") or "Pending"
    return phase


def has_ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED


def is_active(pod: Json) -> bool:
    """Whether a pod has neither ended nor is being deleted. Workload controllers count such pods."""
    return "deletionTimestamp" not in pod["metadata"] and (pod.get("status") or {}).get("phase") not in _ENDED


def node_of(pod: Json) -> str:
    name: str = pod["spec"].get("nodeName") or ""
    return name


def condition(obj: Json, kind: str) -> Json | None:
    for found in (obj.get("status") or {}).get("conditions") or ():
        if found["type"] == kind:
            answer: Json = found
            return answer
    return None


def is_ready(obj: Json) -> bool:
    """Whether the Ready condition of a pod or node is True."""
    for found in (obj.get("status") or {}).get("conditions") or ():
        if found["type"] == "Ready":
            return bool(found["status"] == "True")
    return False


def available_at(pod: Json, min_ready: int) -> datetime | None:
    """Return the instant from which a ready pod counts as available; None while it is not ready."""
    found = condition(pod, "Ready")
    if found is None or found["status"] != "True":
        return None
    since = instant(found.get("lastTransitionTime"))
    if since is LONG_AGO:
        # Without a transition time the object is available only if no time is required.
        return None if min_ready else since
    return datetime.fromtimestamp(since.timestamp() + min_ready, UTC)


def with_condition(conditions: Iterable[Json], new: Json, now: datetime) -> list[Json]:
    """Return the conditions with `new` in place of the one of its type, or at the end.

    A changed status sets the transition time.
    """
    return with_conditions(conditions, (new,), now)


def with_conditions(conditions: Iterable[Json], new: Iterable[Json], now: datetime) -> list[Json]:
    """Return the conditions with all of `new`, as `with_condition` does for one."""
    result, at = list(conditions), timestamp(now)
    for each in new:
        changed = {**each, "lastTransitionTime": at}
        for place, found in enumerate(result):
            if found["type"] == changed["type"]:
                if found["status"] == changed["status"]:
                    changed["lastTransitionTime"] = found.get("lastTransitionTime") or at
                result[place] = changed
                break
        else:
            result.append(changed)
    return result


@functools.lru_cache(maxsize=4096)
def instant(text: str | None) -> datetime:
    return datetime.fromisoformat(text) if text else LONG_AGO


@functools.lru_cache(maxsize=256)
def timestamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def scale_int_or_percent(value: Any, total: int, *, up: bool) -> int:
    """Return an int, or a percentage of the total, as `intstr.GetScaledValueFromIntOrPercent` does."""
    if isinstance(value, int):
        return value
    percent = (digits(str(value).removesuffix("%")) or 0) * total
    return -(-percent // 100) if up else percent // 100
