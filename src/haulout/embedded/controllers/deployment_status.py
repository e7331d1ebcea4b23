"""The status of a Deployment: its counts, and the conditions Available and Progressing."""

from __future__ import annotations

from datetime import datetime, timedelta

from haulout.base.bounds import span
from haulout.embedded.controllers.object_fields import condition, instant, timestamp
from haulout.embedded.controllers.replicaset import wanted_replicas
from haulout.embedded.controllers.rollout import fenceposts
from haulout.embedded.interfaces import Json

_AVAILABLE, _UPDATED, _TIMED_OUT = "NewReplicaSetAvailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded"
_NO_DEADLINE = 2**31 - 1


def status(deployment: Json, new: Json | None, old: list[Json], now: datetime) -> tuple[Json, datetime | None]:
    """Return the status of a Deployment, and the instant at which time alone may change it."""
    sets = [*old, new] if new else old
    available = sum(count(one, "availableReplicas") for one in sets)
    result: Json = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": sum(count(one, "replicas") for one in sets),
        "updatedReplicas": count(new, "replicas") if new else 0,
        "readyReplicas": sum(count(one, "readyReplicas") for one in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(map(wanted_replicas, sets)) - available, 0),
        "terminatingReplicas": sum(count(one, "terminatingReplicas") for one in sets),
    }
    enough = available >= wanted_replicas(deployment) - fenceposts(deployment)[1]
    conditions = _set((deployment.get("status") or {}).get("conditions") or [], _availability(enough), now)
    late_at = None
    if new and (deadline := _deadline(deployment)) is not None:
        conditions, late_at = _progress(deployment, (result, conditions), new["metadata"]["name"], deadline, now)
    result["conditions"] = conditions
    return result, late_at


def first_conditions(deployment: Json, replica_set: str, now: datetime) -> list[Json]:
    """Return the conditions of a Deployment whose new ReplicaSet has just been created."""
    conditions: list[Json] = (deployment.get("status") or {}).get("conditions") or []
    if _deadline(deployment) is None:
        return conditions
    new = _progressing("True", "NewReplicaSetCreated", f'Created new replica set "{replica_set}"')
    return _set(conditions, new, now)


def is_complete(deployment: Json, state: Json) -> bool:
    size = wanted_replicas(deployment)
    counts = (state.get("updatedReplicas", 0), state.get("replicas", 0), state.get("availableReplicas", 0))
    return counts == (size, size, size) and state.get("observedGeneration", 0) >= deployment["metadata"]["generation"]


def count(replica_set: Json, name: str) -> int:
    return int((replica_set.get("status") or {}).get(name, 0))


def _progress(
    deployment: Json, found: tuple[Json, list[Json]], name: str, deadline: timedelta, now: datetime
) -> tuple[list[Json], datetime | None]:
    """Return the conditions with Progressing up to date, and the instant of the progress deadline."""
    state, conditions = found
    current = condition(deployment, "Progressing")
    if state["replicas"] == state["updatedReplicas"] and current and current.get("reason") == _AVAILABLE:
        return conditions, None
    if is_complete(deployment, state):
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return _set(conditions, _progressing("True", _AVAILABLE, text), now), None
    if _gets_on(deployment.get("status") or {}, state):
        new = _progressing("True", _UPDATED, f'ReplicaSet "{name}" is progressing.')
        return _set(conditions, new, now, fresh=True), None
    if current is None or current.get("reason") == _TIMED_OUT:
        return conditions, None
    late_at = instant(current.get("lastUpdateTime")) + deadline
    if now > late_at:
        text = f'ReplicaSet "{name}" has timed out progressing.'
        return _set(conditions, _progressing("False", _TIMED_OUT, text), now), None
    return conditions, late_at + timedelta(seconds=1)


def _set(conditions: list[Json], new: Json, now: datetime, *, fresh: bool = False) -> list[Json]:
    """Return the conditions with one replaced, as `SetDeploymentCondition` does it.

    A condition with the same status and reason is kept unless `fresh`; a replaced one goes to the end.
    """
    found = next((one for one in conditions if one["type"] == new["type"]), None)
    since = timestamp(now)
    if found and found["status"] == new["status"]:
        if not fresh and found.get("reason") == new["reason"]:
            return conditions
        since = found["lastTransitionTime"]
    others = [one for one in conditions if one["type"] != new["type"]]
    return [*others, {**new, "lastUpdateTime": timestamp(now), "lastTransitionTime": since}]


def _deadline(deployment: Json) -> timedelta | None:
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    seconds = 600 if seconds is None else int(seconds)
    return None if seconds == _NO_DEADLINE else span(seconds)


def _availability(enough: bool) -> Json:
    if enough:
        reason, message = "MinimumReplicasAvailable", "Deployment has minimum availability."
    else:
        reason, message = "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
    return {"type": "Available", "status": str(enough), "reason": reason, "message": message}


def _progressing(state: str, reason: str, message: str) -> Json:
    return {"type": "Progressing", "status": state, "reason": reason, "message": message}


def _gets_on(old: Json, new: Json) -> bool:
    def pending_replicas(state: Json) -> int:
        return int(state.get("replicas", 0)) - int(state.get("updatedReplicas", 0))

    grows = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return pending_replicas(new) < pending_replicas(old) or any(new[name] > old.get(name, 0) for name in grows)
