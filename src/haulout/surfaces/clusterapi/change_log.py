"""The log of the clusterapi surface's writes: one line for each label and annotation that it sets or removes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.view import View
from haulout.core.action import Annotate, Label, Say, Step
from haulout.core.decision import Decider, Decision

replace = msgspec.structs.replace


def log_changes(decider: Decider) -> Decider:
    """Return the decider with log lines added to its writes.

    A line belongs to its write, so a refused write is not logged.
    """

    def decide(key: Key, view: View, now: datetime) -> Decision:
        decision = decider.decide(key, view, now)
        if not decision.actions:
            return decision
        return replace(decision, actions=tuple((*step, *_lines(step)) for step in decision.actions))

    return replace(decider, decide=decide)


def _lines(step: Step) -> Iterator[Say]:
    for action in step:
        if isinstance(action, Label | Annotate):
            what = "label" if isinstance(action, Label) else "annotation"
            fields = (("object", str(action.target)), (what, action.name))
            if action.value is None:
                yield Say(f"{what} removed", fields)
            else:
                yield Say(f"{what} set", (*fields, ("value", action.value)))
