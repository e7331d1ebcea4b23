"""The status of a pod as a kubelet writes it, for each stage of the pod's life."""

from __future__ import annotations

from datetime import datetime, timedelta

from haulout.embedded.controllers.object_fields import phase_of, timestamp
from haulout.embedded.interfaces import Json

_RUNNING = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
_OF_READINESS = frozenset(("Ready", "ContainersReady"))


def running(pod: Json, now: datetime, *, ready: bool, restarted: bool = False, ip: str = "") -> Json:
    """Return the status of a pod whose containers run. `restarted`: they replace earlier ones."""
    at, old = timestamp(now), pod.get("status") or {}
    before = {one["name"]: one for one in old.get("containerStatuses") or ()}
    status: Json = {
        "phase": "Running",
        "conditions": _conditions(old, at, ready=ready),
        "containerStatuses": [
            _running_container(container, before.get(container["name"]), at, ready=ready, restarted=restarted)
            for container in pod["spec"].get("containers") or ()
        ],
    }
    if "startTime" not in old:
        status["startTime"] = at
    if ip and "podIP" not in old:
        status["podIP"], status["podIPs"] = ip, [{"ip": ip}]
    return status


def initializing(
    pod: Json, now: datetime, place: int, state: Json, *, last: Json | None = None, restarted: bool = False
) -> Json:
    """Return the status of a pod whose init containers run, the one at `place` being in the given state.

    Those before it have succeeded, those after it wait. `last`: how the one at `place` ended before.
    """
    at, old = timestamp(now), pod.get("status") or {}
    before = {one["name"]: one for one in old.get("initContainerStatuses") or ()}
    known = {one["name"]: one for one in old.get("containerStatuses") or ()}
    waits = {"waiting": {"reason": "PodInitializing"}}
    inits = [
        before[container["name"]]
        if number < place and container["name"] in before
        else _init_container(container, before.get(container["name"]), state, last, restarted=restarted)
        if number == place
        else _init_container(container, before.get(container["name"]), waits)
        for number, container in enumerate(pod["spec"]["initContainers"])
    ]
    status: Json = {
        "phase": "Pending",
        "conditions": _conditions(old, at, ready=False, initialized=False),
        "initContainerStatuses": inits,
        "containerStatuses": [
            known.get(container["name"]) or _init_container(container, None, waits)
            for container in pod["spec"].get("containers") or ()
        ],
    }
    if "startTime" not in old:
        status["startTime"] = at
    return status


def init_statuses(pod: Json, now: datetime, runs_for: timedelta) -> list[Json]:
    """Return the statuses of init containers that have all succeeded, one after another. Each ran for the same time."""
    containers = pod["spec"]["initContainers"]
    began = now - runs_for * len(containers)
    return [
        _init_container(
            container, None, {"terminated": ended_state(began + runs_for * number, began + runs_for * (number + 1))}
        )
        for number, container in enumerate(containers)
    ]


def ended_state(began: datetime, ended_at: datetime, exit_code: int = 0, message: str = "") -> Json:
    """Return the state of a container that has ended."""
    reason = "Error" if exit_code else "Completed"
    state: Json = {
        "exitCode": exit_code,
        "reason": reason,
        "startedAt": timestamp(began),
        "finishedAt": timestamp(ended_at),
    }
    return {**state, "message": message} if message else state


