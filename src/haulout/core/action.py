"""The actions that a decision can ask for, as data. Only the actor turns them into requests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Row, Taint


class Label(msgspec.Struct, frozen=True):
    """An edit that sets a label of the target, or removes it where `value` is None.

    `outcome`: if the API server refuses the write, the refusal is stored in the outcome row of this name. Empty: it is
    not stored. The other writes have the same field.
    `disrupts`: whether the write takes a node out of service, or lets work on it begin or go on, so that it is not sent
    during a pause. None: `core.pause` judges it by its type and target, to the safe side. The other actions have the
    same field.
    """

    target: Key
    name: str
    value: str | None
    outcome: str = ""
    disrupts: bool | None = None


class Annotate(msgspec.Struct, frozen=True):
    """An edit that sets an annotation of the target, or removes it where `value` is None.

    `outcome`: the name of the outcome row for a refusal.
    """

    target: Key
    name: str
    value: str | None
    outcome: str = ""
    disrupts: bool | None = None


class Finalize(msgspec.Struct, frozen=True):
    """An edit that adds or removes a finalizer of the target."""

    target: Key
    name: str
    present: bool
    outcome: str = ""


class KeepCordoned(msgspec.Struct, frozen=True):
    """A surface's wish that a Node be out of service for it. The kernel writes cordon and ledger, where they are missing.

    `is_visible`: the surface's own objects, labels or taints show its claim, so that the ledger need not name it.
    `labels`: labels that the surface is about to set. The ledger keeps their present values.
    `taint`: the surface also sets the taint of the cordon.
    `begun`: the surface has done all this already. If there is no ledger, it is from a version that kept none, and the
    cordon, labels and taint are the surface's own.
    `remembers`: the surface wants a ledger even where the kernel keeps none, as for a drop-in.
    """

    target: Key
    surface: str
    is_visible: bool = False
    labels: tuple[str, ...] = ()
    taint: bool = False
    begun: bool = False
    remembers: bool = False
    outcome: str = ""


class Release(msgspec.Struct, frozen=True):
    """A surface's wish to give a Node back. After the last claim the kernel restores the state from before.

    `restore`: without a ledger, nothing is restored. False: the node becomes schedulable, whatever it was before.
    `labels`: labels that the surface had set and puts back itself. Labels of other surfaces stay in the ledger.
    `remembers`: the surface has kept a ledger even where the kernel keeps none, as for a drop-in.
    `leaves_cordoned`: the node is to be unschedulable after the last claim, as if a person had cordoned it.
    """

    target: Key
    surface: str
    restore: bool = True
    labels: tuple[str, ...] = ()
    remembers: bool = False
    outcome: str = ""
    leaves_cordoned: bool = False


class Cordon(msgspec.Struct, frozen=True):
    """An edit that sets or clears `spec.unschedulable` of a Node. Only the kernel makes it: surfaces wish (K21).

    `outcome`: the name of the outcome row for a refusal.
    """

    target: Key
    unschedulable: bool
    outcome: str = ""


class SetTaint(msgspec.Struct, frozen=True):
    """An edit that adds, replaces or removes the taint with this key and effect.

    `first`: a taint that is added goes before all others.
    """

    target: Key
    taint: Taint
    present: bool
    first: bool = False
    outcome: str = ""


class Patch(msgspec.Struct, frozen=True):
    """An edit for which there is no other action, as a merge patch.

    `becomes`: the row that limits count until the API server has answered.
    `strategic`: it is a strategic merge patch, so that the server merges lists entry by entry.
    """

    target: Key
    body: Mapping[str, Any]
    subresource: str = ""
    becomes: Row | None = None
    outcome: str = ""
    strategic: bool = False
    disrupts: bool | None = None


class Create(msgspec.Struct, frozen=True):
    """A write that creates an object.

    The name is fixed. So if the answer gets lost and the write is repeated, no second object is made.
    """

    target: Key
    body: Mapping[str, Any]
    outcome: str = ""
    disrupts: bool | None = None


class Refusal(msgspec.Struct, frozen=True):
    """An API server's refusal of a write, as the outcome row keeps it."""

    code: int
    message: str
    cause: str
    at: datetime

    @property
    def by_budget(self) -> bool:
        return self.code == 429 and self.cause == "DisruptionBudget"


class Evict(msgspec.Struct, frozen=True):
    """A write that evicts a pod through the eviction API, which obeys PodDisruptionBudgets.

    `surface`: the surface that drains. Evictions are counted by surface.
    """

    target: Key
    uid: str
    grace_for: int | None = None
    outcome: str = ""
    surface: str = ""


class Delete(msgspec.Struct, frozen=True):
    """A write that deletes the object with this name and UID.

    `grace_for`: seconds that the object may take to end; None leaves that to the object.
    `outcome`: the name of the outcome row for a refusal.
    `surface`: the surface that drains. Deletions of pods are counted by surface.
    `with_owned`: the object stays until what it owns is gone, too, so that its name is free only then.
    """

    target: Key
    uid: str
    grace_for: int | None = None
    outcome: str = ""
    surface: str = ""
    disrupts: bool | None = None
    with_owned: bool = False


class Tell(msgspec.Struct, frozen=True):
    """A Kubernetes event. It is sent after the writes of its step have succeeded.

    In a step without writes it describes the current state. It is then sent once, however often the decision repeats
    it.
    `core`: the event is written in the core API group, not in events.k8s.io.
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
    """An addition to a counter or a histogram. It is made after the writes of its step have succeeded.

    A statement that a decision repeats is counted once. Another `occasion` makes it a new statement, which is counted
    again.
    `since`: the metric is a histogram, and the time from this instant is added. It ends at `until`, or where that is
    None, when the statement is made. `unit`: the seconds that count as 1.
    `signed`: `since` may be in the future, and the time is then negative. Otherwise a negative time counts as 0, so
    that a wrong clock does no harm.
    `trace`: the id of a trace that shows this time, as the exemplar of its bucket; empty: there is none.
    """

    counter: str
    labels: tuple[tuple[str, str], ...] = ()
    amount: float = 1.0
    occasion: int = 0
    since: datetime | None = None
    until: datetime | None = None
    unit: float = 1.0
    signed: bool = False
    trace: str = ""


class Say(msgspec.Struct, frozen=True):
    """A log line. It is written after the writes of its step have succeeded."""

    message: str
    fields: tuple[tuple[str, str], ...] = ()
    level: str = "info"


class Send(msgspec.Struct, frozen=True):
    """A message to the outside world. Its result is the outcome row of this name. No later step waits for it.

    `settings`: the settings that the message is sent with. The outcome keeps them, so that a decision can tell whether
    a failure was under the current settings.
    """

    outcome: str
    channel: str
    payload: Any
    settings: object = None
    disrupts: bool | None = None


Edit = Label | Annotate | Finalize | Cordon | SetTaint | Patch
CordonWish = KeepCordoned | Release
# What a surface may want of a Node.
NodeEdit = Edit | CordonWish
Write = Edit | Create | Evict | Delete
Statement = Tell | Measure | Say
Action = Write | CordonWish | Statement | Send
# The actions of one step do not depend on each other. A refusal withholds the later steps, but not the other actions of
# its own step.
Step = tuple[Action, ...]
