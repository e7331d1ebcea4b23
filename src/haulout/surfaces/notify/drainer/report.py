"""The report of a drain in a maintenance's condition: how many pods are left, and what blocks them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Row, Value
from haulout.cluster.view import MARK
from haulout.core.action import Step
from haulout.core.decision import earliest
from haulout.core.drain.options import Act
from haulout.core.drain.progress import PodStanding, Progress, Standing
from haulout.surfaces.notify.match import is_owned
from haulout.surfaces.notify.notice.status import patch, with_condition
from haulout.surfaces.notify.scheduler.estimate import PodContext, estimate
from haulout.surfaces.notify.scheduler.history import samples_of
from haulout.surfaces.notify.situation import NoticeSituation, events_of
from haulout.surfaces.notify.wire import Status

IN_PROGRESS, BLOCKED, DRAINED = "inprogress", "blocked", "drained"
CONDITION = "drainProgress"
MOST_SHOWN = 5
REPORT_EVERY_FOR, BLOCKED_AFTER_FOR = timedelta(seconds=10), timedelta(minutes=5)
# Estimates change with the clock. If nothing else changes, the condition is written at most this often.
ESTIMATES_EVERY_FOR = timedelta(minutes=5)
_TOTAL = re.compile(r"\d+ of (\d{1,7}) pods left")


class Report(msgspec.Struct, frozen=True):
    """The report of a drain: the step to write now, the marks to keep, and when time alone changes the report."""

    step: Step = ()
    marks: tuple[Row, ...] = ()
    until: datetime | None = None


class Remembered(msgspec.Struct, frozen=True):
    """The last report of a drain.

    `remaining`: how many pods and volumes were left. `since`: since when that number is the same.
    `text`: the text without estimates. `at`: when it was written.
    """

    remaining: int
    since: datetime
    text: str = ""
    at: datetime | None = None


def report(situation: NoticeSituation, state: Progress, volumes: int = 0) -> Report:
    """Return the report of a drain. `volumes`: how many volumes are still attached to the node."""
    pods, now = state.pods, situation.now
    key = Key("", MARK, "notify-drains", situation.row.place)
    known = situation.view.recall(key, Value)
    last = known.value if known is not None and isinstance(known.value, Remembered) else None
    remaining = len(pods) + volumes
    since = last.since if last is not None and last.remaining == remaining else now
    blocked_at = since + BLOCKED_AFTER_FOR
    status = BLOCKED if now >= blocked_at else IN_PROGRESS
    attached = f"; volumes attached: {volumes}" if volumes else ""
    text = f"{status}: {_message(situation, pods)}{attached}"
    has_estimates = any(each.standing is Standing.WAITING for each in pods)
    changes_at = blocked_at if now < blocked_at else None
    if last is not None and last.at is not None:
        is_same = last.text == text
        again_at = last.at + (ESTIMATES_EVERY_FOR if is_same else REPORT_EVERY_FOR)
        if now < again_at or (is_same and not has_estimates):
            mark = Value(key=key, value=msgspec.structs.replace(last, remaining=remaining, since=since))
            at = again_at if not is_same or has_estimates else None
            return Report(marks=(mark,), until=earliest(changes_at, at))
    reason = "DrainBlocked" if status == BLOCKED else "Draining"
    message = f"{_message(situation, pods, estimates=True)}{attached}"
    condition = with_condition(situation.status, CONDITION, status, now, reason, message)
    # The event's text has no estimates, so that a new estimate does not make a new event.
    events = (
        events_of(situation, "DrainBlocked", f"{_message(situation, pods)}{attached}", warning=True)
        if status == BLOCKED
        else ()
    )
    mark = Value(key=key, value=Remembered(remaining, since, text, now))
    writes = patch(situation.row, condition)
    step: Step = (*writes, *(events if last is None or last.text != text else ())) if writes else ()
    at = now + ESTIMATES_EVERY_FOR if has_estimates else None
    return Report(step, (mark,), earliest(changes_at, at))


def with_drained(situation: NoticeSituation, status: Status) -> Status:
    """Return the status with the condition that the drain has ended, if the in-box drainer did it."""
    if not is_owned(situation.row, "drainer"):
        return status
    return with_condition(status, CONDITION, DRAINED, situation.now, "Drained")


def _message(situation: NoticeSituation, pods: tuple[PodStanding, ...], *, estimates: bool = False) -> str:
    """Return how many pods are left of how many, and what blocks those that are not leaving.

    `estimates`: add for each pod that is waited for how long it is expected to run.
    """
    stood = situation.status.condition(CONDITION)
    before = _TOTAL.match(stood.message) if stood is not None else None
    total = max(int(before[1]) if before else 0, len(pods))
    kept = [each for each in pods if each.blocked]
    text = f"{len(pods)} of {total} pods left"
    if not kept:
        return text
    names = [
        f"{each.pod.key.namespace}/{each.pod.key.name} ({_why(each)}{_expected(situation, each) if estimates else ''})"
        for each in kept[:MOST_SHOWN]
    ]
    return f"{text}; blocked: {', '.join(names)}"


def _why(each: PodStanding) -> str:
    if each.budgets:
        return ", ".join(f"pdb {key.namespace}/{key.name}" for key in each.budgets)
    words = {Standing.WAITING: "waiting", Standing.HELD: "held"}
    return words.get(each.standing, each.message or str(each.standing))


def _expected(situation: NoticeSituation, each: PodStanding) -> str:
    """Return how long a pod that is waited for is expected to run, as the scheduler estimates it."""
    if each.standing is not Standing.WAITING:
        return ""
    known = PodContext(Act.WAIT, samples=samples_of(situation.view, each.pod))
    seconds = estimate([each.pod], lambda pod: known, situation.options, situation.now).drain_seconds(situation.now)
    minutes, rest = divmod(int(seconds), 60)
    if not minutes:
        return f", est. {rest}s"
    hours, minutes = divmod(minutes, 60)
    return f", est. {hours}h{minutes}m" if hours else f", est. {minutes}m"
