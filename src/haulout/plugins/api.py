"""What authors of checks, triggers and notifiers import: the decorators, what a plugin is given, and what it answers.

    @check("wait", Wait)
    def wait(config: Wait, inputs: CheckInput) -> Verdict: ...

A plugin is a pure function in a file of its own; it is found by being there (or by an entry point of its package).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from haulout.base.semver import Version
from haulout.cluster.key import Key
from haulout.cluster.limits import Count, Limit
from haulout.cluster.project import Keep
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.view import FactDemand, View
from haulout.core.action import Statement, Write
from haulout.core.drain.options import PodRules
from haulout.core.holds import LONG_AGO, Want
from haulout.plugins.config import Config
from haulout.plugins.messages import Mail, Message, Post, Thread

__all__ = [
    "Also",
    "Check",
    "CheckInput",
    "Config",
    "Failed",
    "Fill",
    "Fleet",
    "Keep",
    "Mail",
    "Message",
    "Notifier",
    "Post",
    "Retry",
    "Thread",
    "Trigger",
    "TriggerInput",
    "Verdict",
    "check",
    "notifier",
    "trigger",
]

C = TypeVar("C", bound=Config)
PROBE_PATH = re.compile(r"[\w.]+:\w+")


def _no_nodes(label: str, than: Version, profile: str) -> Count:
    return Count()


class Fleet(msgspec.Struct, frozen=True):
    """Counts of nodes by what only the surface knows of them. By default a fleet without nodes.

    `newer(label, version, profile)`: those whose version label is greater, with that profile attached where one is
    named; in group `()`. `states`: by (profile, state). `free_to_go`: those in maintenance-required without a pod
    that prefers operational nodes; by profile.
    """

    newer: Callable[[str, Version, str], Count] = _no_nodes
    states: Count = Count()
    free_to_go: Count = Count()


class CheckInput(msgspec.Struct, frozen=True):
    """What a check may read when it judges one node.

    `node` is the draft that earlier plugins of this pass have worked on.

    `may_wait`: a no of this check can only ever keep a transition from happening, so that a limit may be answered
    with `Verdict.limits` instead of being counted. `in_maintenance(profile, label keys, skip after)` is the count of
    nodes in maintenance, `unreadable(group)` its group of those whose data cannot be read. `pace_for`: how often
    answers of the outside world are to be renewed. `probe`: the check's own, which `ask` asks. `turns`: what has been taken for this very transition, and when;
    that it has been made is not stored yet.
    """

    node: NodeRow
    profile: str
    state: str
    last_transition: datetime
    now: datetime
    view: View
    in_maintenance: Callable[[str, tuple[str, ...], timedelta], Count]
    unreadable: Callable[[Hashable], Hashable]
    may_wait: bool = True
    pace_for: timedelta = timedelta(seconds=30)
    fleet: Fleet = Fleet()
    turns: Mapping[Key, datetime] = {}
    probe: str = ""

    def ask(self, question: Hashable) -> Value:
        """Return the last answer of the check's probe to a question, and have it asked from now on.

        `value` is None until the first answer has come. `error` says why the last attempt failed, `failures` how many
        attempts have failed in a row.
        """
        return self.view.fact(FactDemand(self.probe, question, self.pace_for))

    def counted(self, count: Count, group: Hashable) -> list[Key]:
        """Return the objects of a group for people to read; none where no person asks, as it costs a look at every one."""
        return self.view.takers(Limit(count, group, 1)) if self.view.explaining else []


Take = Callable[[], tuple[Write, ...] | datetime]


class Verdict(msgspec.Struct, frozen=True):
    """The answer of a check.

    `until`: time alone changes it no sooner. `limits`: it passes if each has room, which is then taken, unless the
    transition does not depend on it.

    `error` is a technical failure, which is more than a no; `times`: how often it has been met by now, where each
    time is to be counted. `info` is shown to people and decides nothing. `known`: a check that cannot say anything
    yet keeps its profile where it is. `prepare` is to be written whatever comes of it. `take`: asked when the
    transition is chosen, what is to be written before the node is; an instant: not before that, after all.

    `finding`: what the check looks for and whether it is there, as `explain` and `status` print it; the same words for all
    nodes where they can be, so that `status` can count them. `act`: what a person could do to turn the answer round, as
    an order. `waits_for`: the node that keeps the check from passing, with which `explain` goes on.
    """

    passed: bool
    until: datetime | None = None
    limits: tuple[Limit, ...] = ()
    info: Mapping[str, object] = {}
    error: str = ""
    times: int = 0
    known: bool = True
    prepare: tuple[Write, ...] = ()
    take: Take | None = None
    finding: str = ""
    act: str = ""
    waits_for: Key | None = None


class TriggerInput(msgspec.Struct, frozen=True):
    """What a trigger may read when it acts on one node.

    `alone`: no other surface is served, so that no other surface claims the node.

    `since`: when the profile came into its state. `rules`: what all drains of the process do with certain pods.
    """

    node: NodeRow
    profile: str
    state: str
    now: datetime
    view: View
    alone: bool = True
    since: datetime = LONG_AGO
    rules: PodRules = PodRules()


class Retry(msgspec.Struct, frozen=True):
    """A trigger's answer when it is not finished yet.

    What has been changed so far stands, and the trigger runs again. `node` is the draft by now.

    `marks` stand until then; `until`: time alone changes it no sooner; `says` is told once for as long as it is said.
    `only_stores`: it goes on as soon as what it has changed is stored or what it reads is listed or proven, so that nothing
    need know of it. `goes_on`: nothing is wrong, it only takes time, so that the log has no error.
    """

    reason: str
    node: NodeRow
    marks: tuple[Row, ...] = ()
    until: datetime | None = None
    says: tuple[Statement, ...] = ()
    only_stores: bool = False
    goes_on: bool = False


class Failed(msgspec.Struct, frozen=True):
    """A trigger's answer when it could not do its work: the profile stays in its state, and `reason` is reported."""

    reason: str


