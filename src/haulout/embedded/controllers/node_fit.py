"""Whether a pod may run on a node: node selector, required node affinity, taints and tolerations, resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from haulout.base import quantity
from haulout.embedded.controllers.object_fields import labels_of
from haulout.embedded.interfaces import Json

NO_EXECUTE, NO_SCHEDULE = "NoExecute", "NoSchedule"
UNSCHEDULABLE_TAINT: Json = {"key": "node.kubernetes.io/unschedulable", "effect": NO_SCHEDULE}


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    match toleration.get("operator") or "Equal":
        case "Equal":
            return bool(toleration.get("value", "") == taint.get("value", ""))
        case "Exists":
            return True
        case _:
            return False


def untolerated_taint(taints: Iterable[Json], tolerations: Iterable[Json], effects: frozenset[str]) -> Json | None:
    """Return the first taint with one of these effects that no toleration covers."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint["effect"] in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def pinned_to(spec: Json) -> str | None:
    """Return the name of the only node that required affinity allows, as on pods of a DaemonSet, or None."""
    terms = _required_terms(spec)
    if not terms or len(terms) != 1 or terms[0].get("matchExpressions"):
        return None
    fields: list[Json] = terms[0].get("matchFields") or []
    if len(fields) == 1 and fields[0].get("key") == "metadata.name" and fields[0].get("operator") == "In":
        values: list[str] = fields[0].get("values") or []
        return str(values[0]) if len(values) == 1 else None
    return None


def matches_affinity(spec: Json, node: Json) -> bool:
    """Whether a node matches the pod's nodeSelector and one of the terms of its required node affinity."""
    labels = labels_of(node)
    selector: dict[str, str] = spec.get("nodeSelector") or {}
    if any(labels.get(name) != value for name, value in selector.items()):
        return False
    terms = _required_terms(spec)
    return terms is None or any(_term_matches(term, labels, node) for term in terms)


def _required_terms(spec: Json) -> list[Json] | None:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms") or []


def _term_matches(term: Json, labels: dict[str, str], node: Json) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    name = {"metadata.name": node["metadata"]["name"]}
    return all(_holds(one, labels) for one in expressions) and all(_holds(one, name) for one in fields)


def _holds(requirement: Json, labels: dict[str, str]) -> bool:
    value = labels.get(requirement["key"])
    values = requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _compare(value, values, lambda a, b: a > b)
        case "Lt":
            return _compare(value, values, lambda a, b: a < b)
        case _:
            return False


def _compare(value: str | None, values: Any, holds: Callable[[int, int], bool]) -> bool:
    try:
        return holds(int(value or ""), int(values[0]))
    except (ValueError, IndexError):
        return False


class Room(NamedTuple):
    """The resources that a pod requests or a node has: CPU in thousandths, memory in bytes, and a number of pods."""

    cpu: int
    memory: int
    pods: int

    def plus(self, other: Room) -> Room:
        return Room(self.cpu + other.cpu, self.memory + other.memory, self.pods + other.pods)

    def minus(self, other: Room) -> Room:
        return Room(self.cpu - other.cpu, self.memory - other.memory, self.pods - other.pods)

    def lacking(self, wanted: Room) -> tuple[str, ...]:
        """Return why the wanted resources do not fit, in the scheduler's words; nothing if they do."""
        if wanted.pods <= self.pods and wanted.cpu <= self.cpu and wanted.memory <= self.memory:
            return ()
        found = []
        if wanted.pods > self.pods:
            found.append("Too many pods")
        if wanted.cpu and wanted.cpu > self.cpu:
            found.append("Insufficient cpu")
        if wanted.memory and wanted.memory > self.memory:
            found.append("Insufficient memory")
        return tuple(found)


NOTHING = Room(0, 0, 0)


def requests_of(spec: Json) -> Room:
    """Return the resources that a pod requests.

    That is the sum of the containers or the largest init container, with sidecars and overhead, and one pod.
    """
    containers: list[Json] = spec.get("containers") or []
    overhead = spec.get("overhead")
    if len(containers) == 1 and not overhead and not spec.get("initContainers"):
        # Most pods have one container and nothing else, so that its requests are the whole sum.
        return _room(containers[0])._replace(pods=1)
    running, starting = NOTHING, NOTHING
    sidecars = NOTHING
    for container in spec.get("initContainers") or ():
        asked = _room(container)
        if container.get("restartPolicy") == "Always":
            sidecars = sidecars.plus(asked)
            starting = _larger(starting, sidecars)
        else:
            starting = _larger(starting, sidecars.plus(asked))
    for container in containers:
        running = running.plus(_room(container))
    needed = _larger(running.plus(sidecars), starting)
    return needed.plus(_of(overhead) if overhead else NOTHING)._replace(pods=1)


def allocatable_of(node: Json) -> Json:
    """Return the allocatable resources as the node reports them."""
    return (node.get("status") or {}).get("allocatable") or {}


def allocatable(node: Json) -> Room:
    room = allocatable_of(node)
    return _of(room)._replace(pods=quantity.whole(room.get("pods", 0)))


def _room(container: Json) -> Room:
    requests = (container.get("resources") or {}).get("requests")
    return _of(requests) if requests else NOTHING


def _of(amounts: Json) -> Room:
    return Room(quantity.thousandths(amounts.get("cpu", 0)), quantity.whole(amounts.get("memory", 0)), 0)


def _larger(one: Room, other: Room) -> Room:
    return Room(max(one.cpu, other.cpu), max(one.memory, other.memory), 0)
