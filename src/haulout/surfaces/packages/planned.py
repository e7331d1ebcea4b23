"""How a forecast (`haulout plan`) simulates Skyhooks: node states, how long pods run, and which objects it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import msgspec

from haulout.core.planned import CHANGING, DRAINING, IN_MAINTENANCE, OPERATIONAL, REQUIRED, Json, PodRun, as_new
from haulout.surfaces.packages.entries import interrupts
from haulout.surfaces.packages.entries.entry import MalformedNodeState, parse
from haulout.surfaces.packages.entries.stage_history import seen_times
from haulout.surfaces.packages.groups import NODEWRIGHT, OF_KIND
from haulout.surfaces.packages.node.names import CORDON_PREFIX, NODE_STATE_PREFIX, STATUS_PREFIX
from haulout.surfaces.packages.pods.bodies import About
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
from haulout.surfaces.packages.wire_policy import POLICY_KINDS

# Guesses for stages that no node has run yet, and for interrupts by type. A forecast says that they are guesses.
STAGE_FOR, INTERRUPT_FOR, REBOOT_FOR = timedelta(minutes=1), timedelta(seconds=30), timedelta(minutes=5)
_REBOOT = interrupts.argument(Interrupt(interrupts.REBOOT))
_ABOUT = msgspec.json.Decoder(About)


def node_state(node: Json) -> str:
    """Return the maintenance state of a node from the annotations of Skyhooks; empty if it has none."""
    notes = _notes(node)
    statuses = {value for name, value in notes.items() if name.startswith(STATUS_PREFIX)}
    if any(name.startswith(CORDON_PREFIX) for name in notes):
        return IN_MAINTENANCE if _has_begun(notes) else DRAINING
    if statuses & {IN_PROGRESS, ERRORING}:
        return CHANGING
    if statuses - {COMPLETE, DISABLED}:
        return REQUIRED
    return OPERATIONAL if statuses else ""


def _notes(node: Json) -> dict[str, str]:
    """Return the annotations of a node, those of NodeWrights under the prefix of skyhook."""
    annotations = node["metadata"].get("annotations") or {}
    return {NODEWRIGHT.inner(name): value for name, value in annotations.items()}


def _has_begun(notes: dict[str, str]) -> bool:
    texts = [text for name, text in notes.items() if name.startswith(NODE_STATE_PREFIX)]
    return any(entry.state in (IN_PROGRESS, ERRORING) for text in texts for entry in _entries(text))


def _entries(text: str) -> Iterable[Any]:
    try:
        return parse(text).values()
    except MalformedNodeState:
        return ()


def pod_runs(nodes: Iterable[Json]) -> Callable[[Json], PodRun | None]:
    """Return a function that says how long a package pod runs, from the times that these nodes have noted."""
    seen = seen_times(map(_notes, nodes))

    def run(pod: Json) -> PodRun | None:
        labels = pod["metadata"].get("labels") or {}
        about = _about(pod) if NAME in labels else None
        if about is None:
            return None
        reboots = INTERRUPT_LABEL in labels and _REBOOT in _arguments(pod)
        default = STAGE_FOR if INTERRUPT_LABEL not in labels else REBOOT_FOR if reboots else INTERRUPT_FOR
        runs_for, count = seen.get((about.name, about.stage), (default, 0))
        what = f"package {about.name}, stage {about.stage}" + (" (a reboot)" if reboots else "")
        # API times are in whole seconds, so that a short run may seem to have taken none.
        return PodRun(what, max(runs_for, timedelta(seconds=1)), count, reboots=reboots)

    return run


def _about(pod: Json) -> About | None:
    try:
        return _ABOUT.decode((pod["metadata"].get("annotations") or {}).get(PACKAGE) or "")
    except (msgspec.DecodeError, RecursionError):
        return None


def _arguments(pod: Json) -> list[str]:
    return [each for container in pod["spec"].get("initContainers") or () for each in container.get("args") or ()]


def entering(kind: str, obj: Json) -> tuple[Json, str]:
    """Return an object as it enters a forecast, and a text about what of it is left out.

    A Skyhook keeps its picked nodes and the record of its waves, but not its boot ids: simulated nodes have their own.
    """
    spec, status = obj.get("spec"), obj.get("status")
    new = as_new(kind, obj)
    if kind in OF_KIND and isinstance(status, dict):
        kept = {name: value for name, value in status.items() if name != "nodeBootIds"}
        return {**obj, "status": _in_first_generation(kept, obj["metadata"].get("generation"))}, _left_out(obj)
    gate = spec.get("gate") if kind in POLICY_KINDS and isinstance(spec, dict) else None
    if isinstance(gate, dict) and "prometheus" in gate:
        gate_without_query = {name: value for name, value in gate.items() if name != "prometheus"}
        without: Json = {name: value for name, value in obj["spec"].items() if name != "gate"}
        text = f"the gate of DeploymentPolicy {obj['metadata'].get('name', '')} asks Prometheus: every wave counts as passed"
        return {**new[0], "spec": {**without, **({"gate": gate_without_query} if gate_without_query else {})}}, text
    return new


def _left_out(skyhook: Json) -> str:
    """Return what a forecast does not know of a running Skyhook, as it takes neither ConfigMaps nor package pods."""
    status, generation = skyhook["status"], skyhook["metadata"].get("generation")
    if status.get("status") == COMPLETE and status.get("observedGeneration") == generation:
        return ""
    spec = skyhook.get("spec")
    packages = spec.get("packages") if isinstance(spec, dict) else None
    bodies = packages.values() if isinstance(packages, dict) else ()
    texts = []
    if any(isinstance(each, dict) and each.get("configMap") for each in bodies):
        texts.append("a change of its configuration that has not reached all nodes yet is left out")
    if status.get("nodesInProgress"):
        texts.append("stages that run now begin anew")
    name = skyhook["metadata"].get("name", "")
    return f"{skyhook.get('kind') or KIND} {name}: {', and '.join(texts)}" if texts else ""


def _in_first_generation(value: Any, generation: object) -> Any:
    """Return a status with the current generation as generation 1, at which every object begins in a forecast."""
    if isinstance(value, list):
        return [_in_first_generation(each, generation) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: int(each == generation)
        if name in ("generation", "observedGeneration")
        else _in_first_generation(each, generation)
        for name, each in value.items()
    }
