"""What a plan needs to follow a surface: the objects that stand for maintenance, and the states of nodes."""

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

    `before`: the nodes of the best objects that it passed over, with what spoke for them.
    `waiting`: how many other objects wait.
    """

    why: str
    before: tuple[tuple[str, str], ...] = ()
    waiting: int = 0


def no_pick(obj: Json, store: Store, now: datetime) -> Pick | None:
    """Return None, for surfaces that choose no object."""
    return None


class PlannedObjects(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of a surface's objects that take a node out of service each, and functions of such objects for a plan.

    `kind`: one of the surface's own kinds. `node`: returns the name of the node that an object is about.
    `state`: returns the state of that node, from the object and whether the node is cordoned.
    `is_done`: whether the work may be done, so that the object is deleted after the time that work takes.
    `make`: returns an object that asks for the maintenance of a node, for `plan --maintain`.
    `pick`: returns why an object was chosen, from the object and the kernel's store; None: it was not chosen.
    `work_for`: returns how long the work takes, where the object says so.
    `worker_of`: returns the NAMESPACE/NAME of the object whose work a pod does, if it does any.
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
    """The time that a pod that a surface makes runs in a plan.

    `what`: the work, such as a package and its stage.
    `count`: how many earlier runs the time is taken from; 0: the time is a guess.
    `reboots`: the pod reboots its node, which is away for that time.
    """

    what: str
    runs_for: timedelta
    count: int = 0
    reboots: bool = False


class Schedule(msgspec.Struct, frozen=True):
    """The times at which something may begin, as the chart of a plan shows them.

    `name`: the object that has the schedule, such as "budget nights".
    `is_open`: whether something may begin at an instant.
    `changes_at`: returns an instant before which that does not change; None: it never does.
    `zone`: the time zone that its times are written in; empty: UTC, or several.
    """

    name: str
    is_open: Callable[[datetime], bool]
    changes_at: Callable[[datetime], datetime | None]
    zone: str = ""


def no_schedules(options: Any, objects: Iterable[Json]) -> Iterable[Schedule]:
    """Return no schedules, for surfaces that may begin at any time."""
    return ()


def no_runs(nodes: Iterable[Json]) -> Callable[[Json], PodRun | None]:
    """Return a function that knows the run time of no pod, for surfaces that make none."""
    return lambda pod: None


def as_new(kind: str, obj: Json) -> tuple[Json, str]:
    """Return an object without its status, so that it begins anew with the plan, and no remark."""
    return {name: value for name, value in obj.items() if name != "status"}, ""


def no_state(node: Json) -> str:
    """Return an empty state, for surfaces that write none on nodes."""
    return ""
