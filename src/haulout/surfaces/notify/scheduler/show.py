"""How a choice is shown: as a condition of the maintenance, and as reasons for `haulout explain`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.rows import Value
from haulout.core.action import Step
from haulout.core.reason import Reason
from haulout.surfaces.notify.notice.status import patch, with_condition
from haulout.surfaces.notify.reasons import TEXTS
from haulout.surfaces.notify.scheduler.choose import exhausted_reason
from haulout.surfaces.notify.scheduler.eligibility import CandidateBlock
from haulout.surfaces.notify.scheduler.score import Score
from haulout.surfaces.notify.scheduler.standing import mark_key
from haulout.surfaces.notify.situation import NoticeSituation

CONDITION = "schedulerDecision"
SELECTED, WAITING = "selected", "waiting"
LOOK = "notify-shown"
FIRST_FOR, LONGEST_FOR = timedelta(minutes=5), timedelta(hours=1)
VISIBLE = 0.01
_NUMBERS = re.compile(r"score=(-?\d{1,9}\.\d{1,9}) likelihood=(\d{1,9}\.\d{1,9}) ")


class ConditionWrite(msgspec.Struct, frozen=True):
    """A condition to write, if it has changed.

    `mark`: the `ShownNumbers` to remember. `until`: when its numbers are compared again.
    """

    steps: tuple[Step, ...]
    mark: Value
    until: datetime


class ShownNumbers(msgspec.Struct, frozen=True):
    """When the numbers of a condition were last written or compared, and how long to wait until the next time."""

    at: datetime
    rests_for: timedelta = FIRST_FOR


def condition_write(situation: NoticeSituation, status: str, reason: str, score: Score) -> ConditionWrite:
    """Return the write of the condition, if its status or its reason has changed or its numbers are out of date.

    Numbers change all the time. They are compared every five minutes, and less often the longer they stay about the
    same.
    """
    key = mark_key(LOOK, situation.row)
    known = situation.view.recall(key, Value)
    look = known.value if known is not None and isinstance(known.value, ShownNumbers) else ShownNumbers(situation.now)
    stood = situation.status.condition(CONDITION)
    is_same = stood is not None and (stood.status, stood.reason) == (status, reason)
    if is_same and situation.now < look.at + look.rests_for:
        return ConditionWrite((), Value(key=key, value=look), look.at + look.rests_for)
    if stood is not None and is_same and not _has_moved(stood.message, score):
        look = ShownNumbers(situation.now, min(2 * look.rests_for, LONGEST_FOR))
        return ConditionWrite((), Value(key=key, value=look), situation.now + look.rests_for)
    step = patch(situation.row, with_condition(situation.status, CONDITION, status, situation.now, reason, str(score)))
    return ConditionWrite(
        (step,) if step else (), Value(key=key, value=ShownNumbers(situation.now)), situation.now + FIRST_FOR
    )


def _has_moved(message: str, score: Score) -> bool:
    """Whether the numbers in a condition differ visibly from the current ones."""
    found = _NUMBERS.match(message)
    return found is None or max(abs(float(found[1]) - score.value), abs(float(found[2]) - score.likelihood)) >= VISIBLE


def reason_of(situation: NoticeSituation, block: CandidateBlock, because: Iterable[Reason] = ()) -> Reason:
    """Return the reason of a block. Its code is the condition's reason without the part in brackets.

    The text has no numbers that change with the clock, because a forecast adds up how long nodes wait for the same
    reason.
    """
    code = block.reason.partition("(")[0]
    meaning, act = TEXTS.get(code, ("", ""))
    details = (block.reason if "(" in block.reason else "", block.detail)
    text = f"{meaning} ({'; '.join(filter(None, details))})" if any(details) else meaning
    return Reason(code, situation.key, text, block.until, tuple(because), act)


def refusal(reasons: tuple[Reason, ...]) -> str:
    """Return the condition's reason for the arbiter's refusal; empty if the refusal is only temporary.

    A full limit of the scheduler itself is temporary: the next choice decides which candidate goes first.
    """
    for reason in reasons:
        match reason.code:
            case "turn-taken" | "claims-unknown":
                return "ForeignMaintenance"
            case "budget-full" | "domain-taken" | "window-closed" | "quorum" | "budget-invalid":
                return exhausted_reason(reason.subject.name)
    return ""
