"""How a NodeMaintenance is explained together with its node, and how a forecast simulates it."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.core.declaration import NodeObjects
from haulout.core.planned import DRAINING, IN_MAINTENANCE, REQUIRED, Json, PlannedObjects
from haulout.core.reason import Reason, best_act
from haulout.surfaces.nodemaintenance.counts import has_drain_taint
from haulout.surfaces.nodemaintenance.maintain import DEADLINE
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.settings import EVICTION
from haulout.surfaces.nodemaintenance.tainted_nodes import left_behind
from haulout.surfaces.nodemaintenance.wire import (
    API_VERSION,
    FAILED,
    KIND,
    MAINTENANCES_OF_NODE,
    SUCCEEDED,
    MaintenanceRow,
)

REFUSED = "refused"
PLANNED_RETRY_SECONDS, PLANNED_PASS_SECONDS = 60, 1200
PLANNED_REPORT_FOR = timedelta(minutes=2)


def _reason(row: MaintenanceRow, causes: tuple[Reason, ...]) -> Reason:
    """Return the phase as a reason. A maintenance that has succeeded waits until its user deletes it."""
    name, phase = row.key.name, row.status.phase or "new"
    if phase == FAILED:
        return _failed(row, causes)
    act = f"end it when the work is done: kubectl delete nm {name}" if phase == SUCCEEDED and not causes else ""
    text = f"NodeMaintenance {name} is {phase}" + (f" ({row.reason})" if row.reason else "")
    return Reason("maintenance", row.key, text, because=causes, act=act)


def _failed(row: MaintenanceRow, causes: tuple[Reason, ...]) -> Reason:
    """Return that the maintenance has failed, with its lastError, which the reason of the decision may repeat."""
    name, error = row.key.name, row.status.last_error
    # What helps against the causes comes first: deleting the maintenance gives the node back, and drains nothing.
    known = best_act(causes)
    act = f"{known or 'remove the cause'}, then give the node back: kubectl delete nm {name}"
    if any(each.code == REFUSED for each in causes):
        act = known or f"kubectl delete nm {name}"
    others = tuple(end for each in causes for end in (each.because if _repeats(each, error) else (each,)))
    text = f"NodeMaintenance {name} has failed" + (f": {error}" if error else "")
    return Reason("maintenance-failed", row.key, text, because=others, act=act)


def _repeats(cause: Reason, error: str) -> bool:
    """Whether a reason of the decision says no more than that the maintenance has failed."""
    return cause.text == error or cause.code == DEADLINE


def _left_behind(node: NodeRow) -> Reason | None:
    return left_behind(node.key) if has_drain_taint(node) else None


NODE_OBJECTS = NodeObjects(
    kind=KIND, index=MAINTENANCES_OF_NODE, node=lambda row: str(row.node), reason=_reason, left_behind=_left_behind
)


def _planned_state(maintenance: Json, cordoned: bool) -> str:
    if _is_done(maintenance):
        return IN_MAINTENANCE
    return DRAINING if cordoned else REQUIRED


def _is_done(maintenance: Json) -> bool:
    return (maintenance.get("status") or {}).get("phase") == SUCCEEDED


def _planned(node: str) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": f"plan-{node}"},
        "spec": {"nodeName": node, "reason": "planned"},
    }


def planned_options(options: Options) -> Options:
    """Return the options for a plan, whose cluster has only the Eviction API.

    An eviction that a budget refuses is tried once a minute, because a plan may be long.
    """
    drain = options.drain
    seconds = max(drain.retry_interval_seconds, PLANNED_RETRY_SECONDS)
    # A pass that ends writes its error into the status, which no plan shows.
    passes = drain.timeout_seconds and max(drain.timeout_seconds, PLANNED_PASS_SECONDS)
    drain = msgspec.structs.replace(drain, retry_interval_seconds=seconds, timeout_seconds=passes)
    return msgspec.structs.replace(options, drain=drain, eviction_backend=EVICTION, report_every_for=PLANNED_REPORT_FOR)


PLANNED_OBJECTS = PlannedObjects(
    kind=KIND,
    node=lambda maintenance: str(maintenance.get("spec", {}).get("nodeName", "")),
    state=_planned_state,
    is_done=_is_done,
    make=_planned,
)
