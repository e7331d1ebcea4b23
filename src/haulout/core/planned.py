"""How a plan follows what a surface does: the objects that stand for maintenance, and the states of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

OPERATIONAL, REQUIRED, DRAINING, IN_MAINTENANCE = "operational", "maintenance-required", "draining", "in-maintenance"

Json = dict[str, Any]


class PlannedObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of a surface, each of which takes a node out of service, as they stand in the API.

    `kind`: one of the surface's own kinds. `node`: the name of the node that an object is about.
    `state`: the state of that node, from the object and whether the node is cordoned.
    `is_done`: the work may be done, so that the object is deleted after the time that work takes.
    `make`: returns an object that asks for the maintenance of a node, for `plan --maintain`.
    """

    kind: str
    node: Callable[[Json], str]
    state: Callable[[Json, bool], str]
    is_done: Callable[[Json], bool]
    make: Callable[[str], Json]


def no_state(node: Json) -> str:
    """Return no state: the surface writes none on nodes."""
    return ""
