"""The claims of notify: on nodes that are in maintenance, whichever operator has started it."""

from __future__ import annotations

from datetime import datetime

from haulout.core.holds import LONG_AGO, Claim, Want, read_priority
from haulout.surfaces.notify.notice.states import is_final, is_terminal
from haulout.surfaces.notify.returner.decide import is_clean
from haulout.surfaces.notify.scheduler.budgets import limits_of, shares_of
from haulout.surfaces.notify.scheduler.eligibility import is_flying
from haulout.surfaces.notify.situation import NoticeSituation
from haulout.surfaces.notify.wire import FORCE_RETURN, SCHEDULED, NoticeRow

WANTS = frozenset({Want.DRAIN, Want.EXCLUSIVE})


def standing_claim(situation: NoticeSituation) -> Claim | None:
    """Return the claim on a node that is in maintenance, if any. The drop-in without the scheduler claims nothing.

    A maintenance that has ended cleanly claims nothing, although its object stays until the node is uncordoned. Another
    surface may wait for the turn, and uncordon the node only after that.
    """
    node, scheduler = situation.node, situation.options.operators.scheduler
    if (situation.options.alone and not scheduler.enabled) or node is None:
        return None
    if not node.unschedulable or not is_flying(situation.row, node):
        return None
    has_ended = is_final(situation.row) and is_terminal(situation.row)
    if has_ended and is_clean(situation.row) and not situation.options.alone:
        return None
    # The limits only make the claim count. Their numbers do not matter, because a claim that has begun is never
    # refused.
    limits = limits_of(scheduler, shares_of(scheduler, node), {}, out=True) if scheduler.enabled else ()
    return Claim(
        node.key,
        situation.key,
        WANTS,
        tuple(limits),
        since=since_of(situation.row),
        priority=priority_of(situation.row),
        begun=True,
        ending=has_ended and node.annotations.get(FORCE_RETURN) == "true",
    )


def since_of(row: NoticeRow) -> datetime:
    return row.status.entered_at(SCHEDULED) or row.created_at or LONG_AGO


def priority_of(row: NoticeRow) -> int:
    """Return the priority in the maintenance's annotation; 0 if it is not a number."""
    return read_priority(row.annotations) or 0
