"""How a plan follows Skyhooks: the states of nodes, how long the pods of packages run, and what enters it of a status."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import msgspec

from haulout.core.planned import CHANGING, DRAINING, IN_MAINTENANCE, OPERATIONAL, REQUIRED, Json, PodRun
from haulout.surfaces.packages import interrupts
from haulout.surfaces.packages.node_names import CORDON_PREFIX, NODE_STATE_PREFIX, STATUS_PREFIX
from haulout.surfaces.packages.node_state import MalformedNodeState, parse
from haulout.surfaces.packages.pods import About
from haulout.surfaces.packages.stage_history import seen_times
from haulout.surfaces.packages.wire import (
    COMPLETE,
    DISABLED,
    ERRORING,
    IN_PROGRESS,
    INTERRUPT_LABEL,
    KIND,
    NAME,
    PACKAGE,
    Interrupt,
)

# Of a stage that no node has run yet, and of interrupts by what they do. A plan says that these are guesses.
STAGE_FOR, INTERRUPT_FOR, REBOOT_FOR = timedelta(minutes=1), timedelta(seconds=30), timedelta(minutes=5)
_REBOOT = interrupts.argument(Interrupt(interrupts.REBOOT))
_ABOUT = msgspec.json.Decoder(About)


def node_state(node: Json) -> str:
    """Return the state of a node from what Skyhooks have written on it; empty, if none has."""
    notes: dict[str, str] = node["metadata"].get("annotations") or {}
    statuses = {value for name, value in notes.items() if name.startswith(STATUS_PREFIX)}
    if any(name.startswith(CORDON_PREFIX) for name in notes):
        return IN_MAINTENANCE if _has_begun(notes) else DRAINING
    if statuses & {IN_PROGRESS, ERRORING}:
        return CHANGING
    if statuses - {COMPLETE, DISABLED}:
        return REQUIRED
    return OPERATIONAL if statuses else ""


def _has_begun(notes: dict[str, str]) -> bool:
    texts = [text for name, text in notes.items() if name.startswith(NODE_STATE_PREFIX)]
    return any(entry.state in (IN_PROGRESS, ERRORING) for text in texts for entry in _entries(text))


def _entries(text: str) -> Iterable[Any]:
    try:
        return parse(text).values()
    except MalformedNodeState:
        return ()


def pod_runs(nodes: Iterable[Json]) -> Callable[[Json], PodRun | None]:
    """Return what says of each pod how long it runs, from the times that these nodes have noted."""
    seen = seen_times(node["metadata"].get("annotations") or {} for node in nodes)

    def run(pod: Json) -> PodRun | None:
        labels = pod["metadata"].get("labels") or {}
        about = _about(pod) if NAME in labels else None
        if about is None:
            return None
        reboots = INTERRUPT_LABEL in labels and _REBOOT in _arguments(pod)
        default = STAGE_FOR if INTERRUPT_LABEL not in labels else REBOOT_FOR if reboots else INTERRUPT_FOR
        runs_for, count = seen.get((about.name, about.stage), (default, 0))
        what = f"package {about.name}, stage {about.stage}" + (" (a reboot)" if reboots else "")
        # The API counts in seconds, so that a short run may have taken none.
        return PodRun(what, max(runs_for, timedelta(seconds=1)), count, reboots=reboots)

    return run


def _about(pod: Json) -> About | None:
    try:
        return _ABOUT.decode((pod["metadata"].get("annotations") or {}).get(PACKAGE) or "")
    except (msgspec.DecodeError, RecursionError):
        return None


def _arguments(pod: Json) -> list[str]:
    return [each for container in pod["spec"].get("initContainers") or () for each in container.get("args") or ()]


def status(kind: str, obj: Json) -> Json | None:
    """Return the status with which an object enters a plan; None: without one.

    A Skyhook keeps the nodes that it has picked and the record of its batches. A plan's nodes have boot ids of their own.
    """
    stored = obj.get("status")
    if kind != KIND or not isinstance(stored, dict):
        return None
    kept = {name: value for name, value in stored.items() if name not in ("nodeBootIds", "observedGeneration")}
    is_current = stored.get("observedGeneration") == obj["metadata"].get("generation")
    # Every object begins at its first generation in a plan.
    return {**kept, "observedGeneration": 1} if is_current else kept
