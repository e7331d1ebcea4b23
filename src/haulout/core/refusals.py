"""The refusals of the API server that a surface reports."""

from __future__ import annotations

from haulout.cluster.view import View
from haulout.core.action import Refusal

# Not found, conflict, too many requests: these pass. The decision runs again, and the refusal is not reported.
PASSING = (404, 409, 429)


def find_refusal(view: View, name: str) -> Refusal | None:
    outcome = view.outcome(name)
    refusal = outcome.value if outcome is not None else None
    return refusal if isinstance(refusal, Refusal) and refusal.code not in PASSING else None