class Also(msgspec.Struct, frozen=True):
    """A trigger's answer when other objects have to be written, too.

    It holds the changed draft of the node, and what is written to other objects before that.
    """

    node: NodeRow
    writes: tuple[Write, ...]


Pulled = NodeRow | Also | Retry | Failed


def _keeps_nothing(config: Any) -> Keep:
    return Keep()


def _needs_nothing(config: Any) -> frozenset[str]:
    return frozenset()


def _wants_nothing(config: Any) -> frozenset[Want]:
    return frozenset()


class Check(msgspec.Struct, frozen=True):
    """A check plugin. `keeps` declares what it reads of Nodes beyond labels, taints and conditions.

    `needs` declares which kinds besides Nodes it reads: they are watched only while something needs them.
    `probe` names the function that asks the outside world for the check, as `module:function`.
    """

    name: str
    config: type[Config]
    judge: Callable[[Any, CheckInput], Verdict]
    takes_null: bool = False
    keeps: Callable[[Any], Keep] = _keeps_nothing
    needs: Callable[[Any], frozenset[str]] = _needs_nothing
    probe: str = ""


class Trigger(msgspec.Struct, frozen=True):
    """A trigger plugin: answers the changed draft. `wants`: what it makes its profile claim of the node."""

    name: str
    config: type[Config]
    pull: Callable[[Any, TriggerInput], Pulled]
    takes_null: bool = False
    keeps: Callable[[Any], Keep] = _keeps_nothing
    needs: Callable[[Any], frozenset[str]] = _needs_nothing
    wants: Callable[[Any], frozenset[Want]] = _wants_nothing


Fill = Callable[[str], str]


class Notifier(msgspec.Struct, frozen=True):
    """A notification plugin: composes the message at the moment when it is sent.

    `fill` renders a template of the configuration with what is known of the node and its profile; a template that
    cannot be rendered fails the notification, not the configuration.
    """

    name: str
    config: type[Config]
    compose: Callable[[Any, Fill], Message]
    takes_null: bool = False


def notifier(name: str, config: type[C]) -> Callable[[Callable[[C, Fill], Message]], Notifier]:
    def found(compose: Callable[[C, Fill], Message]) -> Notifier:
        return Notifier(name, config, compose)

    return found


def check(
    name: str,
    config: type[C],
    *,
    takes_null: bool = False,
    keeps: Callable[[C], Keep] = _keeps_nothing,
    needs: Callable[[C], frozenset[str]] = _needs_nothing,
    probe: str = "",
) -> Callable[[Callable[[C, CheckInput], Verdict]], Check]:
    """Make a check of a pure function. `probe`: `module:function` of what asks the outside world for it.

    The probe is imported when it is first asked, so that a check stays free of I/O and of its libraries.
    """
    if probe and not PROBE_PATH.fullmatch(probe):
        raise ValueError(f"check {name}: the probe {probe!r} is not written as module:function")

    def found(judge: Callable[[C, CheckInput], Verdict]) -> Check:
        return Check(name, config, judge, takes_null, keeps, needs, probe)

    return found


def trigger(
    name: str,
    config: type[C],
    *,
    takes_null: bool = False,
    keeps: Callable[[C], Keep] = _keeps_nothing,
    needs: Callable[[C], frozenset[str]] = _needs_nothing,
    wants: Callable[[C], frozenset[Want]] = _wants_nothing,
) -> Callable[[Callable[[C, TriggerInput], Pulled]], Trigger]:
    def found(pull: Callable[[C, TriggerInput], Pulled]) -> Trigger:
        return Trigger(name, config, pull, takes_null, keeps, needs, wants)

    return found
