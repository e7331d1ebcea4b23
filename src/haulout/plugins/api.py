"""What authors of checks and triggers import: the decorators, what a plugin is given, and what it answers.

    @check("wait", Wait)
    def wait(config: Wait, given: CheckInput) -> Verdict: ...

A plugin is a pure function in a file of its own; it is found by being there (or by an entry point of its package).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from haulout.cluster.limits import Count, Limit
from haulout.cluster.project import Keep
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.plugins.config import Config

__all__ = [
    "Check",
    "CheckInput",
    "Config",
    "Failed",
    "Keep",
    "Retry",
    "Trigger",
    "TriggerInput",
    "Verdict",
    "check",
    "trigger",
]

C = TypeVar("C", bound=Config)


class CheckInput(msgspec.Struct, frozen=True):
    """`node` is the draft that earlier plugins of this pass have worked on.

    `may_wait`: a no of this check can only ever keep a transition from happening, so that a limit may be answered
    with `Verdict.limits` instead of being counted. `in_maintenance(profile, label keys, skip after)` is the count of
    nodes in maintenance, `unreadable` its group of those whose data cannot be read.
    """

    node: NodeRow
    profile: str
    state: str
    last_transition: datetime
    now: datetime
    view: View
    in_maintenance: Callable[[str, tuple[str, ...], timedelta], Count]
    unreadable: Hashable
    may_wait: bool = True


class Verdict(msgspec.Struct, frozen=True):
    """`until`: time alone changes it no sooner. `limits`: it passes if each has room, which is then taken.

    `error` is a technical failure, which is more than a no. `info` is shown to people and decides nothing.
    """

    passed: bool
    until: datetime | None = None
    limits: tuple[Limit, ...] = ()
    info: Mapping[str, object] = {}
    error: str = ""


class TriggerInput(msgspec.Struct, frozen=True):
    node: NodeRow
    profile: str
    state: str
    now: datetime
    view: View


class Retry(msgspec.Struct, frozen=True):
    """Not finished; what has been changed so far stands, and the trigger runs again. `node` is the draft by now."""

    reason: str
    node: NodeRow


class Failed(msgspec.Struct, frozen=True):
    reason: str


def _keeps_nothing(config: Any) -> Keep:
    return Keep()


class Check(msgspec.Struct, frozen=True):
    """A check plugin. `keeps` declares what it reads of Nodes beyond labels, taints and conditions."""

    name: str
    config: type[Config]
    judge: Callable[[Any, CheckInput], Verdict]
    takes_null: bool = False
    keeps: Callable[[Any], Keep] = _keeps_nothing


class Trigger(msgspec.Struct, frozen=True):
    """A trigger plugin: answers the changed draft."""

    name: str
    config: type[Config]
    pull: Callable[[Any, TriggerInput], NodeRow | Retry | Failed]
    takes_null: bool = False
    keeps: Callable[[Any], Keep] = _keeps_nothing


def check(
    name: str, config: type[C], *, takes_null: bool = False, keeps: Callable[[C], Keep] = _keeps_nothing
) -> Callable[[Callable[[C, CheckInput], Verdict]], Check]:
    def found(judge: Callable[[C, CheckInput], Verdict]) -> Check:
        return Check(name, config, judge, takes_null, keeps)

    return found


def trigger(
    name: str, config: type[C], *, takes_null: bool = False, keeps: Callable[[C], Keep] = _keeps_nothing
) -> Callable[[Callable[[C, TriggerInput], NodeRow | Retry | Failed]], Trigger]:
    def found(pull: Callable[[C, TriggerInput], NodeRow | Retry | Failed]) -> Trigger:
        return Trigger(name, config, pull, takes_null, keeps)

    return found
