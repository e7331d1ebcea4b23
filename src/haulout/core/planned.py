"""How a plan follows what a surface does: the objects that stand for maintenance, and the states of nodes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from haulout.cluster.store import Store

OPERATIONAL, REQUIRED, DRAINING, IN_MAINTENANCE = "operational", "maintenance-required", "draining", "in-maintenance"

Json = dict[str, Any]


class Pick(msgspec.Struct, frozen=True):
    """Why a surface has chosen an object to go next.

    `before`: the nodes of the best others that it passed over, with what spoke for them. `waiting`: how many others wait.
    """

    why: str
    before: tuple[tuple[str, str], ...] = ()
    waiting: int = 0


def no_pick(obj: Json, store: Store, now: datetime) -> Pick | None:
    """Return no choice: the surface makes none."""
    return None


class PlannedObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of a surface, each of which takes a node out of service, as they stand in the API.

    `kind`: one of the surface's own kinds. `node`: the name of the node that an object is about.
    `state`: the state of that node, from the object and whether the node is cordoned.
    `is_done`: the work may be done, so that the object is deleted after the time that work takes.
    `make`: returns an object that asks for the maintenance of a node, for `plan --maintain`.
    `keeps_status`: an object goes on from where it stands; otherwise it begins anew with the plan.
    `pick`: returns why an object was chosen, from what stands in the API and in the kernel's store; None: it is not.
    `work_for`: how long the work takes, where the object says so.
    `worker_of`: the NAMESPACE/NAME of the object whose work a pod does, if it does any.
    """

    kind: str
    node: Callable[[Json], str]
    state: Callable[[Json, bool], str]
    is_done: Callable[[Json], bool]
    make: Callable[[str], Json]
    keeps_status: bool = False
    pick: Callable[[Json, Store, datetime], Pick | None] = no_pick
    work_for: Callable[[Json], timedelta | None] = lambda obj: None
    worker_of: Callable[[Json], str] = lambda pod: ""


def no_state(node: Json) -> str:
    """Return no state: the surface writes none on nodes."""
    return ""
