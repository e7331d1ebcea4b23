"""The decision about one PodDisruptionBudget: which of the pods that have to go, over all nodes, may be evicted now.

As many evictions are sent as the budget's own count allows. An eviction that was sent counts against the budget until
its status shows it, because the API server answers before its watch does.
At most two evictions under one budget are sent at a time. Each changes the budget, and of several at once the server
lets all but one sleep for half a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from haulout.base.selector import SelectorError, from_object
from haulout.cluster.key import Key
from haulout.cluster.rows import BudgetRow, PodRow, Row
from haulout.cluster.store import Index
from haulout.cluster.view import PERMIT, View
from haulout.core.action import Refusal
from haulout.core.decision import NOTHING, Decider, Decision, earliest
from haulout.core.drain.plan import EVICTIONS_OF_LABEL, EvictionRow, outcome_name
from haulout.core.drain.plan import PHASE as PLAN_PHASE
from haulout.core.holds import LONG_AGO

PHASE = PLAN_PHASE + 1
# If the budget's count is wrong because its controller is down, one pod is tried after this time without a change.
TRY_AFTER_FOR = timedelta(seconds=30)
# Two, so that an eviction that waits for the budget's controller does not delay the next one.
MOST_SENT = 2
# Some evictions use no budget, so that its status never shows them. They count against it for this time.
SHOWN_WITHIN_FOR = timedelta(seconds=5)
HEARD_WITHIN_FOR = timedelta(seconds=1)


class Permit(Row, frozen=True, kw_only=True):
    """The row that says whether a PodDisruptionBudget lets one pod be evicted.

    `node`: the node that the pod has to leave.
    `charged`: the eviction counts against the budget, because its status does not show it yet.
    `gone_at`: since when the pod needs no eviction any more.
    `tried_at`: when the eviction was last refused.
    `tried_version`: the version of the budget when the permit was last granted.
    `is_observed`: the pod is gone, and the budget has a later version than that.
    """

    pod: Key
    pod_uid: str
    budget: Key
    node: Key | None = None
    granted: bool = False
    charged: bool = False
    waiting_since: datetime
    gone_at: datetime | None = None
    tried_at: datetime | None = None
    tried_version: int = 0
    is_observed: bool = False


class Quiet(Row, frozen=True, kw_only=True):
    """The row that says since when a budget has not changed and no pod under it was evicted or refused.

    `version_seen`: the version of the budget then.
    """

    since: datetime
    version_seen: int


def _pod_of(row: Row) -> tuple[Key, ...]:
    return (row.pod,) if isinstance(row, Permit) and row.gone_at is None else ()


def _budget_of(row: Row) -> tuple[Key, ...]:
    return (row.budget,) if isinstance(row, Permit) else ()


def _waits_on(row: Row) -> tuple[Key, ...]:
    is_waiting = isinstance(row, Permit) and not row.granted and row.gone_at is None
    return (row.node,) if is_waiting and isinstance(row, Permit) and row.node is not None else ()


PERMITS_OF_POD = Index("permits-of-pod", PERMIT, _pod_of)
WAITING_PERMITS_OF_NODE = Index("waiting-permits-of-node", PERMIT, _waits_on)
PERMITS_OF_BUDGET = Index("permits-of-budget", PERMIT, _budget_of)


def decide(key: Key, view: View, now: datetime) -> Decision:
    budget = view.get(key, BudgetRow)
    if budget is None:
        return NOTHING
    evictions = _covered(view, budget)
    earlier = {permit.pod: permit for permit in view.recall_rows(PERMITS_OF_BUDGET, key, Permit, key.cluster)}
    if not evictions and not earlier:
        return NOTHING
    here: dict[Key, Permit] = {}
    failed: set[Key] = set()
    waiting: list[EvictionRow] = []
    sent = 0
    for row in evictions:
        # Because the refusal is read here, the next one makes the decision run again.
        refusal = _refusal(view, row)
        here[row.pod] = permit = _seen(budget, row, earlier.get(row.pod), refusal, now)
        if not permit.granted:
            waiting.append(row)
        if refusal is not None and not refusal.by_budget:
            # A pod that was refused for another reason than its budget has used no disruption, and may be refused for
            # good. So it is not waited for.
            failed.add(row.pod)
        else:
            sent += permit.charged
    departed_permits: list[Permit] = []
    until: datetime | None = None
    free = allowance(budget) - sent
    for permit in earlier.values():
        departed = _departed(view, budget, permit, now) if permit.pod not in here else None
        if departed is not None:
            departed_permits.append(departed)
            until = earliest(until, _shown_by(departed))
            free -= departed.charged
    for row in sorted(waiting, key=lambda row: row.rank) if len(waiting) > 1 else waiting:
        permit = here[row.pod]
        uses = uses_budget(budget, healthy=row.healthy)
        if not _may_try_again(budget, permit, now):
            continue
        if not uses or (free > 0 and sent < MOST_SENT):
            here[row.pod] = permit = _granted(budget, permit, charged=uses)
            costs = permit.charged and row.pod not in failed
            free, sent = free - costs, sent + costs
    still = [row.pod for row in waiting if not here[row.pod].granted]
    quiet = _quiet(view, budget, earlier, here, now)
    if still:
        sending = any(permit.granted and permit.pod not in failed for permit in here.values())
        if not sending and now >= quiet.since + TRY_AFTER_FOR:
            tried = min(still, key=lambda pod: here[pod].tried_at or LONG_AGO)
            here[tried] = _granted(budget, here[tried], charged=True)
            quiet = msgspec.structs.replace(quiet, since=now)
        again = [tried_at + TRY_AFTER_FOR for pod in still if (tried_at := here[pod].tried_at) is not None]
        until = earliest(
            until,
            *(again_at for again_at in again if again_at > now),
            quiet.since + TRY_AFTER_FOR if not sending else None,
        )
    return Decision(marks=(*here.values(), *departed_permits, quiet), until=until)


DECIDER = Decider("pace", "PodDisruptionBudget", decide, phase=PHASE, cluster=None)


def permit_key(budget: Key, pod: Key) -> Key:
    return Key(budget.cluster, PERMIT, budget.namespace, f"{budget.name}/{pod.name}")


def _covered(view: View, budget: BudgetRow) -> list[EvictionRow]:
    """Return the evictions under a budget.

    They are found by one label of its selector, so that evictions of other pods do not wake this decision.
    """
    if budget.selector is None:
        return []
    try:
        selector = from_object(budget.selector)
    except SelectorError:
        # To the server, a selector that cannot be read selects no pod (pkg/registry/core/pod/storage/eviction.go).
        return []
    place = (budget.key.namespace, *selector.longest_equality)
    found = view.rows(EVICTIONS_OF_LABEL, place, EvictionRow, budget.key.cluster)
    return [row for row in found if row.by_budget and not row.delete and selector.matches(row.labels)]


def allowance(budget: BudgetRow) -> int:
    """Return how many pods may be evicted; 0 until the controller has observed the budget's newest generation."""
    return budget.disruptions_allowed if budget.observed_generation >= budget.generation else 0


