"""The API for authors of checks, triggers and notifiers: decorators, and the inputs and results of plugins.

    @check("wait", Wait)
    def wait(config: Wait, inputs: CheckInput) -> Verdict: ...

A plugin is a pure function. Built-in plugins are found as files in their folder, others by an entry point of their
package.

See decision 0065.
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
    "NodeRow",
    "Notifier",
    "Post",
    "Retry",
    "Thread",
    "Trigger",
    "TriggerInput",
    "Verdict",
    "Want",
    "check",
    "notifier",
    "trigger",
]

C = TypeVar("C", bound=Config)
PROBE_PATH = re.compile(r"[\w.]+:\w+")


def _no_nodes(label: str, than: Version, profile: str) -> Count:
    return Count()


class Fleet(msgspec.Struct, frozen=True):
    """Counts of nodes by properties that only the surface knows. The default is a fleet without nodes.

    `newer(label, version, profile)`: the nodes whose version label is greater, in group `()`. With `profile`, only
    nodes that have this profile.
    `states`: the nodes by (profile, state).
    `free_to_go`: by profile, the nodes in maintenance-required without a pod that prefers operational nodes.
    """

    newer: Callable[[str, Version, str], Count] = _no_nodes
    states: Count = Count()
    free_to_go: Count = Count()


class CheckInput(msgspec.Struct, frozen=True):
    """Everything that a check may read when it judges one node.

    `node`: the draft of the node, with the changes that earlier plugins of this pass have made.
    `may_wait`: the transition requires that this check passes. Then the check may return a limit in `Verdict.limits`,
    for which the transition waits, instead of counting itself.
    `in_maintenance(profile, label keys, skip after)`: the count of nodes in maintenance.
    `unreadable(group)`: the group of that count for nodes whose maintenance data cannot be read.
    `pace_for`: how often the answers of probes are renewed. `probe`: the probe of the check, which `ask` uses.
    `turns`: the objects, such as Leases, that have been taken for this transition, and when. The transition itself is
    not stored yet.
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
        """Return the last answer of the check's probe to a question. From now on the probe asks it again and again.

        `value` is None until the first answer has come. `error` says why the last attempt failed, `failures` how many
        attempts have failed in a row.
        """
        return self.view.fact(FactDemand(self.probe, question, self.pace_for))

    def counted(self, count: Count, group: Hashable) -> list[Key]:
        """Return the objects of a group, to name them in an explanation.

        Return none while a decision runs: going through all of them would take too long.
        """
        return self.view.takers(Limit(count, group, 1)) if self.view.explaining else []


Take = Callable[[], tuple[Write, ...] | datetime]


class Verdict(msgspec.Struct, frozen=True):
    """The answer of a check.

    `until`: the instant before which time alone does not change the answer.
    `limits`: the check passes if each limit has room. The room is taken, unless the transition does not depend on it.

    `error`: a technical failure, as opposed to a check that does not pass. `times`: how often it has failed so far, if
    each failure has to be counted.
    `info`: data for people, without influence on the decision.
    `known`: False if the check cannot answer yet. Then its profile stays in its state.
    `prepare`: writes that are made in any case.
    `take`: called when the transition is chosen. It returns the writes that have to come before that of the node, or
    an instant before which the transition cannot be made after all.

    `finding`: what the check looks for and whether it is so, as `explain` and `status` print it. If possible, the text
    is the same for all nodes, so that `status` can count them.
    `act`: what a person can do to change the answer, as an order.
    `waits_for`: the node that keeps the check from passing. `explain` goes on with that node.
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
    """Everything that a trigger may read when it acts on one node.

    `alone`: this is the only surface of the process, so no other surface claims the node.
    `since`: when the profile came into its state.
    `rules`: how all drains of the process treat certain pods.
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
    """A trigger's answer when it is not finished yet. Its changes so far are stored, and the trigger runs again.

    `node`: the draft of the node with these changes.
    `marks`: rows that exist until the trigger runs again.
    `until`: the instant before which time alone does not change the answer.
    `says`: statements. One that is returned again and again is made once.
    `only_stores`: the trigger only waits until its changes are stored, or until what it reads is listed or proven. So
    the retry is not reported.
    `goes_on`: the trigger works as expected and only takes time. So the log has no error.
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

    `node`: the changed draft of the node. `writes`: the writes to other objects, which come before that of the node.
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
    """A check plugin.

    `judge`: the function that returns the verdict. `takes_null`: whether the settings may be left out.
    `keeps`: what the check reads of Nodes beyond labels, taints and conditions.
    `needs`: the kinds besides Nodes that the check reads. A kind is watched only while it is needed.
    `probe`: the function that asks the outside world for the check, as `module:function`.
    """

    name: str
    config: type[Config]
    judge: Callable[[Any, CheckInput], Verdict]
    takes_null: bool = False
    keeps: Callable[[Any], Keep] = _keeps_nothing
    needs: Callable[[Any], frozenset[str]] = _needs_nothing
    probe: str = ""


class Trigger(msgspec.Struct, frozen=True):
    """A trigger plugin. `pull` returns the changed draft of the node. `wants`: what its profile claims of the node."""

    name: str
    config: type[Config]
    pull: Callable[[Any, TriggerInput], Pulled]
    takes_null: bool = False
    keeps: Callable[[Any], Keep] = _keeps_nothing
    needs: Callable[[Any], frozenset[str]] = _needs_nothing
    wants: Callable[[Any], frozenset[Want]] = _wants_nothing


Fill = Callable[[str], str]


class Notifier(msgspec.Struct, frozen=True):
    """A notification plugin. `compose` returns the message at the moment when it is sent.

    `compose` gets the settings and `fill`, which renders a template with the data of the node and its profile. A
    template that cannot be rendered makes the notification fail, not the loading of the configuration.
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
    """Return a decorator that makes a check of a pure function. `probe`: `module:function` of the check's probe.

    The probe is imported when it first runs, so that a check needs neither I/O nor the libraries for it.
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
