"""The decision about one pod that has to go: evict it as soon as its budget allows that.

There is one decision for each pod, so that a pod whose eviction is refused delays no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.limits import Count, Group, Limit, Membership
from haulout.cluster.rows import BudgetRow, PodRow, Row, Value
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import EVICTION, MARK, View
from haulout.core.action import Delete, Evict, Refusal, Tell, Write
from haulout.core.decision import NOTHING, Decider, Decision, earliest
from haulout.core.drain import requests
from haulout.core.drain.pace import PERMITS_OF_POD, Permit, allowance
from haulout.core.drain.pace import PHASE as PACE_PHASE
from haulout.core.drain.plan import EvictionRow, outcome_name
from haulout.core.holds import Rank

EVICTING = ("Evicting", "Evicting pod during node drain")
ASKED = "pods-asked-to-go"
FORCED = ("ForceDeleting", "Force deleting pod that exceeded grace period during node drain")


def decide(key: Key, view: View, now: datetime) -> Decision:
    row = view.get(key, EvictionRow)
    if row is None:
        return _withdraw(key, view)
    pod = view.get(row.pod, PodRow)
    if pod is None or pod.uid != row.uid:
        return NOTHING
    if row.delete:
        return _deletion(view, row, pod)
    if pod.deleting_at is not None:
        return _leaving(view, row)
    outcome = view.outcome(outcome_name(pod.key, pod.uid))
    refusal = outcome.value if outcome is not None and isinstance(outcome.value, Refusal) else None
    past_at = row.past_budget_at if row.by_budget else None
    if past_at is None:
        return _eviction(view, row, pod, refusal, now)
    if now >= past_at:
        is_refused = _is_refused_by_budget(view, row, refusal)
        return _deletion(view, row, pod) if is_refused else _eviction(view, row, pod, refusal, now)
    decision = _eviction(view, row, pod, refusal, now)
    return msgspec.structs.replace(decision, until=earliest(decision.until, past_at))


def _deletion(view: View, row: EvictionRow, pod: PodRow) -> Decision:
    what = EVICTING if pod.deleting_at is None else FORCED
    name = outcome_name(pod.key, pod.uid)
    return _in_turn(view, row, what, (Delete(pod.key, pod.uid, row.grace_for, name, row.surface),))


def _eviction(view: View, row: EvictionRow, pod: PodRow, refusal: Refusal | None, now: datetime) -> Decision:
    name = outcome_name(pod.key, pod.uid)
    retry_at = _retry_at(view, row, refusal)
    if retry_at is not None and retry_at > now:
        return _going(row, EVICTING, until=retry_at)
    if row.by_request:
        return _going(row, EVICTING, requests.request_writes(view, pod, name))
    if row.by_budget and not _permitted(view, row):
        return _going(row, EVICTING)
    return _in_turn(view, row, EVICTING, (Evict(pod.key, pod.uid, row.grace_for, name, row.surface),))


class Asked(Count, frozen=True):
    """A count of the pods of a node that were asked to go and that their drain has not counted as leaving yet."""

    @property
    def kind(self) -> str:
        return MARK

    def groups(self, row: Row) -> Iterable[Membership]:
        return (Membership(row.value),) if row.key.namespace == ASKED and isinstance(row, Value) else ()

    def describe(self, group: Group) -> str:
        return f"pods of node {group} that are being evicted"


def _in_turn(view: View, row: EvictionRow, what: tuple[str, str], writes: tuple[Write, ...]) -> Decision:
    """Return the writes that make a pod go if fewer than `places` pods of its node are on their way out; otherwise none.

    A pod whose budget refuses its eviction takes no place.
    """
    decision = _going(row, what, writes)
    if row.places is None:
        return decision
    mark = _place(row)
    if view.recall(mark.key, Value) is None and view.full([Limit(Asked(), row.node, row.places)]):
        return _going(row, what)
    return msgspec.structs.replace(decision, marks=(mark,))


def _leaving(view: View, row: EvictionRow) -> Decision:
    """Keep the place of a pod that is terminating until the drain has counted it in `places`.

    The drain then withdraws the eviction row. It may run later than this decision, and without the place more pods than
    allowed would be asked to go until it has.
    """
    mark = _place(row)
    return Decision(marks=(mark,)) if view.recall(mark.key, Value) is not None else NOTHING


def _place(row: EvictionRow) -> Value:
    name = f"{row.key.cluster}/{row.pod.namespace}/{row.pod.name}"
    return Value(key=Key("", MARK, ASKED, name), value=row.node)


def _going(
    row: EvictionRow, what: tuple[str, str], writes: tuple[Write, ...] = (), until: datetime | None = None
) -> Decision:
    """Return a decision with the event about an eviction, and these writes.

    The event is sent once, whether or not the budget allows the eviction already.
    """
    return Decision(actions=tuple(step for step in (_events(row, what), writes) if step), until=until)


def _events(row: EvictionRow, what: tuple[str, str]) -> tuple[Tell, ...]:
    if not row.reporter:
        return ()
    return (Tell(row.pod, what[0], "Drain", what[1], row.reporter, related=row.node),)


def _withdraw(key: Key, view: View) -> Decision:
    """Withdraw the EvictionRequest for a pod that need not go any more.

    For a pod that terminates already, do nothing.
    """
    if view.listing(requests.KIND, key.cluster) is not Listing.LISTED:
        return NOTHING
    pod = view.get(Key(key.cluster, "Pod", key.namespace, key.name), PodRow)
    if pod is None or pod.deleting_at is not None:
        return NOTHING
    writes = requests.withdrawal_writes(view, pod.key)
    return Decision(actions=(writes,) if writes else ())


def _rank(key: Key, store: Store) -> Rank:
    row = store.row(key)
    return row.rank if isinstance(row, EvictionRow) else Rank()


def _touches(key: Key, store: Store) -> Iterable[Key]:
    row = store.row(key)
    return (row.node,) if isinstance(row, EvictionRow) else ()


DECIDER = Decider("evict", EVICTION, decide, phase=PACE_PHASE + 1, cluster=None, rank=_rank, touches=_touches)


def _permitted(view: View, row: EvictionRow) -> bool:
    if view.listing("PodDisruptionBudget", row.pod.cluster) is Listing.UNREADABLE:
        return True
    view.require("PodDisruptionBudget", row.pod.cluster)
    permits = view.rows(PERMITS_OF_POD, row.pod, Permit, row.pod.cluster)
    # The server refuses the eviction of a pod that several budgets cover. The eviction is sent all the same, so that
    # the server's own message is reported.
    return len(permits) > 1 or all(permit.granted for permit in permits)


def _is_refused_by_budget(view: View, row: EvictionRow, refusal: Refusal | None) -> bool:
    """Whether a budget refuses the pod's eviction: by its own count, by the server's answer, or because several cover it.

    A pod that only waits for its turn under a budget with room is not refused.
    """
    if view.listing("PodDisruptionBudget", row.pod.cluster) is Listing.UNREADABLE:
        return refusal is not None and refusal.by_budget
    view.require("PodDisruptionBudget", row.pod.cluster)
    permits = view.rows(PERMITS_OF_POD, row.pod, Permit, row.pod.cluster)
    if len(permits) != 1 or permits[0].granted:
        return len(permits) > 1
    budget = view.get(permits[0].budget, BudgetRow)
    return permits[0].tried_at is not None or (budget is not None and allowance(budget) <= 0)


def _retry_at(view: View, row: EvictionRow, refusal: Refusal | None) -> datetime | None:
    """Return when a failed eviction is tried again; None: now.

    After a refusal by a budget, the decision about the budget says when, so that there is no instant to wait for.
    """
    if refusal is None:
        return None
    paced = view.listing("PodDisruptionBudget", row.pod.cluster) is Listing.LISTED
    if refusal.by_budget and paced:
        return None
    return refusal.at + timedelta(seconds=row.retry_for)
