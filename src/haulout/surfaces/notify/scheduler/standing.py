"""The rows by which the decisions of the scheduler communicate: candidates, maintenances in flight, and choices."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.limits import Limit
from haulout.cluster.rows import Row
from haulout.cluster.store import Index
from haulout.cluster.view import MARK
from haulout.surfaces.notify.scheduler.budgets import BudgetShare
from haulout.surfaces.notify.scheduler.estimate import Estimate
from haulout.surfaces.notify.wire import NoticeRow

CANDIDATE, IN_FLIGHT, BLOCKED, VERDICT, ROUND = (
    *("notify-candidate", "notify-in-flight", "notify-blocked", "notify-verdict"),
    "notify-round",
)
ROUND_KEY = Key("", MARK, ROUND, "")


class Candidate(Row, frozen=True, kw_only=True):
    """The row of a maintenance that passed all checks of its own and waits to be chosen.

    `since`: when it was scheduled. `shares`: the places that its node takes under budgets.
    `out`: its node is out of service by itself. `group`: its group for fair shares.
    """

    place: str
    node: str
    since: datetime
    unplanned: bool = False
    priority: int = 0
    group: str = ""
    shares: tuple[BudgetShare, ...] = ()
    out: bool = False
    estimate: Estimate = Estimate()


class Flight(Row, frozen=True, kw_only=True):
    """The row of a maintenance that keeps a node out of service. `out`: the Node itself shows that."""

    node: str
    group: str = ""
    shares: tuple[BudgetShare, ...] = ()
    out: bool = False


class BlockedCandidate(Row, frozen=True, kw_only=True):
    """The row of a maintenance that fails one of its own checks. `reason`: which one."""

    reason: str


class RoundVerdict(Row, frozen=True, kw_only=True):
    """The result of the choice for a candidate.

    `rank`: the class in which it was judged: unplanned, starved or planned.
    `limits`: the limits of the claim of a chosen one.
    """

    chosen: bool = False
    reason: str = ""
    rank: str = ""
    limits: tuple[Limit, ...] = ()


class Round(Row, frozen=True, kw_only=True):
    """The record of the last choice.

    `due_at`: when the next choice is made; None if nothing has changed since.
    `used`, `allowed`: how many nodes are out under each budget, and how many may be.
    """

    due_at: datetime | None = None
    until: datetime | None = None
    used: tuple[tuple[str, int], ...] = ()
    allowed: tuple[tuple[str, int], ...] = ()


def mark_key(kind: str, row: NoticeRow) -> Key:
    return Key("", MARK, kind, row.place)


def _kind(row: Row) -> tuple[str, ...]:
    return (row.key.namespace,) if isinstance(row, Candidate | Flight | RoundVerdict) else ()


# The bucket is CANDIDATE, IN_FLIGHT or VERDICT.
STANDINGS = Index("notify-standings", MARK, _kind)