def uses_budget(budget: BudgetRow, *, healthy: bool) -> bool:
    """Whether a pod's eviction uses the budget. For a pod that is not healthy, the budget's policy decides that."""
    if healthy:
        return True
    if budget.unhealthy_policy == "AlwaysAllow":
        return False
    return not budget.current_healthy >= budget.desired_healthy > 0


def _seen(
    budget: BudgetRow, eviction: EvictionRow, permit: Permit | None, refusal: Refusal | None, now: datetime
) -> Permit:
    """Return the permit of a pod that still has to go. A refusal by the budget takes the permit back."""
    refused_at = refusal.at if refusal is not None and refusal.by_budget else None
    if permit is None or permit.pod_uid != eviction.uid:
        key = permit_key(budget.key, eviction.pod)
        known = Permit(
            key=key, pod=eviction.pod, pod_uid=eviction.uid, budget=budget.key, node=eviction.node, waiting_since=now
        )
        # A refusal during an earlier drain does not count.
        return msgspec.structs.replace(known, tried_at=refused_at)
    charged = permit.charged and eviction.pod.name not in budget.disrupted
    if permit.gone_at is not None or permit.charged != charged:
        permit = msgspec.structs.replace(permit, gone_at=None, charged=charged)
    if not permit.granted:
        return permit if refused_at is None else msgspec.structs.replace(permit, tried_at=refused_at)
    # The last refusal may be from an earlier attempt.
    if refused_at is not None and (permit.tried_at is None or refused_at > permit.tried_at):
        return msgspec.structs.replace(permit, granted=False, charged=False, tried_at=refused_at)
    return permit


