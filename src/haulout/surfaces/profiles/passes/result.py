"""What a pass is made with, and what becomes of one profile in it."""

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

    `alone`: the drop-in, which knows no other surfaces. `rules`: what all drains do with certain pods.

    `counts`: the pods that maintenance moves are counted by their owners.
    """

    alone: bool = True
    rules: PodRules = PodRules()
    counts: bool = False


class Judged(msgspec.Struct, frozen=True):
    """A transition and what its checks said. `passed` does not count `limits`: those are asked of the arbiter.

    `known`: every check could say something. `turns`: what has been taken for it, and when.
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
    """What became of one profile in a pass. `writes` are to other objects, before the node is written.

    `sent`: when its notifications were delivered, to be stored; `telling`: the one that is not, and `waiting` why.
    `times`: how often what fails has been tried in vain. `pulled`: the triggers whose work is stored with this pass;
    `skipped`: the notifications that were not due, and why. `changes`: what it wants of the node besides its entry;
    `refused`: the server has not taken it.

    `ended`: no later stage runs. `entered`: the node as the triggers of entering have left it; it becomes `node` once the
    notifications of the state are delivered. `goes_on`: it fails only in that a trigger takes its time.
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
        """How often the outside world has been asked in vain, over all that was asked for this profile."""
        return self.times + sum(verdict.times for judged in self.judged for verdict in judged.verdicts.values())


class ProfilePass(msgspec.Struct, frozen=True):
    """The part of a pass that is about one profile: what its stages read.

    `stage`: what the profile does in its state. `entry`: its entry in the stored data. `notice`: what its notifications
    are made of; None where the state has none. `busy`: a profile of the node is in maintenance. `spent`: objects that
    other profiles of the node write in this pass; one object serves only one of them. `granted` answers for claims.
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
        """Whether the triggers and notifications of the state have not been done yet."""
        return self.entry.previous != self.entry.current


def failed(result: Result, failure: str, error: str) -> Result:
    """End the pass of a profile with a failure, which is reported."""
    return msgspec.structs.replace(result, failure=failure, error=error, ended=True)


def retried(result: Result, trouble: Retry) -> Result:
    """End the pass of a profile whose trigger is not finished. What the trigger has changed so far stands."""
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
    """Have a write that the server refused tried again later, and counted each time."""
    if refused is None:
        return result
    return msgspec.structs.replace(result, until=earliest(result.until, refused.until), times=refused.times)
