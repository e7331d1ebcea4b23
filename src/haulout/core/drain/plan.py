"""The decision about one node: from the drains that surfaces ask for and the node's pods to the evictions wanted now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.key import Key
from haulout.cluster.rows import NOTHING, NodeRow, PodRow, Row, Value, WorkloadRow
from haulout.cluster.store import Index, Listing
from haulout.cluster.view import EVICTION, MARK, View
from haulout.core.action import Tell
from haulout.core.decision import NOTHING as NO_DECISION
from haulout.core.decision import Decider, Decision, earliest
from haulout.core.drain.options import ACTS, DRAINS_OF_NODE, POD_ANNOTATION, Act, DrainRow
from haulout.core.drain.proof import relist
from haulout.core.drain.selection import Fate, Selection, changes_at, forced_at, select
from haulout.core.drain.working_pods import without_working
from haulout.core.holds import LONG_AGO, Rank

REPORTER = "haulout"
MOST_SHOWN = 60
WAITING = "drain-waits"
# Runs after the surfaces, which say what is to be drained, and after the arbiter.
PHASE = 2


class EvictionRow(Row, frozen=True, kw_only=True):
    """The row by which a drain asks for one pod to be evicted or deleted.

    `by_budget`: the eviction has to wait for budgets. `healthy`: the pod counts as available under them.
    `places`: how many pods of the node may be asked to go at a time, beside those that are terminating already.
    `past_budget_at`: from then on the pod is deleted if a budget refuses its eviction.
    """

    pod: Key
    node: Key
    labels: Mapping[str, str] = NOTHING
    healthy: bool = True
    by_budget: bool = True
    delete: bool = False
    grace_for: int | None = None
    retry_for: float = 5.0
    since: datetime = LONG_AGO
    surface: str = ""
    by_request: bool = False
    reporter: str = ""
    places: int | None = None
    past_budget_at: datetime | None = None

    @property
    def rank(self) -> Rank:
        return Rank(0, self.since, f"{self.node.name}/{self.pod.namespace}/{self.pod.name}")


def outcome_name(pod: Key, uid: str) -> str:
    """Return the name of the outcome row that keeps refusals of a pod's eviction."""
    return f"evict/{pod.cluster}/{pod.namespace}/{pod.name}/{uid}"


def asks_budgets(pod: PodRow) -> bool:
    """Whether the API server checks budgets when this pod is evicted."""
    return pod.phase not in ("Pending", "Succeeded", "Failed")


def eviction_key(pod: Key) -> Key:
    return Key(pod.cluster, EVICTION, pod.namespace, pod.name)


def _labels(row: Row) -> tuple[tuple[str, str, str], ...]:
    """Return the keys under which an eviction is found: its namespace alone, and with each of its pod's labels."""
    if not isinstance(row, EvictionRow):
        return ()
    namespace = row.pod.namespace
    return ((namespace, "", ""), *((namespace, name, value) for name, value in row.labels.items()))


EVICTIONS_OF_LABEL = Index("evictions-of-label", EVICTION, _labels)


def decide(key: Key, view: View, now: datetime) -> Decision:
    drains = view.rows(DRAINS_OF_NODE, key, DrainRow, key.cluster)
    if not drains:
        return NO_DECISION
    node = view.get(key, NodeRow)
    # No pod is evicted from a node that is not cordoned: its replacement could be scheduled there.
    if node is None or not node.unschedulable:
        return NO_DECISION
    pods = view.rows(PODS_OF_NODE, key.name, PodRow, key.cluster)
    chosen = [(drain, selection_of(view, drain, pods, node, now)) for drain in drains]
    # A drain that must not begin evicts nothing. Other drains of the node go on.
    able = [(drain, selection) for drain, selection in chosen if not selection.errors]
    waiting, relist_at = _waiting(view, node, chosen, now)
    marks = (*_evictions(key, able, now), *waiting)
    until = earliest(
        relist_at,
        *(changes_at(pods, drain.options, now, node) for drain in drains),
        *(
            drain.deadline_at
            for drain, _ in able
            if drain.force_after and drain.deadline_at and drain.deadline_at > now
        ),
        *(pod.deleting_at for drain in drains if drain.most_at_once is not None for pod in _leaving(pods, now)),
    )
    odd = tuple(_misread(pods)) if any(drain.rules.annotation for drain in drains) else ()
    return Decision(actions=(odd,) if odd else (), marks=marks, until=until)


