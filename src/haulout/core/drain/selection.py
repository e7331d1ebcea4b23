"""Which pods of a node a drain concerns: the filters of `kubectl drain`, after the rules that all drains share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from haulout.base.selector import Selector
from haulout.cluster.rows import NodeRow, PodRow
from haulout.core.drain.options import (
    ACTS,
    CLUSTER_API_LABEL,
    CLUSTER_API_NODE,
    POD_ANNOTATION,
    Act,
    DaemonSetLookup,
    DrainOptions,
    PodRules,
)


class Fate(msgspec.Struct, frozen=True):
    """What a drain does with one pod.

    `error`: why the pod keeps the whole drain from beginning.
    `order`: pods of lower order go first.
    `skipped`: the pod is terminating, and has been waited for long enough.
    `decided_by`: what decided this, as the subject of a sentence about the pod; empty: the options of the drain.
    """

    act: Act
    warning: str = ""
    error: str = ""
    order: int = 0
    skipped: bool = False
    decided_by: str = ""

    @property
    def goes(self) -> bool:
        return self.act is Act.EVICT or self.act is Act.DELETE

    @property
    def awaited(self) -> bool:
        """Whether the pod has to be gone before the node counts as drained."""
        return self.act is not Act.IGNORE


IGNORED = Fate(Act.IGNORE)
EVICTED = Fate(Act.EVICT)
SKIPPED = Fate(Act.IGNORE, skipped=True)
BARE = Fate(Act.EVICT, warning="deleting Pods that declare no controller")
NO_RULES = PodRules()


class Selection(msgspec.Struct, frozen=True, dict=True):
    """The pods of a node with their fates, in the order of the server's lists."""

    pods: tuple[tuple[PodRow, Fate], ...] = ()

    @cached_property
    def awaited_pods(self) -> tuple[PodRow, ...]:
        return tuple(pod for pod, fate in self.pods if fate.awaited and not fate.error)

    @property
    def is_clear(self) -> bool:
        """Whether no pod is waited for, and none keeps the drain from beginning."""
        for _, fate in self.pods:  # noqa: SIM110 - asked in each decision about a drain
            if fate.act is not Act.IGNORE or fate.error:
                return False
        return True

    @cached_property
    def skipped_pods(self) -> tuple[PodRow, ...]:
        return tuple(pod for pod, fate in self.pods if fate.skipped)

    @cached_property
    def warnings(self) -> str:
        return "; ".join(_grouped((fate.warning, pod) for pod, fate in self.pods if fate.warning))

    @property
    def errors(self) -> str:
        refused = [(f"cannot delete {fate.error}", pod) for pod, fate in self.pods if fate.error]
        return aggregate(_grouped(refused)) if refused else ""


def select(
    pods: Iterable[PodRow],
    options: DrainOptions,
    daemonset: DaemonSetLookup,
    now: datetime,
    *,
    rules: PodRules = NO_RULES,
    node: NodeRow | None = None,
) -> Selection:
    if options.selector is not None:
        pods = [pod for pod in pods if options.selector.matches(pod.labels)]
    fate_of = Fates(options, daemonset, now, rules=rules, node=node).of
    return Selection(tuple([(pod, fate_of(pod)) for pod in pods]))


class Fates:
    """Computes the fates of the pods of one node. What all pods share is computed once."""

    def __init__(
        self,
        options: DrainOptions,
        daemonset: DaemonSetLookup,
        now: datetime,
        *,
        rules: PodRules = NO_RULES,
        node: NodeRow | None = None,
    ) -> None:
        self._options = options
        self._daemonset = daemonset
        self._now = now
        self._rules = rules if rules.any else None
        self._node = node
        self._keeps_some = options.keeps_some
        self._overdue_for = _overdue_for(options, node)
        # The pods of one ReplicaSet share their labels, so each set is matched once.
        self._is_ignored: dict[int, bool] = {}

    def of(self, pod: PodRow) -> Fate:
        options = self._options
        if pod.spec.mirror or (options.ignored is not None and self._ignores(options.ignored, pod.labels)):
            return IGNORED
        if self._rules is not None:
            ruled = _ruled(pod, self._rules, self._node)
            if ruled is not None and not (options.classes is not None and options.classes.overrules(ruled.act)):
                return ruled
        if self._keeps_some and _is_kept(pod, options):
            return IGNORED
        if (
            self._overdue_for is not None
            and pod.deleting_at is not None
            and self._now >= pod.deleting_at + self._overdue_for
        ):
            return SKIPPED
        if options.classes is not None:
            return Fate(options.classes.act(pod, self._daemonset, self._now))
        fate = _filtered(pod, options, self._daemonset)
        if fate.act is not Act.EVICT:
            return fate
        if options.disable_eviction:
            fate = msgspec.structs.replace(fate, act=Act.DELETE)
        if options.own is not None and options.own.matches(pod.labels):
            return msgspec.structs.replace(fate, order=LAST)
        return msgspec.structs.replace(fate, order=pod.spec.priority) if options.by_priority else fate

    def _ignores(self, ignored: Selector, labels: Mapping[str, str]) -> bool:
        known = self._is_ignored.get(id(labels))
        if known is None:
            known = self._is_ignored[id(labels)] = ignored.matches(labels)
        return known


def _is_kept(pod: PodRow, options: DrainOptions) -> bool:
    """Whether the drain leaves the pod alone because of its namespace, its tolerations or its phase."""
    return (
        pod.key.namespace in options.keep_namespaces
        or (options.keep_tolerant and pod.spec.tolerates_cordon)
        or (options.keep_ended and pod.ended)
    )


