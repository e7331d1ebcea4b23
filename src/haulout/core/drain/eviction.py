"""One pod that is to go: evicts it as soon as its budget lets it, so that one that is refused holds up no other."""

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
    wanted = view.get(key, EvictionRow)
    if wanted is None:
        return _withdraw(key, view)
    pod = view.get(wanted.pod, PodRow)
    if pod is None or pod.uid != wanted.uid:
        return NOTHING
    if wanted.delete:
        return _deletion(view, wanted, pod)
    if pod.deleting_at is not None:
        return _leaving(view, wanted)
    outcome = view.outcome(outcome_name(pod.key, pod.uid))
    refusal = outcome.value if outcome is not None and isinstance(outcome.value, Refusal) else None
    past_at = wanted.past_budget_at if wanted.by_budget else None
    if past_at is None:
        return _eviction(view, wanted, pod, refusal, now)
    if now >= past_at:
        is_refused = _is_refused_by_budget(view, wanted, refusal)
        return _deletion(view, wanted, pod) if is_refused else _eviction(view, wanted, pod, refusal, now)
    decision = _eviction(view, wanted, pod, refusal, now)
    return msgspec.structs.replace(decision, until=earliest(decision.until, past_at))


def _deletion(view: View, wanted: EvictionRow, pod: PodRow) -> Decision:
    what = EVICTING if pod.deleting_at is None else FORCED
    name = outcome_name(pod.key, pod.uid)
    return _in_turn(view, wanted, what, (Delete(pod.key, pod.uid, wanted.grace_for, name, wanted.surface),))


def _eviction(view: View, wanted: EvictionRow, pod: PodRow, refusal: Refusal | None, now: datetime) -> Decision:
    name = outcome_name(pod.key, pod.uid)
    retry_at = _retry_at(view, wanted, refusal)
    if retry_at is not None and retry_at > now:
        return _going(wanted, EVICTING, until=retry_at)
    if wanted.by_request:
        return _going(wanted, EVICTING, requests.request_writes(view, pod, name))
    if wanted.by_budget and not _permitted(view, wanted):
        return _going(wanted, EVICTING)
    return _in_turn(view, wanted, EVICTING, (Evict(pod.key, pod.uid, wanted.grace_for, name, wanted.surface),))


class Asked(Count, frozen=True):
    """Pods of a node that were asked to go and that their drain has not counted as leaving yet."""

    @property
    def kind(self) -> str:
        return MARK

    def groups(self, row: Row) -> Iterable[Membership]:
        return (Membership(row.value),) if row.key.namespace == ASKED and isinstance(row, Value) else ()

    def describe(self, group: Group) -> str:
        return f"pods of node {group} that are being evicted"


def _in_turn(view: View, wanted: EvictionRow, what: tuple[str, str], writes: tuple[Write, ...]) -> Decision:
    """Ask a pod to go once its node has a place for that. A pod that its budget refuses holds no place meanwhile."""
    decision = _going(wanted, what, writes)
    if wanted.places is None:
        return decision
    mark = _place(wanted)
    if view.recall(mark.key, Value) is None and view.fits([Limit(Asked(), wanted.node, wanted.places)]):
        return _going(wanted, what)
    return msgspec.structs.replace(decision, marks=(mark,))


def _leaving(view: View, wanted: EvictionRow) -> Decision:
    """Keep the place of a pod that is leaving until the drain, which may rest, has counted it in `places`.

    It then withdraws the row. Without this, more pods would be asked to go meanwhile than may go at a time.
    """
    mark = _place(wanted)
    return Decision(marks=(mark,)) if view.recall(mark.key, Value) is not None else NOTHING


def _place(wanted: EvictionRow) -> Value:
    name = f"{wanted.key.cluster}/{wanted.pod.namespace}/{wanted.pod.name}"
    return Value(key=Key("", MARK, ASKED, name), value=wanted.node)


def _going(
    wanted: EvictionRow, what: tuple[str, str], writes: tuple[Write, ...] = (), until: datetime | None = None
) -> Decision:
    """Return the decision to evict. The event is sent once, whether or not the budget allows the eviction already."""
    return Decision(actions=tuple(step for step in (_events(wanted, what), writes) if step), until=until)


def _events(wanted: EvictionRow, what: tuple[str, str]) -> tuple[Tell, ...]:
    if not wanted.reporter:
        return ()
    return (Tell(wanted.pod, what[0], "Drain", what[1], wanted.reporter, related=wanted.node),)


def _withdraw(key: Key, view: View) -> Decision:
    """Withdraw the eviction of a pod that is to stay. One that terminates already needs nothing."""
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


DECIDER = Decider("evict", EVICTION, decide, phase=PACE_PHASE + 1, cluster=None, rank=_rank)


def _permitted(view: View, wanted: EvictionRow) -> bool:
    if view.listing("PodDisruptionBudget", wanted.pod.cluster) is Listing.UNREADABLE:
        return True
    view.require("PodDisruptionBudget", wanted.pod.cluster)
    permits = view.rows(PERMITS_OF_POD, wanted.pod, Permit, wanted.pod.cluster)
    # The server refuses the eviction of a pod that several budgets cover. It is asked all the same, so that its own
    # message is reported.
    return len(permits) > 1 or all(permit.granted for permit in permits)


def _is_refused_by_budget(view: View, wanted: EvictionRow, refusal: Refusal | None) -> bool:
    """Whether a budget keeps the pod: by its own count, by the server's answer, or because several cover the pod.

    A pod that only waits for its turn under a budget with room is not refused.
    """
    if view.listing("PodDisruptionBudget", wanted.pod.cluster) is Listing.UNREADABLE:
        return refusal is not None and refusal.by_budget
    view.require("PodDisruptionBudget", wanted.pod.cluster)
    permits = view.rows(PERMITS_OF_POD, wanted.pod, Permit, wanted.pod.cluster)
    if len(permits) != 1 or permits[0].granted:
        return len(permits) > 1
    budget = view.get(permits[0].budget, BudgetRow)
    return permits[0].tried_at is not None or (budget is not None and allowance(budget) <= 0)


def _retry_at(view: View, wanted: EvictionRow, refusal: Refusal | None) -> datetime | None:
    """Return when a failed eviction is tried again. Where a budget refused, a change of it is the time."""
    if refusal is None:
        return None
    paced = view.listing("PodDisruptionBudget", wanted.pod.cluster) is Listing.LISTED
    if refusal.by_budget and paced:
        return None
    return refusal.at + timedelta(seconds=wanted.retry_for)