def _waiting(
    view: View, node: NodeRow, chosen: list[tuple[DrainRow, Selection]], now: datetime
) -> tuple[tuple[Value, ...], datetime | None]:
    """Return a row that keeps since when pods of the node are waited for, and when they are listed again.

    After a restart the time counts anew, because the pods have just been listed.
    """
    if all(selection.is_clear for _, selection in chosen):
        return (), None
    mark = Key(node.key.cluster, MARK, WAITING, node.key.name)
    known = view.recall(mark, Value)
    since = known.value if known is not None and isinstance(known.value, datetime) else now
    return (Value(key=mark, value=since),), relist(view, node, WAITING, since, now)


def _misread(pods: Iterable[PodRow]) -> Iterator[Tell]:
    """Warn of pods whose drain annotation has an unknown value. It counts as absent."""
    for pod in pods:
        word = pod.annotations.get(POD_ANNOTATION, "").strip()
        if word and word.lower() not in ACTS:
            known = ", ".join(ACTS)
            note = f'The annotation {POD_ANNOTATION} is "{word[:MOST_SHOWN]}": it counts as absent (one of {known} would be right)'
            yield Tell(pod.key, "AnnotationInvalid", "ReadAnnotation", note, REPORTER, warning=True)


DECIDER = Decider("drain", "Node", decide, phase=PHASE, cluster=None)


def selection_of(view: View, drain: DrainRow, pods: list[PodRow], node: NodeRow | None, now: datetime) -> Selection:
    def daemonset(namespace: str, name: str) -> bool | None:
        cluster = drain.node.cluster
        if view.listing("DaemonSet", cluster) is Listing.UNREADABLE:
            return None
        return view.get(Key(cluster, "DaemonSet", namespace, name), WorkloadRow) is not None

    mine = without_working(view, pods, drain.node)
    return select(mine, drain.options, daemonset, now, rules=drain.rules, node=node)


def _evictions(node: Key, chosen: list[tuple[DrainRow, Selection]], now: datetime) -> list[EvictionRow]:
    """Return the evictions of the pods that go first in each drain.

    If several drains want a pod to go, the strongest act wins.
    """
    found: dict[Key, EvictionRow] = {}
    for drain, selection in chosen:
        late = drain.force_after and drain.deadline_at is not None and now >= drain.deadline_at
        awaited = [(pod, fate) for pod, fate in selection.pods if fate.awaited]
        places = None
        if drain.most_at_once is not None:
            places = max(0, drain.most_at_once - len(_leaving((pod for pod, _ in awaited), now)))
        first = min((fate.order for _, fate in awaited if fate.act is not Act.BLOCK), default=0)
        for pod, fate in awaited:
            row = _eviction(node, drain, pod, fate, now, late=late, places=places)
            if row is not None and (fate.order == first or late):
                found[pod.key] = _stronger(found.get(pod.key), row)
    return [found[key] for key in sorted(found)]


def _leaving(pods: Iterable[PodRow], now: datetime) -> list[PodRow]:
    """Return the pods that are terminating within their grace period.

    A pod that hangs longer does not count, so that it does not keep other pods from being evicted.
    """
    return [pod for pod in pods if pod.deleting_at is not None and pod.deleting_at > now]


def _eviction(
    node: Key, drain: DrainRow, pod: PodRow, fate: Fate, now: datetime, *, late: bool, places: int | None
) -> EvictionRow | None:
    """Return the eviction of a pod. A pod that terminates needs none, unless its grace period is to be cut short."""
    options = drain.options
    overdue_at = forced_at(pod, options)
    overdue = overdue_at is not None and now > overdue_at
    cut_short = late and drain.forced_grace_for == 0 and pod.deletion_grace_for != 0
    if pod.deleting_at is not None:
        if not overdue and not cut_short:
            return None
    elif not fate.goes and not late:
        return None
    forced = late or overdue
    return EvictionRow(
        key=eviction_key(pod.key),
        uid=pod.uid,
        pod=pod.key,
        node=node,
        labels=pod.labels,
        healthy=bool(pod.ready),
        by_budget=asks_budgets(pod) and not options.by_request,
        delete=forced or fate.act is Act.DELETE,
        grace_for=0 if overdue else drain.forced_grace_for if late else options.grace_for,
        retry_for=drain.retry_for,
        since=drain.since,
        surface=drain.surface,
        by_request=options.by_request,
        reporter=drain.reporter,
        places=places if pod.deleting_at is None else None,
        past_budget_at=options.classes.past_budget_at(pod) if options.classes is not None else None,
    )


def _stronger(one: EvictionRow | None, other: EvictionRow) -> EvictionRow:
    if one is None or (other.delete, one.since) > (one.delete, other.since):
        return other
    return one