# Greater than every order that users or priorities (32 bits) can set.
LAST = 2**31


def changes_at(pods: Iterable[PodRow], options: DrainOptions, now: datetime, node: NodeRow | None) -> datetime | None:
    """Return when time alone changes a fate: a terminating pod is no longer waited for, or is deleted without grace."""
    overdue_for = _overdue_for(options, node)
    if overdue_for is None and not options.force_ending and options.force_stuck_for is None:
        return None
    known = tuple(pods)
    instants: list[datetime | None] = []
    if overdue_for is not None:
        instants += [pod.deleting_at + overdue_for for pod in known if pod.deleting_at is not None]
    if options.force_ending or options.force_stuck_for is not None:
        instants += [forced_at(pod, options) for pod in known]
    return min((instant for instant in instants if instant is not None and instant > now), default=None)


def aggregate(texts: Sequence[str]) -> str:
    """Return the errors as Go's aggregates print them: a single one as it is, several in brackets, each once."""
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def _ruled(pod: PodRow, rules: PodRules, node: NodeRow | None) -> Fate | None:
    fate = _requested_fate(pod, rules, node)
    # A pod that has ended is not waited for: its object may never be deleted.
    return IGNORED if fate is not None and fate.act is Act.WAIT and pod.ended else fate


def _requested_fate(pod: PodRow, rules: PodRules, node: NodeRow | None) -> Fate | None:
    if rules.annotation and pod.annotations:
        act = ACTS.get(pod.annotations.get(POD_ANNOTATION, "").strip().lower())
        if act is not None:
            return Fate(act, decided_by=f"its annotation {POD_ANNOTATION}")
    if rules.cluster_api_label and node is not None and not CLUSTER_API_NODE.isdisjoint(node.annotations):
        act = _cluster_api_act(pod)
        if act is not None:
            return Fate(act, decided_by=f"its label {CLUSTER_API_LABEL}")
    rule = next((rule for rule in rules.rules if rule.concerns(pod)), None) if rules.rules else None
    return Fate(rule.act, order=rule.order, decided_by="a rule") if rule is not None else None


def _cluster_api_act(pod: PodRow) -> Act | None:
    """Return the act that Cluster API's label asks for (cluster-api, internal/controllers/machine/drain/filters.go)."""
    word = pod.labels.get(CLUSTER_API_LABEL, "").lower()
    if word == "skip":
        return Act.IGNORE
    # Cluster API leaves pods of DaemonSets alone before it reads the label: they never complete.
    of_daemonset = pod.controller is not None and pod.controller.kind == "DaemonSet"
    return Act.WAIT if word.replace("-", "", 1) == "waitcompleted" and not of_daemonset else None


def _overdue_for(options: DrainOptions, node: NodeRow | None) -> timedelta | None:
    """Return for how long after its grace period a terminating pod is waited for; None: until it is gone."""
    spans = [options.skip_ending_for + 1] if options.skip_ending_for else []
    if options.skip_lost_for and node is not None and node.condition("Ready") == "Unknown":
        spans.append(options.skip_lost_for)
    # `deletionTimestamp` is when the grace ends; whole seconds beyond the span count.
    return timedelta(seconds=min(spans)) if spans else None


def forced_at(pod: PodRow, options: DrainOptions) -> datetime | None:
    """Return when a terminating pod is deleted without grace; None: never.

    Its `deletionTimestamp` includes the grace already.
    """
    if pod.deleting_at is None or pod.deletion_grace_for == 0:
        return None
    if options.force_stuck_for is not None:
        return pod.deleting_at + timedelta(seconds=options.force_stuck_for)
    if not options.force_ending:
        return None
    return pod.deleting_at + timedelta(seconds=pod.deletion_grace_for or 0)


def _filtered(pod: PodRow, options: DrainOptions, daemonset: DaemonSetLookup) -> Fate:
    """Run kubectl's filters. The first that keeps the pod decides; if none does, the last warning stays."""
    owner = pod.controller
    if options.any_daemonset and any(each.kind == "DaemonSet" for each in pod.owners):
        return IGNORED
    has_data = pod.spec.local_data and not options.delete_local_data
    if owner is not None and owner.kind != "DaemonSet" and not has_data:
        # No filter below keeps such a pod, whether it has ended or not. Most pods are of this kind.
        return EVICTED
    if owner is not None and owner.kind == "DaemonSet" and owner.api_version == "apps/v1" and not pod.ended:
        exists = daemonset(pod.key.namespace, owner.name)
        if exists is False and not options.force:
            return Fate(Act.BLOCK, error=f'daemonsets.apps "{owner.name}" not found')
        if exists is not False:
            if not options.ignore_daemonsets:
                return Fate(Act.BLOCK, error="DaemonSet-managed Pods (use --ignore-daemonsets to ignore)")
            return Fate(Act.IGNORE, warning="ignoring DaemonSet-managed Pods")
    if pod.ended:
        return EVICTED
    if has_data:
        return Fate(Act.BLOCK, error="Pods with local storage (use --delete-emptydir-data to override)")
    if owner is not None:
        return EVICTED
    if options.force:
        return BARE
    return Fate(Act.BLOCK, error="cannot delete Pods that declare no controller (use --force to override)")


def _grouped(texts: Iterable[tuple[str, PodRow]]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for text, pod in texts:
        groups.setdefault(text, []).append(f"{pod.key.namespace}/{pod.key.name}")
    return [f"{text}: {', '.join(names)}" for text, names in groups.items()]
