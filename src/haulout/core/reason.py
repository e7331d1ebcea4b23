"""Why something waits, as data: console, CLI, events and conditions print these (decision 0147)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import Enum, auto

import msgspec

from haulout.cluster.key import Key

# The code of a tree about which nothing has to be done: what is below it would have to be so for something to begin.
NOT_WANTED = "not-wanted"


class Course(Enum):
    """What happens by itself while a reason stands.

    BLOCKED: nothing, until what the reason names has changed. MOVING: work goes on. QUEUED: the turn of the object comes
    when other objects are done. IDLE: nothing, because nothing is wanted of the object.
    """

    BLOCKED = auto()
    MOVING = auto()
    QUEUED = auto()
    IDLE = auto()


class Meaning(msgspec.Struct, frozen=True):
    """What a reason code means. `text`: one sentence for people. `status` reports only reasons of the course BLOCKED.

    `is_failure`: something has failed or expired. `status` lists it as failed, and its exit code is 1.
    `helps`: what a person can do about it, one or two sentences; empty if nothing, or if the reason's own act says it.
    """

    text: str
    course: Course = Course.BLOCKED
    is_failure: bool = False
    helps: str = ""


class Reason(msgspec.Struct, frozen=True):
    """One reason why something waits or was refused, with the reasons behind it.

    `code` is stable and documented; `text` says it to a person; `because` leads towards the root.

    `act`: what a person could do about it, as an order.
    """

    code: str
    subject: Key
    text: str = ""
    until: datetime | None = None
    because: tuple[Reason, ...] = ()
    act: str = ""


def roots(reason: Reason) -> list[Reason]:
    """Return the reasons at the end of every chain: what would have to change."""
    if not reason.because:
        return [reason]
    return [root for cause in reason.because for root in roots(cause)]


def best_act(reasons: Iterable[Reason]) -> str:
    """Return the one act that clears most of the trees; of equals, the first."""
    counts: dict[str, int] = {}
    for reason in reasons:
        for act in dict.fromkeys(root.act for root in roots(reason) if root.act):
            counts[act] = counts.get(act, 0) + 1
    return max(counts, key=lambda act: counts[act], default="")
