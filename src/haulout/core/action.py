"""What a decision wants done, as data. Only the actor turns it into requests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Row, Taint


class Label(msgspec.Struct, frozen=True):
    """Sets a label of the target, or removes it where `value` is None.

    A refusal is the outcome row of the name `outcome`, if it has one; so it is for the actions below.
    """

    target: Key
    name: str
    value: str | None
    outcome: str = ""


class Annotate(msgspec.Struct, frozen=True):
    """Sets an annotation of the target, or removes it where `value` is None. `outcome` names the row for a refusal."""

    target: Key
    name: str
    value: str | None
    outcome: str = ""


class Finalize(msgspec.Struct, frozen=True):
    """Adds or removes a finalizer."""

    target: Key
    name: str
    present: bool
    outcome: str = ""


class Cordon(msgspec.Struct, frozen=True):
    """Sets or clears `spec.unschedulable` of a Node. `outcome` names the row for a refusal."""

    target: Key
    unschedulable: bool
    outcome: str = ""


class SetTaint(msgspec.Struct, frozen=True):
    """Adds, replaces or removes the taint with this key and effect. `first`: where added, before all others."""

    target: Key
    taint: Taint
    present: bool
    first: bool = False
    outcome: str = ""


class Patch(msgspec.Struct, frozen=True):
    """A merge patch for what has no action of its own; `becomes` is the row as limits should count it meanwhile.

    `strategic`: the server merges lists entry by entry.
    """

    target: Key
    body: Mapping[str, Any]
    subresource: str = ""
    becomes: Row | None = None
    outcome: str = ""
    strategic: bool = False


class Create(msgspec.Struct, frozen=True):
    """Creates an object.

    The name is fixed, so that a creation whose answer got lost is not made twice.
    """

    target: Key
    body: Mapping[str, Any]
    outcome: str = ""


class Refusal(msgspec.Struct, frozen=True):
    """What an outcome row holds of a write that was answered and not carried out."""

    code: int
    message: str
    cause: str
    at: datetime

    @property
    def by_budget(self) -> bool:
        return self.code == 429 and self.cause == "DisruptionBudget"


class Evict(msgspec.Struct, frozen=True):
    """Evicts a pod through the eviction API, which obeys PodDisruptionBudgets.

    `surface`: the surface that drains, by which evictions are counted.
    """

    target: Key
    uid: str
    grace_for: int | None = None
    outcome: str = ""
    surface: str = ""


class Delete(msgspec.Struct, frozen=True):
    """Deletes the object with this name and UID. `outcome` names the row for a refusal.

    `grace_for`: seconds that the object may take to end; None leaves that to the object.
    `surface`: for whose drain, so that it can be counted.
    """

    target: Key
    uid: str
    grace_for: int | None = None
    outcome: str = ""
    surface: str = ""


class Tell(msgspec.Struct, frozen=True):
    """A Kubernetes event. It rides on the writes of its step: it is sent when they have succeeded.

    In a step without writes it is a statement about the current state, sent once for as long as the decision repeats
    it.
    """

    regarding: Key
    reason: str
    action: str
    note: str
    reporter: str
    warning: bool = False
    related: Key | None = None
    core: bool = False


class Measure(msgspec.Struct, frozen=True):
    """Adds to a counter. Like an event, it rides on the writes of its step.

    What is stated once for as long as it holds is counted anew on another `occasion`. With `since` it is a histogram,
    and what is added the time from then until it is stated, or until `until`. `unit`: the seconds that count as 1.
    `signed`: `since` may lie ahead, and the time is then less than 0; otherwise a clock that goes wrong adds 0.
    """

    counter: str
    labels: tuple[tuple[str, str], ...] = ()
    amount: float = 1.0
    occasion: int = 0
    since: datetime | None = None
    until: datetime | None = None
    unit: float = 1.0
    signed: bool = False


class Say(msgspec.Struct, frozen=True):
    """A log line. Like an event, it rides on the writes of its step."""

    message: str
    fields: tuple[tuple[str, str], ...] = ()
    level: str = "info"


class Send(msgspec.Struct, frozen=True):
    """A message to the outside. What becomes of it is the outcome row of this name; no later step waits for it.

    `settings`: what it is sent by. They stand in the outcome, so that a failure with others can be told from one with
    these.
    """

    outcome: str
    channel: str
    payload: Any
    settings: object = None


Edit = Label | Annotate | Finalize | Cordon | SetTaint | Patch
Write = Edit | Create | Evict | Delete
Statement = Tell | Measure | Say
Action = Write | Statement | Send
# The actions of one step do not depend on each other. A refusal withholds the later steps, but not the other actions of
# its own step.
Step = tuple[Action, ...]
