"""How a choice is shown on a maintenance: a condition, and reasons for `haulout explain`."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.core.action import Patch
from haulout.core.reason import Reason
from haulout.surfaces.notify.given import Given
from haulout.surfaces.notify.scheduler.choose import exhausted
from haulout.surfaces.notify.scheduler.eligibility import Block
from haulout.surfaces.notify.scheduler.score import Score
from haulout.surfaces.notify.status import patch, with_condition
from haulout.surfaces.notify.wire import HOLD, NOT_BEFORE

CONDITION = "schedulerDecision"
SELECTED, WAITING = "selected", "waiting"

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


def shown(given: Given, status: str, reason: str, score: Score) -> tuple[Patch, ...]:
    """Return the write of the condition, if its status or its reason has changed.

    The numbers alone are no reason to write: they move all the time. `haulout explain` prints those of the moment.
    """
    stood = given.status.condition(CONDITION)
    if stood is not None and (stood.status, stood.reason) == (status, reason):
        return ()
    return patch(given.row, with_condition(given.status, CONDITION, status, given.now, reason, str(score)))


def reason_of(given: Given, block: Block, score: Score | None = None, because: Iterable[Reason] = ()) -> Reason:
    """Return the reason as data: its code is that of the condition, without what stands in brackets."""
    code = block.reason.partition("(")[0]
    meaning, act = TEXTS.get(code, ("", ""))
    details = (block.reason if "(" in block.reason else "", block.detail, str(score) if score is not None else "")
    text = f"{meaning} ({'; '.join(filter(None, details))})" if any(details) else meaning
    return Reason(code, given.key, text, block.until, tuple(because), act)


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
