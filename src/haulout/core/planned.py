"""How a plan follows what a surface does: the objects that stand for maintenance, and the states of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from haulout.cluster.store import Store

OPERATIONAL, REQUIRED, DRAINING, IN_MAINTENANCE = "operational", "maintenance-required", "draining", "in-maintenance"
# The state of a node that is changed while it is in service.
CHANGING = "changing"

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
    `pick`: returns why an object was chosen, from what stands in the API and in the kernel's store; None: it is not.
    `work_for`: how long the work takes, where the object says so.
    `worker_of`: the NAMESPACE/NAME of the object whose work a pod does, if it does any.
    """

    kind: str
    node: Callable[[Json], str]
    state: Callable[[Json, bool], str]
    is_done: Callable[[Json], bool]
    make: Callable[[str], Json]
    pick: Callable[[Json, Store, datetime], Pick | None] = no_pick
    work_for: Callable[[Json], timedelta | None] = lambda obj: None
    worker_of: Callable[[Json], str] = lambda pod: ""


class PodRun(msgspec.Struct, frozen=True):
    """How long a pod that a surface makes runs in a plan.

    `what`: the work, such as a package and its stage. `count`: how many runs of it were seen; 0: the time is a guess.
    `reboots`: the pod reboots its node, which is away for that time.
    """

    what: str
    runs_for: timedelta
    count: int = 0
    reboots: bool = False


class Schedule(msgspec.Struct, frozen=True):
    """When something may begin, as the chart of a plan shows it.

    `name`: the object that has the schedule, such as "budget nights". `is_open`: whether something may begin at an
    instant.
    `changes_at`: an instant before which that does not change; None: it never does.
    """

    name: str
    is_open: Callable[[datetime], bool]
    changes_at: Callable[[datetime], datetime | None]


def no_schedules(options: Any, objects: Iterable[Json]) -> Iterable[Schedule]:
    """Return no schedules: the surface may begin at any time."""
    return ()


def no_runs(nodes: Iterable[Json]) -> Callable[[Json], PodRun | None]:
    """Return what knows no pod: the surface makes none that end."""
    return lambda pod: None


def as_new(kind: str, obj: Json) -> tuple[Json, str]:
    """Return an object without its status: it begins anew with the plan."""
    return {name: value for name, value in obj.items() if name != "status"}, ""


def no_state(node: Json) -> str:
    """Return no state: the surface writes none on nodes."""
    return ""
