"""What the decisions of the scheduler tell each other: rows of candidates, of what is in flight, and of choices."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.limits import Limit
from haulout.cluster.rows import Row
from haulout.cluster.store import Index
from haulout.cluster.view import MARK
from haulout.surfaces.notify.scheduler.budgets import Share
from haulout.surfaces.notify.scheduler.estimate import Estimate
from haulout.surfaces.notify.wire import NoticeRow

CANDIDATE, IN_FLIGHT, BLOCKED, VERDICT, ROUND = (
    *("notify-candidate", "notify-in-flight", "notify-blocked", "notify-verdict"),
    "notify-round",
)
ROUND_KEY = Key("", MARK, ROUND, "")


class Candidate(Row, frozen=True, kw_only=True):
    """A maintenance that only others keep from starting.

    `since`: when it was scheduled. `shares`: what its node takes of each budget. `out`: its node is out of service by
    itself. `group`: among which it gets its fair share.
    """

    place: str
    node: str
    since: datetime
    unplanned: bool = False
    priority: int = 0
    group: str = ""
    shares: tuple[Share, ...] = ()
    out: bool = False
    estimate: Estimate = Estimate()


class Flight(Row, frozen=True, kw_only=True):
    """A maintenance that keeps a node out of service. `out`: the Node itself shows that."""

    node: str
    group: str = ""
    shares: tuple[Share, ...] = ()
    out: bool = False


class Waiting(Row, frozen=True, kw_only=True):
    """A maintenance that cannot start for a reason of its own."""

    reason: str


class Verdict(Row, frozen=True, kw_only=True):
    """What the scheduler has chosen for a candidate. `limits`: under which a chosen one takes its places.

    `rank`: the class by which it was chosen: unplanned, starved or planned.
    """

    chosen: bool = False
    reason: str = ""
    rank: str = ""
    limits: tuple[Limit, ...] = ()


class Round(Row, frozen=True, kw_only=True):
    """What remains of the last choice. `due_at`: when the next one is made, if something has changed since.

    `used`, `allowed`: how many nodes are out under each budget, and how many may be.
    """

    due_at: datetime | None = None
    until: datetime | None = None
    used: tuple[tuple[str, int], ...] = ()
    allowed: tuple[tuple[str, int], ...] = ()


def mark_key(kind: str, row: NoticeRow) -> Key:
    return Key("", MARK, kind, row.place)


def _kind(row: Row) -> tuple[str, ...]:
    return (row.key.namespace,) if isinstance(row, Candidate | Flight | Verdict) else ()


# By CANDIDATE, IN_FLIGHT or VERDICT.
STANDINGS = Index("notify-standings", MARK, _kind)
