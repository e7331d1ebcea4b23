"""How a choice is shown on a maintenance: a condition, and reasons for `haulout explain`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.rows import Value
from haulout.core.action import Step
from haulout.core.reason import Reason
from haulout.surfaces.notify.scheduler.choose import exhausted
from haulout.surfaces.notify.scheduler.eligibility import Block
from haulout.surfaces.notify.scheduler.score import Score
from haulout.surfaces.notify.scheduler.standing import mark_key
from haulout.surfaces.notify.situation import Situation
from haulout.surfaces.notify.status import patch, with_condition
from haulout.surfaces.notify.wire import HOLD, NOT_BEFORE

CONDITION = "schedulerDecision"
SELECTED, WAITING = "selected", "waiting"
SHOWN = "notify-shown"
FIRST_FOR, LONGEST_FOR = timedelta(minutes=5), timedelta(hours=1)
VISIBLE = 0.01
_NUMBERS = re.compile(r"score=(-?\d{1,9}\.\d{1,9}) likelihood=(\d{1,9}\.\d{1,9}) ")

# What each reason means to a person, and what that person could do about it.
TEXTS: dict[str, tuple[str, str]] = {
    "Held": (f"its annotation {HOLD} holds it", f"remove the annotation {HOLD}"),
    "NotBefore": (f"its annotation {NOT_BEFORE} names a later time", ""),
    "NodeNotFound": ("its node does not exist", "create the Node, or delete the maintenance"),
    "NodeCordonedElsewhere": (
        "its node was cordoned by a person or another operator",
        "uncordon the node, or set adoptCordoned",
    ),
    "FailureThreshold": (
        "too many maintenances of its ID have failed",
        "delete or retry the failed ones, or raise failureThreshold",
    ),
    "AlertsFiring": ("the query of the alert gate returns rows, or is not answered", "resolve the alerts"),
    "OutsideWindow": ("no window for its node is open", ""),
    "Blackout": ("a blackout holds for its node", ""),
    "DoesNotFit": ("drain and maintenance would not end before the window closes", ""),
    "NodeBusy": ("its node is in maintenance already", ""),
    "ForeignMaintenance": ("another surface has the turn on its node", ""),
    "UnlikelyToDrain": ("its node is not likely to drain soon", ""),
    "BudgetExhausted": ("as many nodes are out of service as the budget allows", ""),
}
REASONS = {code: f"{text[:1].upper()}{text[1:]}." for code, (text, _) in TEXTS.items()}


class Shown(msgspec.Struct, frozen=True):
    """What is written of a choice now, what is remembered of it, and when its numbers are looked at again."""

    steps: tuple[Step, ...]
    mark: Value
    until: datetime


class Look(msgspec.Struct, frozen=True):
    """When the numbers of a condition were written or found to be much the same, and how long they are left alone."""

    at: datetime
    rests_for: timedelta = FIRST_FOR


def condition_write(situation: Situation, status: str, reason: str, score: Score) -> Shown:
    """Return the write of the condition, if its status or its reason has changed or its numbers are out of date.

    Numbers move all the time. They are looked at every five minutes, and less often the longer they stay about the same.
    """
    key = mark_key(SHOWN, situation.row)
    known = situation.view.recall(key, Value)
    look = known.value if known is not None and isinstance(known.value, Look) else Look(situation.now)
    stood = situation.status.condition(CONDITION)
    is_same = stood is not None and (stood.status, stood.reason) == (status, reason)
    if is_same and situation.now < look.at + look.rests_for:
        return Shown((), Value(key=key, value=look), look.at + look.rests_for)
    if stood is not None and is_same and not _has_moved(stood.message, score):
        look = Look(situation.now, min(2 * look.rests_for, LONGEST_FOR))
        return Shown((), Value(key=key, value=look), situation.now + look.rests_for)
    step = patch(situation.row, with_condition(situation.status, CONDITION, status, situation.now, reason, str(score)))
    return Shown((step,) if step else (), Value(key=key, value=Look(situation.now)), situation.now + FIRST_FOR)


def _has_moved(message: str, score: Score) -> bool:
    """Whether the numbers in a condition differ visibly from those of now."""
    found = _NUMBERS.match(message)
    return found is None or max(abs(float(found[1]) - score.value), abs(float(found[2]) - score.likelihood)) >= VISIBLE


def reason_of(situation: Situation, block: Block, because: Iterable[Reason] = ()) -> Reason:
    """Return the reason as data: its code is that of the condition, without what stands in brackets.

    It has no numbers that move with the clock: a plan adds up for how long nodes wait for the same.
    """
    code = block.reason.partition("(")[0]
    meaning, act = TEXTS.get(code, ("", ""))
    details = (block.reason if "(" in block.reason else "", block.detail)
    text = f"{meaning} ({'; '.join(filter(None, details))})" if any(details) else meaning
    return Reason(code, situation.key, text, block.until, tuple(because), act)


def refusal(reasons: tuple[Reason, ...]) -> str:
    """Return the reason of a condition for the arbiter's refusal; empty: it is not one that lasts.

    A limit of the scheduler itself that has no room is no such refusal: the next choice says who goes first.
    """
    for reason in reasons:
        match reason.code:
            case "turn-taken" | "claims-unknown":
                return "ForeignMaintenance"
            case "budget-full" | "domain-taken" | "window-closed" | "quorum" | "budget-invalid":
                return exhausted(reason.subject.name)
    return ""