def _refusal(view: View, eviction: EvictionRow) -> Refusal | None:
    outcome = view.outcome(outcome_name(eviction.pod, eviction.uid))
    return outcome.value if outcome is not None and isinstance(outcome.value, Refusal) else None


def _granted(budget: BudgetRow, permit: Permit, *, charged: bool) -> Permit:
    charged = charged and permit.pod.name not in budget.disrupted
    return msgspec.structs.replace(permit, granted=True, charged=charged, tried_version=budget.version)


def _departed(view: View, budget: BudgetRow, permit: Permit, now: datetime) -> Permit | None:
    """Return the permit of a pod that terminates or is gone, for as long as it counts against the budget; then None."""
    if not permit.charged or permit.pod.name in budget.disrupted:
        return None
    gone_at = permit.gone_at or now
    pod = view.recall(permit.pod, PodRow)
    # The server counts an eviction in the budget before it marks the pod, so that a later version of the budget
    # includes it.
    counted = pod is not None and pod.deleting_at is not None and budget.version > pod.version
    is_observed = pod is None and budget.version > permit.tried_version
    departed = permit
    if permit.gone_at is None or permit.is_observed != is_observed:
        departed = msgspec.structs.replace(permit, gone_at=gone_at, is_observed=is_observed)
    return None if counted or now >= _shown_by(departed) else departed


def _shown_by(permit: Permit) -> datetime:
    """Return the instant until which a departed pod counts against the budget.

    The wait is shorter once the pod is gone and the budget has a new version, which probably counts it.
    """
    assert permit.gone_at is not None
    return permit.gone_at + (HEARD_WITHIN_FOR if permit.is_observed else SHOWN_WITHIN_FOR)


def _may_try_again(budget: BudgetRow, permit: Permit, now: datetime) -> bool:
    """Whether a refused pod may be tried again: once the budget's status has changed, or after a while."""
    return permit.tried_at is None or budget.version > permit.tried_version or now >= permit.tried_at + TRY_AFTER_FOR


def _quiet(
    view: View, budget: BudgetRow, before: Mapping[Key, Permit], permits: Mapping[Key, Permit], now: datetime
) -> Quiet:
    key = Key(budget.key.cluster, PERMIT, budget.key.namespace, budget.key.name)
    last = view.recall(key, Quiet)
    if last is not None and last.version_seen == budget.version and not _has_moved(before, permits):
        return last
    return Quiet(key=key, since=now, version_seen=budget.version)


def _has_moved(before: Mapping[Key, Permit], permits: Mapping[Key, Permit]) -> bool:
    """Whether a permit was granted or taken back, or its eviction refused, since the last decision."""
    for pod, permit in permits.items():
        earlier = before.get(pod)
        if permit is earlier or not (permit.granted or permit.tried_at):
            continue
        if earlier is None or (earlier.granted, earlier.tried_at) != (permit.granted, permit.tried_at):
            return True
    return False