def is_initializing(pod: Json) -> bool:
    """Whether an init container of a pod runs."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return phase_of(pod) == "Pending" and any("running" in one.get("state", {}) for one in statuses)


def unready(pod: Json, now: datetime) -> Json:
    """Return the status with the containers as they are, none of them ready."""
    old = pod.get("status") or {}
    containers = [{**one, "ready": False} for one in old.get("containerStatuses") or ()]
    return {"conditions": _conditions(old, timestamp(now), ready=False), "containerStatuses": containers}


def waiting(pod: Json, now: datetime, reason: str, exit_code: int) -> Json:
    """Return the status of a pod whose containers have ended and will be restarted."""
    at, old = timestamp(now), pod.get("status") or {}
    containers = [
        {
            **one,
            "ready": False,
            "started": False,
            "state": {"waiting": {"reason": reason}},
            "lastState": {"terminated": _terminated(one, at, exit_code)},
        }
        for one in old.get("containerStatuses") or ()
    ]
    return {"conditions": _conditions(old, at, ready=False), "containerStatuses": containers}


def final_status(pod: Json, now: datetime, exit_code: int) -> Json:
    """Return the status of a pod whose containers have ended for good."""
    at, old = timestamp(now), pod.get("status") or {}
    containers = [
        {**one, "ready": False, "started": False, "state": {"terminated": _terminated(one, at, exit_code)}}
        for one in old.get("containerStatuses") or ()
    ]
    reason = "PodFailed" if exit_code else "PodCompleted"
    return {
        "phase": "Failed" if exit_code else "Succeeded",
        "conditions": _conditions(old, at, ready=False, reason=reason),
        "containerStatuses": containers,
    }


def restarts(pod: Json) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(one.get("restartCount", 0)) for one in statuses), default=0)


def _conditions(old: Json, at: str, *, ready: bool, reason: str = "", initialized: bool = True) -> list[Json]:
    """Return the kubelet's own conditions in its order, then those of other writers unchanged."""
    before = {one["type"]: one for one in old.get("conditions") or ()}
    result = []
    for kind in _RUNNING:
        holds = ready if kind in _OF_READINESS else not (reason and kind == "PodReadyToStartContainers")
        holds = initialized if kind == "Initialized" else holds
        new: Json = {"type": kind, "status": str(holds), "lastProbeTime": None, "lastTransitionTime": at}
        found = before.pop(kind, None)
        if found and found["status"] == new["status"]:
            new["lastTransitionTime"] = found["lastTransitionTime"]
        if kind in _OF_READINESS and not ready:
            new["reason"] = reason or "ContainersNotReady"
        if kind == "Initialized" and not initialized:
            new["reason"] = "ContainersNotInitialized"
        result.append(new)
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": at}
    result.append(before.pop("PodScheduled", scheduled))
    return [*result, *before.values()]


def _running_container(container: Json, old: Json | None, at: str, *, ready: bool, restarted: bool) -> Json:
    image = container.get("image", "")
    count = int(old.get("restartCount", 0)) if old else 0
    started = (old or {}).get("state", {}).get("running", {}).get("startedAt")
    status = {
        "name": container["name"],
        "image": image,
        "imageID": image,
        "ready": ready,
        "started": True,
        "restartCount": count + 1 if old and restarted else count,
        "state": {"running": {"startedAt": at if restarted or not started else started}},
        "lastState": {},
    }
    if old and restarted:
        state = old.get("state", {})
        status["lastState"] = (
            {"terminated": _terminated(old, at, 255)} if "running" in state else old.get("lastState", {})
        )
    elif old:
        status["lastState"] = old.get("lastState", {})
    return status


def _init_container(
    container: Json, old: Json | None, state: Json, last: Json | None = None, *, restarted: bool = False
) -> Json:
    image, ended = container.get("image", ""), state.get("terminated")
    count = int((old or {}).get("restartCount", 0)) + (restarted and "running" in state)
    return {
        "name": container["name"],
        "image": image,
        "imageID": image if "waiting" not in state else "",
        "ready": ended is not None and not ended["exitCode"],
        "started": "running" in state,
        "restartCount": count,
        "state": state,
        "lastState": {"terminated": last} if last is not None else (old or {}).get("lastState", {}),
    }


def _terminated(status: Json, at: str, exit_code: int) -> Json:
    started = status.get("state", {}).get("running", {}).get("startedAt", at)
    reason = "Error" if exit_code else "Completed"
    return {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": at}
