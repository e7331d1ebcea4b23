"""What the reason codes of NotifyMaintenances mean: why the scheduler has not started one."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Course, Meaning
from haulout.surfaces.notify.wire import HOLD, NOT_BEFORE


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


# The text of each reason, and what a person can do about it.
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
# Why a maintenance that has started does not end by itself.
OBSTACLES: Mapping[str, Meaning] = {
    "notice-failed": Meaning(
        "The maintenance has failed.",
        is_failure=True,
        helps="Repair the node, then delete the NotifyMaintenance and uncordon the node.",
    ),
    "node-still-needed": Meaning("Another maintenance still needs the node.", Course.QUEUED),
    "notice-node-missing": Meaning("The node of the maintenance does not exist.", is_failure=True),
    "return-blocked": Meaning(
        "The maintenance was deleted before its work was complete. A person has to check the node.",
        is_failure=True,
        helps="Check the node, then `kubectl uncordon NODE`, or `kubectl annotate node NODE haulout.dev/force-return=true`.",
    ),
    "sla-expired": Meaning(
        "The node was not drained within the SLA.",
        is_failure=True,
        helps="See what blocks the drain: `haulout explain NODE`.",
    ),
    "uncordon-awaited": Meaning(
        "The maintenance has ended. A person or another operator has to uncordon the node.",
        helps="`kubectl uncordon NODE`.",
    ),
}
_WAITING = {code: Meaning(_sentence(text), helps=_sentence(act) if act else "") for code, (text, act) in TEXTS.items()}
REASONS: Mapping[str, Meaning] = {**OBSTACLES, **_WAITING}
