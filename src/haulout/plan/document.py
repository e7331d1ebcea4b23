"""The JSON document of a plan, as data, and its JSON schema (decision 0078)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from haulout.base.json_schema import schema_of
from haulout.core.planned import CHANGING, DRAINING, IN_MAINTENANCE, OPERATIONAL, REQUIRED
from haulout.explain.operators import OperatorState

Instant = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
State = Annotated[str, msgspec.Meta(examples=[OPERATIONAL, REQUIRED, CHANGING, DRAINING, IN_MAINTENANCE])]


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """The base of the document's structs. All fields are required in the schema."""


class Extent(_Part, frozen=True, rename={"begins_at": "from", "ends_at": "to"}):
    """A stretch of time. `to` is null if it lasts beyond the end of the plan."""

    begins_at: Instant
    ends_at: Instant | None


class StateExtent(_Part, frozen=True, rename={"begins_at": "from", "ends_at": "to"}):
    """A stretch of time that a node spends in one state. `to` is null if it lasts beyond the end of the plan."""

    state: State
    begins_at: Instant
    ends_at: Instant | None


class NodeCourse(_Part, frozen=True):
    """The states of one node over the time of the plan.

    `beginsAt`: when work on it begins; null if it only waits or never leaves service.
    `doneAt`: when it is back in service for good. `cordoned`: when it is cordoned.
    `waitsFor`: what a node that does not return waits for.
    """

    name: str
    begins_at: Instant | None
    done_at: Instant | None
    states: tuple[StateExtent, ...]
    cordoned: tuple[Extent, ...]
    waits_for: str


class Rival(_Part, frozen=True):
    """A node that a scheduler passed over, with its score."""

    node: str
    why: str


class ChoiceMade(_Part, frozen=True):
    """A choice of a scheduler: the object that is next, its node, and why. `waiting`: how many others waited."""

    at: Instant
    node: str
    object: str
    why: str
    before: tuple[Rival, ...]
    waiting: int


class Run(_Part, frozen=True):
    """How long a piece of work takes. `seen`: how many nodes have recorded it; 0 if the time is a guess."""

    what: str
    seconds: float
    seen: int


class Cause(_Part, frozen=True):
    """How long nodes wait for one cause, summed over all nodes."""

    seconds: int
    cause: str


class Windows(_Part, frozen=True):
    """The times at which a schedule is open. `name`: the budget, check or scheduler that keeps to it."""

    name: str
    open: tuple[Extent, ...]


class Document(_Part, frozen=True):
    """The document that `haulout plan -o json` prints. Times are in UTC, such as 2026-04-01T12:00:00.000000Z.

    `settings`: where the settings come from. `incomplete`: what could not be taken into account.
    `notServed`, `notInSnapshot`: kinds without objects, by the names of their definitions, or "pods".
    `guesses`: the work whose time is assumed, because no node has recorded it.
    `finishedAt`: when the last node is back; null if a node does not return, or if none leaves.
    `mostCordoned`: the largest number of nodes that are cordoned at the same time. `waitedFor`: the longest first.
    `operator`: whether an operator leads, which a plan assumes; null: the plan is not for the cluster as it is.
    """

    settings: str
    incomplete: tuple[str, ...]
    not_served: tuple[str, ...]
    not_in_snapshot: tuple[str, ...]
    guesses: tuple[str, ...]
    runs: tuple[Run, ...]
    begins_at: Instant
    ends_at: Instant
    finished_at: Instant | None
    cordoned_seconds: float
    most_cordoned: int
    waited_for: tuple[Cause, ...]
    choices: tuple[ChoiceMade, ...]
    windows: tuple[Windows, ...]
    nodes: tuple[NodeCourse, ...]
    operator: OperatorState | None = None


def schema() -> dict[str, Any]:
    """Return the JSON Schema 2020-12 of the document."""
    return schema_of(Document)
