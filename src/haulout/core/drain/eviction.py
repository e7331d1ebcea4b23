"""One pod that is to go: evicts it as soon as its budget lets it, so that one that is refused holds up no other."""

from __future__ import annotations

from datetime import datetime, timedelta

from haulout.cluster.key import Key
from haulout.cluster.rows import PodRow
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import EVICTION, View
from haulout.core.action import Delete, Evict, Refusal, Tell, Write
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.drain import requests
from haulout.core.drain.pace import PERMITS_OF_POD, Permit
from haulout.core.drain.pace import PHASE as PACE_PHASE
from haulout.core.drain.plan import EvictionRow, outcome_name
from haulout.core.holds import Rank

EVICTING = ("Evicting", "Evicting pod during node drain")
FORCED = ("ForceDeleting", "Force deleting pod that exceeded grace period during node drain")


def decide(key: Key, view: View, now: datetime) -> Decision:
    wanted = view.get(key, EvictionRow)
    if wanted is None:
        return _taken_back(key, view)
    pod = view.get(wanted.pod, PodRow)
    if pod is None or pod.uid != wanted.uid:
        return NOTHING
    name = outcome_name(pod.key, pod.uid)
    outcome = view.outcome(name)
    if wanted.delete:
        what = EVICTING if pod.deleting_at is None else FORCED
        return _going(wanted, what, (Delete(pod.key, pod.uid, wanted.grace_for, name),))
    if pod.deleting_at is not None:
        return NOTHING
    retry_at = _retry_at(view, wanted, outcome.value if outcome is not None else None)
    if retry_at is not None and retry_at > now:
        return _going(wanted, EVICTING, until=retry_at)
    if wanted.by_request:
        return _going(wanted, EVICTING, requests.asked(view, pod, name))
    if wanted.by_budget and not _permitted(view, wanted):
        return _going(wanted, EVICTING)
    return _going(wanted, EVICTING, (Evict(pod.key, pod.uid, wanted.grace_for, name, wanted.surface),))


def _going(
    wanted: EvictionRow, what: tuple[str, str], writes: tuple[Write, ...] = (), until: datetime | None = None
) -> Decision:
    """A pod that is to go is told of once, whether or not its budget lets it go already."""
    return Decision(actions=tuple(step for step in (_told(wanted, what), writes) if step), until=until)


def _told(wanted: EvictionRow, what: tuple[str, str]) -> tuple[Tell, ...]:
    if not wanted.reporter:
        return ()
    return (Tell(wanted.pod, what[0], "Drain", what[1], wanted.reporter, related=wanted.node),)


def _taken_back(key: Key, view: View) -> Decision:
    """A pod that is not to go any more; one that is on its way out needs nothing either."""
    if view.listing(requests.KIND, key.cluster) is not Listing.LISTED:
        return NOTHING
    pod = view.get(Key(key.cluster, "Pod", key.namespace, key.name), PodRow)
    if pod is None or pod.deleting_at is not None:
        return NOTHING
    writes = requests.withdrawn(view, pod.key)
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
    # The server refuses what several budgets cover; it is asked all the same, for its own words about it.
    return len(permits) > 1 or all(permit.granted for permit in permits)


def _retry_at(view: View, wanted: EvictionRow, refusal: object) -> datetime | None:
    """When one that failed is tried again. A budget that refused is its own clock, as far as budgets can be read."""
    if not isinstance(refusal, Refusal):
        return None
    paced = view.listing("PodDisruptionBudget", wanted.pod.cluster) is Listing.LISTED
    if refusal.by_budget and paced:
        return None
    return refusal.at + timedelta(seconds=wanted.retry_for)
