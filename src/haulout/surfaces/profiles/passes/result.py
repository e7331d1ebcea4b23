"""The inputs and the result of one profile in a pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.limits import Limit
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.view import View
from haulout.core.action import Edit, Send, Statement, Write
from haulout.core.decision import earliest
from haulout.core.drain.options import PodRules
from haulout.core.holds import Claim
from haulout.plugins.api import Check, Notifier, Retry, Trigger, Verdict
from haulout.surfaces.profiles.load import Configuration, Instance, Profile, Stage, Transition
from haulout.surfaces.profiles.notifications import Situation, Skipped
from haulout.surfaces.profiles.refusals import Refused
from haulout.surfaces.profiles.wire import Entry, Stamp

Config = Configuration[Check, Notifier, Trigger]
AnyProfile = Profile[Check, Notifier, Trigger]
AnyStage = Stage[Check, Notifier, Trigger]
Chain = tuple[Instance[Trigger], ...]


class Mode(msgspec.Struct, frozen=True):
    """How the profiles surface is served, beside its configuration file.

    `alone`: it is the original's drop-in, so there are no other surfaces.
    `rules`: the pod rules of all drains.
    `counts`: count the pods that maintenance moves, by their owners.
    """

    alone: bool = True
    rules: PodRules = PodRules()
    counts: bool = False


class Judged(msgspec.Struct, frozen=True):
    """A transition with the verdicts of its checks.

    `passed`: the expression is true. It does not include `limits`, which the arbiter decides.
    `allowed`: it does not lead into maintenance while another profile of the node is there.
    `known`: every check has an answer.
    `turns`: the objects that were taken for this transition, and when.
    """

    number: int
    transition: Transition[Check, Trigger]
    verdicts: Mapping[str, Verdict]
    passed: bool
    allowed: bool
    error: str = ""
    known: bool = True
    limits: tuple[Limit, ...] = ()
    turns: Mapping[Key, datetime] = {}


class Result(msgspec.Struct, frozen=True):
    """The result of one profile in a pass.

    `judged`: its transitions. `moved`: it makes a transition to `next`. `failure`, `error`: why it failed.
    `writes`: writes to other objects, which come before the node's patch.
    `sent`: delivery times of notifications to store. `telling`: the notification that is not delivered, and `waiting`
    why.
    `times`: how often the failing operation was tried.
    `pulled`: the triggers whose work is stored with this pass.
    `skipped`: the notifications that were not due, and why.
    `changes`: its edits of the node besides its entry. `refused`: why the API server has refused them.
    `ended`: no later stage runs.
    `entered`: the node after the triggers of entering. It becomes `node` when the notifications are delivered.
    `goes_on`: the failure is only that a trigger is not finished yet.
    """

    profile: str
    state: str
    next: str
    node: NodeRow
    entry: Entry
    judged: tuple[Judged, ...] = ()
    claims: tuple[Claim, ...] = ()
    until: datetime | None = None
    moved: bool = False
    failure: str = ""
    error: str = ""
    writes: tuple[Write, ...] = ()
    marks: tuple[Row, ...] = ()
    says: tuple[Statement, ...] = ()
    sent: Mapping[str, Stamp] = {}
    sends: tuple[Send, ...] = ()
    telling: str = ""
    waiting: str = ""
    times: int = 0
    pulled: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    changes: tuple[Edit, ...] = ()
    refused: Refused | None = None
    ended: bool = False
    entered: NodeRow | None = None
    goes_on: bool = False

    @property
    def asked_again(self) -> int:
        """How many attempts of probes and messages have failed for this profile."""
        return self.times + sum(verdict.times for judged in self.judged for verdict in judged.verdicts.values())


class ProfilePass(msgspec.Struct, frozen=True):
    """The inputs of the stages for one profile.

    `stage`: the configuration of its state. `entry`: its entry in the stored data.
    `notice`: the inputs of its notifications; None if the state has none.
    `granted`: answers whether a claim is granted.
    `busy`: a profile of the node is in maintenance.
    `spent`: objects that other profiles of the node write in this pass. One object serves only one profile.
    """

    profile: AnyProfile
    stage: AnyStage
    entry: Entry
    config: Config
    view: View
    now: datetime
    mode: Mode
    granted: Callable[[Claim], bool]
    notice: Situation | None = None
    busy: bool = False
    spent: frozenset[Key] = frozenset()

    @property
    def is_entering(self) -> bool:
        """Whether the triggers and notifications of entering the state are not done yet."""
        return self.entry.previous != self.entry.current


def fail(result: Result, failure: str, error: str) -> Result:
    """Return the result of a profile that fails: the pass ends, and the failure is reported."""
    return msgspec.structs.replace(result, failure=failure, error=error, ended=True)


def retry(result: Result, trouble: Retry) -> Result:
    """Return the result of a profile whose trigger is not finished. The changes of the trigger so far are kept."""
    until = earliest(result.until, trouble.until)
    return msgspec.structs.replace(
        result,
        node=trouble.node,
        marks=trouble.marks,
        says=trouble.says,
        until=until,
        ended=True,
        goes_on=trouble.goes_on,
    )


def put_off(result: Result, refused: Refused | None) -> Result:
    """Return the result with a refused write put off: it is tried again later, and each attempt is counted."""
    if refused is None:
        return result
    return msgspec.structs.replace(result, until=earliest(result.until, refused.until), times=refused.times)
