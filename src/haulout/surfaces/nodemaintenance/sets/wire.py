"""NodeMaintenanceSet on the wire: its names, its spec as it is read, and its row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from haulout.base import duration
from haulout.base.bounds import LONGEST_NAME, instant, text
from haulout.cluster.key import Key
from haulout.cluster.project import Resource
from haulout.cluster.rows import AskedRow, Row
from haulout.cluster.store import Index
from haulout.cluster.view import View
from haulout.core.kstatus import read_conditions
from haulout.core.pause import ANNOTATION
from haulout.model.meta import Condition, ManagedMeta
from haulout.surfaces.nodemaintenance.acts import MOST_AT_ONCE, MOST_NODES, SETS
from haulout.surfaces.nodemaintenance.wire import KIND as MAINTENANCE
from haulout.surfaces.nodemaintenance.wire import LONGEST_REASON, MaintenanceRow

KIND, PLURAL = SETS.kind, SETS.resource
API_VERSION = f"{SETS.group}/{SETS.version}"
IN_MAINTENANCE, DONE, SET_ASIDE = "InMaintenance", "Done", "SetAside"
STATES = frozenset({IN_MAINTENANCE, DONE, SET_ASIDE})
PENDING, RUNNING, PAUSED, COMPLETED = "Pending", "Running", "Paused", "Completed"


class NodeMaintenanceSet(Struct, frozen=True):
    """A NodeMaintenanceSet (haulout.dev/v1alpha1) as the API server sends it, not checked."""

    metadata: ManagedMeta = ManagedMeta()
    spec: Any = None
    status: Any = None


class SetSpec(Struct, frozen=True):
    """The spec of a set.

    `nodes`: the names of its nodes, in the order in which they are taken. `most`: how many may be in maintenance at once.
    `start_at`: the instant before which none begins. `ttl_for`: how long the set is kept after its last node.
    `set_aside_for`: how long the drain of a node may take before the node is given back and named in the status.
    """

    nodes: tuple[str, ...] = ()
    most: int = 1
    reason: str = ""
    paused: bool = False
    start_at: datetime | None = None
    ttl_for: timedelta | None = None
    set_aside_for: timedelta | None = None


class SetRow(AskedRow, frozen=True, kw_only=True, gc=False):
    """The row of a NodeMaintenanceSet.

    `problem`: why its spec cannot be read. The set then changes nothing.
    `states`: the state of each node that has begun. `aside`: why nodes were set aside, as in the status.
    `conditions`: those for other tools.
    """

    spec: SetSpec = SetSpec()
    problem: str = ""
    states: Mapping[str, str] = {}
    aside: tuple[tuple[str, str, str], ...] = ()
    phase: str = ""
    finished_at: datetime | None = None
    written: Mapping[str, Any] = {}
    generation: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()

    @property
    def is_paused(self) -> bool:
        """Whether no further node begins: by its own switch, or by a person with a reason."""
        return self.spec.paused or ANNOTATION in self.annotations


class SetProblem(Exception):
    """The error of a field that cannot be read."""


def _project(obj: NodeMaintenanceSet, common: dict[str, Any]) -> SetRow:
    status: Mapping[str, Any] = obj.status if isinstance(obj.status, dict) else {}
    try:
        spec, problem = read_spec(obj.spec), ""
    except SetProblem as error:
        spec, problem = SetSpec(), text(str(error), LONGEST_NAME)
    return SetRow(
        **common,
        creator=obj.metadata.creator,
        spec=spec,
        problem=problem,
        states=_states(status.get("nodes")),
        aside=_aside(status.get("setAsideNodes")),
        phase=text(str(status.get("phase", "")), LONGEST_NAME),
        finished_at=_instant_or_none(status.get("finishedAt")),
        written={name: each for name in COUNTS if isinstance(each := status.get(name), int)},
        generation=obj.metadata.generation,
        observed_generation=seen if isinstance(seen := status.get("observedGeneration"), int) else 0,
        conditions=read_conditions(status.get("conditions")),
    )


COUNTS = ("total", "waiting", "inMaintenance", "done", "setAside")
MOST_ASIDE = 50


def read_spec(found: Any) -> SetSpec:
    """Return the spec from its JSON. Raises an error that names the field that cannot be read."""
    if not isinstance(found, dict):
        raise SetProblem("spec is missing")
    nodes = found.get("nodes")
    if not isinstance(nodes, list) or not nodes or not all(isinstance(each, str) and each for each in nodes):
        raise SetProblem("spec.nodes is not a list of names of nodes")
    if len(nodes) > MOST_NODES or any(len(each) > LONGEST_NAME for each in nodes):
        raise SetProblem(f"spec.nodes has more than {MOST_NODES} names, or one of more than {LONGEST_NAME} characters")
    most = found.get("maxConcurrent", 1)
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MOST_AT_ONCE:
        raise SetProblem(f"spec.maxConcurrent is not a number from 1 to {MOST_AT_ONCE}")
    return SetSpec(
        nodes=tuple(dict.fromkeys(nodes)),
        most=most,
        reason=text(str(found.get("reason") or ""), LONGEST_REASON),
        paused=found.get("paused") is True,
        start_at=_instant(found, "startAt"),
        ttl_for=_span(found, "ttl"),
        set_aside_for=_span(found, "setAsideAfter"),
    )


def _instant(found: Mapping[str, Any], name: str) -> datetime | None:
    if found.get(name) is None:
        return None
    if (at := _instant_or_none(found[name])) is None:
        raise SetProblem(f"spec.{name} is not an instant such as 2026-11-18T22:00:00Z")
    return at


def _instant_or_none(found: Any) -> datetime | None:
    try:
        return instant(datetime.fromisoformat(found)) if isinstance(found, str) else None
    except ValueError:
        return None


def _span(found: Mapping[str, Any], name: str) -> timedelta | None:
    if found.get(name) is None:
        return None
    try:
        span = duration.parse(str(found[name]))
    except duration.DurationError:
        raise SetProblem(f"spec.{name} is not a duration such as 90m") from None
    if span < timedelta():
        raise SetProblem(f"spec.{name} is negative")
    return span


def _states(found: Any) -> dict[str, str]:
    if not isinstance(found, dict):
        return {}
    known = ((name, state) for name, state in found.items() if state in STATES and len(name) <= LONGEST_NAME)
    return dict(each for each, _ in zip(known, range(2 * MOST_NODES), strict=False))


def _aside(found: Any) -> tuple[tuple[str, str, str], ...]:
    def field(each: Mapping[str, Any], name: str) -> str:
        return text(str(each.get(name, "")), LONGEST_REASON)

    entries = [each for each in found[:MOST_ASIDE] if isinstance(each, dict)] if isinstance(found, list) else []
    return tuple([(field(each, "name"), field(each, "reason"), field(each, "at")) for each in entries])


RESOURCE = Resource(KIND, f"/apis/{API_VERSION}", PLURAL, False, NodeMaintenanceSet, _project, bounds=None)


def _set_of(row: Row) -> tuple[str, ...]:
    return tuple(each.uid for each in row.owners if each.kind == KIND) if isinstance(row, MaintenanceRow) else ()


MAINTENANCES_OF_SET = Index("maintenances-of-set", MAINTENANCE, _set_of)


def asking_set(row: MaintenanceRow, view: View) -> SetRow | None:
    """Return the set that asks for a NodeMaintenance; None if it does not ask for it now.

    Owners are written by clients: a set asks only for the nodes that it names and that are not done.
    """
    name = next((each.name for each in row.owners if each.kind == KIND), "")
    found = view.get(Key(row.key.cluster, KIND, "", name), SetRow) if name else None
    if found is None or found.uid not in _set_of(row) or row.node not in found.spec.nodes:
        return None
    return found if found.states.get(row.node, IN_MAINTENANCE) == IN_MAINTENANCE else None


def is_of_a_set(row: MaintenanceRow) -> bool:
    """Whether a NodeMaintenance was made for a set, which is then its only owner.

    An object is collected only after its last owner. With its node as a second owner, it would outlive its set.
    """
    return bool(_set_of(row))
