"""Overrides (break-glass): for some time a NodeDisruptionBudget does not hold the claims of one object back (decision 0180).

Who may write one is decided by admission: a webhook (`core.budgets.admit`) or a ValidatingAdmissionPolicy. Where neither is
in force, the annotation has no effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec

from haulout.base import bounds
from haulout.cluster.key import Key
from haulout.cluster.rows import ObjectRow, Row
from haulout.cluster.store import Index, Listing
from haulout.cluster.view import FactDemand, View
from haulout.core.steering import LONGEST_OVERRIDE, OVERRIDE

# The kinds whose writes the webhook and the policy review, as they are spelled in manifests.
GUARDED = frozenset({"Node", "NodeMaintenance", "NotifyMaintenance", "Skyhook", "NodeWright"})
LONGEST_TEXT = 4096
# The clocks of people and of the operator may differ so much.
TOLERANCE = timedelta(minutes=1)
# Whether the webhook or the policy is registered. It is asked only while an override is read.
GUARD = FactDemand("override-guard", "", timedelta(seconds=10))
FORM = '{"limit": "BUDGET", "reason": "WHY", "until": "2026-01-31T12:00:00Z"}, without backslashes'


class Override(msgspec.Struct, frozen=True):
    """An override. `limit`: the name of the budget. It ends by itself at `until`."""

    limit: str
    reason: str
    until: datetime


_DECODER = msgspec.json.Decoder(Override)


def read_override(text: str) -> Override | str:
    """Return the override in an annotation, or what is wrong with it.

    The policy finds the budget in the text by a pattern, because CEL reads no JSON. So a text in which the pattern and a
    JSON reader could find different budgets is refused.
    """
    if len(text) > LONGEST_TEXT or "\\" in text or text.count('"limit"') != 1:
        return f"it is not of the form {FORM}"
    try:
        found = _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return f"it is not of the form {FORM}: {error}"
    if found.until.tzinfo is None:
        return "until has no time zone (such as Z)"
    return msgspec.structs.replace(found, until=bounds.instant(found.until))


def problem_of(override: Override, now: datetime) -> str:
    """Return why an override cannot be written now; empty if it can."""
    if not override.reason.strip():
        return "its reason is empty"
    if override.until > now + LONGEST_OVERRIDE + TOLERANCE:
        return "it lasts for longer than 24h"
    return ""


@lru_cache(maxsize=64)
def overriding_objects(kind: str) -> Index:
    """Return the index of the objects of a kind that have an override, by their keys."""
    return Index(f"overriding-{kind}", kind, _if_overriding)


def _if_overriding(row: Row) -> Iterable[Key]:
    return (row.key,) if isinstance(row, ObjectRow) and OVERRIDE in row.annotations else ()


def override_of(owner: Key, view: View, now: datetime) -> Override | None:
    """Return the override that an object has now, whether or not it is guarded."""
    found = _written(owner, view)
    return found if found is not None and _begins_at(found) <= now < found.until else None


def passed_override(owner: Key, budgets: Collection[Key], view: View, now: datetime) -> Override | None:
    """Return the override by which an object may pass one of these budgets now; None if there is none in force."""
    found = override_of(owner, view, now)
    if found is None or all(key.name != found.limit for key in budgets) or not is_guarded(view):
        return None
    return found


def override_changes_at(owner: Key, view: View, now: datetime) -> datetime | None:
    """Return when the override of an object begins or ends next; None if it has none."""
    found = _written(owner, view)
    return None if found is None else next((at for at in (_begins_at(found), found.until) if now < at), None)


def _begins_at(found: Override) -> datetime:
    """Return the instant from which an override counts: no more than a day before its end."""
    return found.until - LONGEST_OVERRIDE - TOLERANCE


def _written(owner: Key, view: View) -> Override | None:
    if owner.kind not in GUARDED or view.listing(owner.kind, owner.cluster) is not Listing.LISTED:
        return None
    for row in view.rows(overriding_objects(owner.kind), owner, ObjectRow, owner.cluster):
        found = read_override(row.annotations[OVERRIDE])
        if isinstance(found, Override) and found.reason.strip():
            return found
    return None


def is_guarded(view: View) -> bool:
    """Whether admission refuses overrides of people who lack the right. What is not known counts as no."""
    fact = view.fact(GUARD)
    return fact.state == "fresh" and fact.value is True


def is_unguarded(view: View) -> bool:
    """Whether it is known that every client may write an override, because admission does not ask for the right."""
    fact = view.fact(GUARD)
    return fact.state == "fresh" and fact.value is False
