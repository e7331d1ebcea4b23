"""The decision about a maintenance as the kernel takes it: its state, its claim, and the reasons why it waits."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.view import View
from haulout.core.decision import Decision
from haulout.surfaces.notify.decide import decide as decide_state
from haulout.surfaces.notify.scheduler import candidate
from haulout.surfaces.notify.scheduler.claims import standing_claim
from haulout.surfaces.notify.situation import situation_of


def decide(key: Key, view: View, now: datetime) -> Decision:
    """Decide about the state of a maintenance, and claim its node while the node is out of service for it."""
    decision = decide_state(key, view, now)
    situation = situation_of(key, view, now)
    claim = standing_claim(situation) if situation is not None else None
    if claim is not None:
        decision = msgspec.structs.replace(decision, claims=(claim,))
    if not view.explaining:
        return decision
    reasons = candidate.decide(key, view, now).reasons
    return msgspec.structs.replace(decision, reasons=(*decision.reasons, *reasons))
