"""One node: from the drains that are wanted of it and its pods to the pods that are to go now."""

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
# Decided after the surfaces, which say what is to be drained, and after the arbiter.
PHASE = 2


class EvictionRow(Row, frozen=True, kw_only=True):
    """The row by which a drain asks for one pod to be evicted or deleted.

    `by_budget`: budgets are asked. `healthy`: the pod counts as available under them.
    `places`: how many pods of the node may be asked to go at a time, beside those that are leaving already.
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
    """Return the name under which refusals of a pod's eviction are kept."""
    return f"evict/{pod.cluster}/{pod.namespace}/{pod.name}/{uid}"


def asks_budgets(pod: PodRow) -> bool:
    """Whether the server looks at budgets before it lets this one go."""
    return pod.phase not in ("Pending", "Succeeded", "Failed")


def eviction_key(pod: Key) -> Key:
    return Key(pod.cluster, EVICTION, pod.namespace, pod.name)


def _labels(row: Row) -> tuple[tuple[str, str, str], ...]:
    """Return namespace and label; without a label, all of the namespace."""
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
    # No pod is evicted from a node that is not cordoned: it could come back.
    if node is None or not node.unschedulable:
        return NO_DECISION
    pods = view.rows(PODS_OF_NODE, key.name, PodRow, key.cluster)
    chosen = [(drain, selected(view, drain, pods, node, now)) for drain in drains]
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
    """Return since when pods of the node are waited for, as a row to be remembered, and when they are listed again.

    After a restart it counts anew: the pods have just been listed.
    """
    if all(selection.is_clear for _, selection in chosen):
        return (), None
    mark = Key(node.key.cluster, MARK, WAITING, node.key.name)
    known = view.recall(mark, Value)
    since = known.value if known is not None and isinstance(known.value, datetime) else now
    return (Value(key=mark, value=since),), relist(view, node, WAITING, since, now)


def _misread(pods: Iterable[PodRow]) -> Iterator[Tell]:
    """Warn of an annotation with an unknown value, which counts as absent."""
    for pod in pods:
        word = pod.annotations.get(POD_ANNOTATION, "").strip()
        if word and word.lower() not in ACTS:
            known = ", ".join(ACTS)
            note = f'The annotation {POD_ANNOTATION} is "{word[:MOST_SHOWN]}": it counts as absent (one of {known} would be right)'
            yield Tell(pod.key, "AnnotationInvalid", "ReadAnnotation", note, REPORTER, warning=True)


DECIDER = Decider("drain", "Node", decide, phase=PHASE, cluster=None)


def selected(view: View, drain: DrainRow, pods: list[PodRow], node: NodeRow | None, now: datetime) -> Selection:
    def daemonset(namespace: str, name: str) -> bool | None:
        cluster = drain.node.cluster
        if view.listing("DaemonSet", cluster) is Listing.UNREADABLE:
            return None
        return view.get(Key(cluster, "DaemonSet", namespace, name), WorkloadRow) is not None

    mine = without_working(view, pods, drain.node)
    return select(mine, drain.options, daemonset, now, rules=drain.rules, node=node)


def _evictions(node: Key, chosen: list[tuple[DrainRow, Selection]], now: datetime) -> list[EvictionRow]:
    """Return the first pods in order of each drain: each pod once, with the strongest act."""
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
    """Return the pods that are on their way out and not late: one that hangs must not keep the others from going."""
    return [pod for pod in pods if pod.deleting_at is not None and pod.deleting_at > now]


def _eviction(
    node: Key, drain: DrainRow, pod: PodRow, fate: Fate, now: datetime, *, late: bool, places: int | None
) -> EvictionRow | None:
    """Return the eviction of a pod. One that terminates needs none, unless its grace is to be cut short."""
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
