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

    The policy finds the fields in the text by patterns, because CEL reads no JSON. So a text in which a pattern and a
    JSON reader could find different values is refused.
    """
    is_plain = len(text) <= LONGEST_TEXT and "\\" not in text
    if not is_plain or any(text.count(f'"{field}"') != 1 for field in ("limit", "reason", "until")):
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


def why_without_effect(owner: Key, budgets: Collection[Key], view: View, now: datetime) -> str:
    """Return why the override that an object has lets it pass none of these budgets now; empty if it does, or has none."""
    text = _text(owner, view)
    if text is None:
        return ""
    found = read_override(text)
    if isinstance(found, str):
        return found
    if not found.reason.strip():
        return "its reason is empty"
    if found.until <= now:
        return f"it ended at {found.until:%Y-%m-%d %H:%M} UTC"
    if now < _begins_at(found):
        return "it lasts for longer than 24h"
    if all(key.name != found.limit for key in budgets):
        return f"NodeDisruptionBudget {found.limit} does not exist, or does not select the node"
    if is_unguarded(view):
        return "neither the webhook nor the policy that guards overrides is registered"
    return "" if is_guarded(view) else "it is not known whether admission guards overrides"


def _begins_at(found: Override) -> datetime:
    """Return the instant from which an override counts: no more than a day before its end."""
    return found.until - LONGEST_OVERRIDE - TOLERANCE


def _written(owner: Key, view: View) -> Override | None:
    text = _text(owner, view)
    found = read_override(text) if text is not None else None
    return found if isinstance(found, Override) and found.reason.strip() else None


def _text(owner: Key, view: View) -> str | None:
    """Return the annotation of an object; None if it has none, or it cannot be read."""
    if owner.kind not in GUARDED or view.listing(owner.kind, owner.cluster) is not Listing.LISTED:
        return None
    rows = view.rows(overriding_objects(owner.kind), owner, ObjectRow, owner.cluster)
    return next((row.annotations[OVERRIDE] for row in rows), None)


def is_guarded(view: View) -> bool:
    """Whether admission refuses overrides of people who lack the right. What is not known counts as no."""
    fact = view.fact(GUARD)
    return fact.state == "fresh" and fact.value is True


def is_unguarded(view: View) -> bool:
    """Whether it is known that every client may write an override, because admission does not ask for the right."""
    fact = view.fact(GUARD)
    return fact.state == "fresh" and fact.value is False
