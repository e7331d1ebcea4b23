"""What the API server refused of an action that has a name for what becomes of it."""

from __future__ import annotations

from haulout.cluster.view import View
from haulout.core.action import Refusal

# Not found, conflict, too many requests: the decision is made again, and the refusal is not reported.
PASSING = (404, 409, 429)


def refused(view: View, name: str) -> Refusal | None:
    outcome = view.outcome(name)
    refusal = outcome.value if outcome is not None else None
    return refusal if isinstance(refusal, Refusal) and refusal.code not in PASSING else None
