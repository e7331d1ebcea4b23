"""The JSON document of a plan, as data, and its JSON schema."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from haulout.base.json_schema import schema_of
from haulout.core.planned import CHANGING, DRAINING, IN_MAINTENANCE, OPERATIONAL, REQUIRED

Instant = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
State = Annotated[str, msgspec.Meta(examples=[OPERATIONAL, REQUIRED, CHANGING, DRAINING, IN_MAINTENANCE])]


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the document. All of its fields are always there."""


class Extent(_Part, frozen=True, rename={"begins_at": "from", "ends_at": "to"}):
    """A stretch of time. `to` is null where it has not ended when the plan does."""

    begins_at: Instant
    ends_at: Instant | None


class StateExtent(_Part, frozen=True, rename={"begins_at": "from", "ends_at": "to"}):
    """A stretch of time that a node spends in one state. `to` is null where the node is still in it when the plan ends."""

    state: State
    begins_at: Instant
    ends_at: Instant | None


class NodeCourse(_Part, frozen=True):
    """The way of one node.

    `beginsAt`: when something is first done to it; null where it only waits or never leaves service.
    `doneAt`: when it is back in service for good. `cordoned`: when it is cordoned. `waitsFor`: what keeps a node that does not come back.
    """

    name: str
    begins_at: Instant | None
    done_at: Instant | None
    states: tuple[StateExtent, ...]
    cordoned: tuple[Extent, ...]
    waits_for: str


class Rival(_Part, frozen=True):
    """A node that was passed over, with what spoke for it."""

    node: str
    why: str


class ChoiceMade(_Part, frozen=True):
    """A choice of a scheduler: which object, of which node, was next, and why. `waiting`: how many others waited."""

    at: Instant
    node: str
    object: str
    why: str
    before: tuple[Rival, ...]
    waiting: int


class Run(_Part, frozen=True):
    """How long a piece of work takes. `seen`: how many times it was seen on nodes; 0 where the time is a guess."""

    what: str
    seconds: float
    seen: int


class Cause(_Part, frozen=True):
    """How long nodes wait for one cause, all nodes together."""

    seconds: int
    cause: str


class Windows(_Part, frozen=True):
    """When something may begin, by a budget, a check or a scheduler that keeps to windows."""

    name: str
    open: tuple[Extent, ...]


class Document(_Part, frozen=True):
    """What `haulout plan -o json` prints. Times are in UTC, as 2026-04-01T12:00:00.000000Z.

    `settings`: where the settings come from. `incomplete`: what could not be taken into account.
    `notServed`, `notInSnapshot`: kinds of which there is no object, by the names of their definitions.
    `guesses`: the work whose time no node has told yet. `finishedAt`: null where a node does not come back, or none goes.
    `mostCordoned`: how many nodes are cordoned at once at most. `waitedFor`: the longest first.
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


def schema() -> dict[str, Any]:
    """Return the JSON Schema 2020-12 of the document."""
    return schema_of(Document)
