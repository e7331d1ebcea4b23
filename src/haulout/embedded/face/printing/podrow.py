"""The row of a pod in a Table (kubernetes, pkg/printers/internalversion/printers.go: printPod)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from haulout.embedded.face.printing.cells import age, instant, span
from haulout.embedded.interfaces import Json


def pod_row(pod: Json, now: datetime) -> list[Any]:
    status = pod["status"]
    reason, restarts, restarted_at, ready = _state(pod)
    total = len(pod["spec"].get("containers") or ())
    count = str(restarts)
    if restarts and restarted_at:
        count = f"{restarts} ({span(now - instant(restarted_at))} ago)"
    address = next((each.get("ip", "") for each in status.get("podIPs", ())), "") or "<none>"
    return [
        pod["metadata"]["name"],
        f"{ready}/{total}",
        reason,
        count,
        age(pod["metadata"]["creationTimestamp"], now),
        address,
        pod["spec"].get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        _gates(pod),
    ]


def _state(pod: Json) -> tuple[str, int, str, int]:
    """Return a pod's reason, its restarts, the time of the last restart, and the number of ready containers."""
    status = pod["status"]
    reason = status.get("reason") or status.get("phase", "")
    if any(each["type"] == "PodScheduled" and each.get("reason") == "SchedulingGated" for each in _conditions(pod)):
        reason = "SchedulingGated"
    waits, restarts, restarted_at, ready = _initial(pod)
    if not waits or _holds(pod, "Initialized"):
        found, restarts, restarted_at, ready = _running(pod, waits or reason)
        waits = found
    reason = waits or reason
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in {"Succeeded", "Failed"}:
            reason = "Terminating"
    return reason, restarts, restarted_at, ready


def _initial(pod: Json) -> tuple[str, int, str, int]:
    statuses = pod["status"].get("initContainerStatuses", ())
    restarts, restarted_at = _restarts(statuses)
    for index, container in enumerate(statuses):
        state = container.get("state", {})
        ended, waiting = state.get("terminated"), state.get("waiting", {})
        if ended is not None and not ended.get("exitCode"):
            continue
        if ended is not None:
            return f"Init:{_ended(ended)}", restarts, restarted_at, 0
        if waiting.get("reason") not in {None, "PodInitializing"}:
            return f"Init:{waiting['reason']}", restarts, restarted_at, 0
        return f"Init:{index}/{len(pod['spec'].get('initContainers', ()))}", restarts, restarted_at, 0
    return "", restarts, restarted_at, 0


def _running(pod: Json, reason: str) -> tuple[str, int, str, int]:
    statuses = pod["status"].get("containerStatuses", ())
    restarts, restarted_at = _restarts(statuses)
    ready, failed = 0, ""
    for container in reversed(statuses):
        state = container.get("state", {})
        ended = state.get("terminated")
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif ended is not None:
            reason = _ended(ended)
            failed = reason if ended.get("exitCode") else failed
        elif container.get("ready") and "running" in state:
            ready += 1
    if reason == "Completed":
        stopped = failed or ("NotReady" if ready else reason)
        reason = "Running" if ready and _holds(pod, "Ready") else stopped
    return reason, restarts, restarted_at, ready


def _ended(ended: Json) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _restarts(statuses: Any) -> tuple[int, str]:
    ends = [each.get("lastState", {}).get("terminated", {}).get("finishedAt") or "" for each in statuses]
    return sum(each.get("restartCount", 0) for each in statuses), max(ends, default="")


def _conditions(pod: Json) -> Any:
    return pod["status"].get("conditions", ())


def _holds(pod: Json, condition: str) -> bool:
    return any(each["type"] == condition and each["status"] == "True" for each in _conditions(pod))


def _gates(pod: Json) -> str:
    gates = pod["spec"].get("readinessGates", ())
    if not gates:
        return "<none>"
    return f"{sum(_holds(pod, gate['conditionType']) for gate in gates)}/{len(gates)}"
