"""One PodDisruptionBudget: which of the pods that are to go, over all nodes, may go now.

Evictions are sent exactly as far as the budget's own count allows. One that has been let go counts against it until
the budget shows it: the API server answers before its watch does.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from haulout.base.selector import SelectorError, from_object
from haulout.cluster.key import Key
from haulout.cluster.rows import BudgetRow, PodRow, Row
from haulout.cluster.store import Index
from haulout.cluster.view import PERMIT, View
from haulout.core.action import Refusal
from haulout.core.decision import NOTHING, Decider, Decision, earliest
from haulout.core.drain.plan import EVICTIONS_OF_NAMESPACE, EvictionRow, outcome_name
from haulout.core.drain.plan import PHASE as PLAN_PHASE

PHASE = PLAN_PHASE + 1
# Should the budget's count be wrong (its controller is down), one pod is tried all the same.
TRY_AFTER_FOR = timedelta(seconds=30)
# Some evictions use no budget, so that it never shows them.
SHOWN_WITHIN_FOR = timedelta(seconds=5)


class Permit(Row, frozen=True, kw_only=True):
    """A budget's answer about one pod. `charged`: let go, and the budget does not show it yet; `tried_at`: last refused.

    `tried_version`: what the budget had said when the pod was last let go.
    """

    pod: Key
    pod_uid: str
    budget: Key
    granted: bool = False
    charged: bool = False
    waiting_since: datetime
    gone_at: datetime | None = None
    tried_at: datetime | None = None
    tried_version: int = 0


def _pod_of(row: Row) -> tuple[Key, ...]:
    return (row.pod,) if isinstance(row, Permit) and row.gone_at is None else ()


def _budget_of(row: Row) -> tuple[Key, ...]:
    return (row.budget,) if isinstance(row, Permit) else ()


PERMITS_OF_POD = Index("permits-of-pod", PERMIT, _pod_of)
PERMITS_OF_BUDGET = Index("permits-of-budget", PERMIT, _budget_of)


def decide(key: Key, view: View, now: datetime) -> Decision:
    budget = view.get(key, BudgetRow)
    if budget is None:
        return NOTHING
    evictions = _covered(budget, view.rows(EVICTIONS_OF_NAMESPACE, key.namespace, EvictionRow, key.cluster))
    earlier = {permit.pod: permit for permit in view.recall_rows(PERMITS_OF_BUDGET, key, Permit, key.cluster)}
    failed = {row.pod for row in evictions if _has_failed(view, row)}
    here = {row.pod: _seen(view, budget, row, earlier.get(row.pod), now) for row in evictions}
    gone = [
        left for permit in earlier.values() if permit.pod not in here and (left := _left(view, budget, permit, now))
    ]
    # Whoever was refused for another reason has used nothing, and is not waited for: it may be so for good.
    free = _allowed(budget) - sum(permit.charged for permit in (*here.values(), *gone) if permit.pod not in failed)
    waiting = [row for row in sorted(evictions, key=lambda row: row.rank) if not here[row.pod].granted]
    for row in waiting:
        permit = here[row.pod]
        uses = _uses_budget(budget, row)
        if permit.tried_at is not None and not _may_try_again(budget, permit, now):
            continue
        if not uses or free > 0:
            free -= uses
            here[row.pod] = _granted(budget, permit, charged=uses)
    if waiting and not any(permit.granted and permit.pod not in failed for permit in here.values()):
        first = min(waiting, key=lambda row: _try_at(here[row.pod]))
        if now >= _try_at(here[first.pod]):
            here[first.pod] = _granted(budget, here[first.pod], charged=True)
    tries = (_try_at(here[row.pod]) for row in waiting if not here[row.pod].granted)
    until = earliest(
        *(permit.gone_at + SHOWN_WITHIN_FOR for permit in gone if permit.gone_at),
        *(instant for instant in tries if instant > now),
    )
    return Decision(marks=(*here.values(), *gone), until=until)


DECIDER = Decider("pace", "PodDisruptionBudget", decide, phase=PHASE, cluster=None)


def permit_key(budget: Key, pod: Key) -> Key:
    return Key(budget.cluster, PERMIT, budget.namespace, f"{budget.name}/{pod.name}")


def _covered(budget: BudgetRow, evictions: list[EvictionRow]) -> list[EvictionRow]:
    if budget.selector is None:
        return []
    try:
        selector = from_object(budget.selector)
    except SelectorError:
        # To the server, one that cannot be read selects nobody (pkg/registry/core/pod/storage/eviction.go).
        return []
    return [row for row in evictions if row.by_budget and not row.delete and selector.matches(row.labels)]


def _allowed(budget: BudgetRow) -> int:
    return budget.disruptions_allowed if budget.observed_generation >= budget.generation else 0


def _uses_budget(budget: BudgetRow, eviction: EvictionRow) -> bool:
    """A pod that is not healthy costs nothing where the budget says so, or where enough others are."""
    if eviction.healthy:
        return True
    if budget.unhealthy_policy == "AlwaysAllow":
        return False
    return not budget.current_healthy >= budget.desired_healthy > 0


def _seen(view: View, budget: BudgetRow, eviction: EvictionRow, permit: Permit | None, now: datetime) -> Permit:
    """How it stands with a pod that is still to go; a refusal takes the permit back."""
    if permit is None or permit.pod_uid != eviction.uid:
        key = permit_key(budget.key, eviction.pod)
        return Permit(key=key, pod=eviction.pod, pod_uid=eviction.uid, budget=budget.key, waiting_since=now)
    charged = permit.charged and eviction.pod.name not in budget.disrupted
    permit = msgspec.structs.replace(permit, gone_at=None, charged=charged)
    if not permit.granted:
        return permit
    refusal = _refusal(view, eviction)
    # The last one may be of an earlier try.
    if refusal is not None and refusal.by_budget and (permit.tried_at is None or refusal.at > permit.tried_at):
        return msgspec.structs.replace(permit, granted=False, charged=False, tried_at=refusal.at)
    return permit


def _refusal(view: View, eviction: EvictionRow) -> Refusal | None:
    outcome = view.outcome(outcome_name(eviction.pod, eviction.uid))
    return outcome.value if outcome is not None and isinstance(outcome.value, Refusal) else None


def _has_failed(view: View, eviction: EvictionRow) -> bool:
    """Whether its last try was refused, and not by a budget. Reading is subscribing: a refusal has to be heard of."""
    refusal = _refusal(view, eviction)
    return refusal is not None and not refusal.by_budget


def _granted(budget: BudgetRow, permit: Permit, *, charged: bool) -> Permit:
    return msgspec.structs.replace(permit, granted=True, charged=charged, tried_version=budget.version)


def _left(view: View, budget: BudgetRow, permit: Permit, now: datetime) -> Permit | None:
    """A pod on its way out is kept in mind until the budget shows it."""
    if not permit.charged or permit.pod.name in budget.disrupted:
        return None
    gone_at = permit.gone_at or now
    pod = view.recall(permit.pod, PodRow)
    # The server counts an eviction before it marks the pod, so that a later word of the budget has it counted in.
    counted = pod is not None and pod.deleting_at is not None and budget.version > pod.version
    if counted or now >= gone_at + SHOWN_WITHIN_FOR:
        return None
    return msgspec.structs.replace(permit, gone_at=gone_at)


def _may_try_again(budget: BudgetRow, permit: Permit, now: datetime) -> bool:
    """Refused although it seemed to fit: once the budget has spoken again, or after a while."""
    return budget.version > permit.tried_version or now >= _try_at(permit)


def _try_at(permit: Permit) -> datetime:
    return (permit.tried_at or permit.waiting_since) + TRY_AFTER_FOR
