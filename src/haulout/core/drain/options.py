"""The options of a drain, as users know them from `kubectl drain`, and the rules for certain pods that precede them.

See decision 0059.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import IntEnum

import msgspec

from haulout.base.selector import Selector
from haulout.cluster.key import Key
from haulout.cluster.rows import PodRow, Row
from haulout.cluster.store import Index
from haulout.cluster.view import DRAIN
from haulout.core.holds import LONG_AGO

POD_ANNOTATION = "haulout.dev/drain"
CLUSTER_API_LABEL = "cluster.x-k8s.io/drain"
# The annotations that Cluster API sets on the Nodes of its Machines. Its drain label has a meaning only there.
CLUSTER_API_NODE = frozenset(
    {"cluster.x-k8s.io/machine", "cluster.x-k8s.io/cluster-name", "cluster.x-k8s.io/cluster-namespace"}
)


class Act(IntEnum):
    """What a drain does with a pod. Where several drains of one node differ, the greatest wins."""

    IGNORE = 0
    BLOCK = 1
    WAIT = 2
    EVICT = 3
    DELETE = 4


ACTS = {act.name.lower(): act for act in Act}


class Rule(msgspec.Struct, frozen=True):
    """A rule for certain pods, which holds in every drain of the process.

    A field that is left out matches every pod. Pods of lower `order` go first.
    """

    act: Act
    namespaces: frozenset[str] = frozenset()
    selector: Selector | None = None
    controller_kinds: frozenset[str] = frozenset()
    restart_policies: frozenset[str] = frozenset()
    order: int = 0

    def concerns(self, pod: PodRow) -> bool:
        kind = pod.controller.kind if pod.controller else ""
        return (
            (not self.namespaces or pod.key.namespace in self.namespaces)
            and (not self.controller_kinds or kind in self.controller_kinds)
            and (not self.restart_policies or pod.spec.restart_policy in self.restart_policies)
            and (self.selector is None or self.selector.matches(pod.labels))
        )


class PodRules(msgspec.Struct, frozen=True):
    """The rules for pods that all drains of the process share. They come before the options of a surface's drain.

    `annotation`: the annotation `haulout.dev/drain` of pods is obeyed.
    `cluster_api_label`: the label `cluster.x-k8s.io/drain` of pods is obeyed on nodes of Cluster API.
    """

    rules: tuple[Rule, ...] = ()
    annotation: bool = False
    cluster_api_label: bool = False

    @property
    def any(self) -> bool:
        """Whether there is any rule, so that pods have to be compared with them."""
        return bool(self.rules) or self.annotation or self.cluster_api_label


# Given a namespace and a name, whether that DaemonSet exists; None: DaemonSets cannot be read.
DaemonSetLookup = Callable[[str, str], bool | None]


class Classes(msgspec.Struct, frozen=True):
    """A surface's own way to decide what its drains do with each pod, in place of the filters of `kubectl drain`."""

    def act(self, pod: PodRow, daemonset: DaemonSetLookup, now: datetime) -> Act:
        """Return what the drain does with a pod. Each subclass implements this."""
        raise NotImplementedError

    def past_budget_at(self, pod: PodRow) -> datetime | None:
        """Return when a pod is deleted if a budget still refuses its eviction; None: never."""
        return None

    def overrules(self, act: Act) -> bool:
        """Whether this class decides about a pod although one of the rules of all drains says `act`.

        A surface does so once its deadline has passed.
        """
        return False


class DrainOptions(msgspec.Struct, frozen=True):
    """How one drain treats the pods of its node. The defaults are those of `kubectl drain`.

    `grace_for`: the grace period of evicted pods, in seconds; None: each pod's own.
    `skip_ending_for`: pods whose grace period ended longer ago than these seconds are not waited for; 0: they are.
    `skip_lost_for`: the same, but only on a node whose Ready condition is Unknown.
    `by_priority`: pods of lower priority go first.
    `own`: pods that go last, because they do the draining.
    `ignored`: pods that are left alone.
    `by_request`: pods are not evicted. EvictionRequests ask the cluster to make them go.
    `any_daemonset`: pods with a DaemonSet as owner are left alone, even if it does not exist.
    `force_ending`: a pod that is still there one more grace period after its own has ended is deleted without grace.
    `force_stuck_for`: the same after so many seconds.
    `keep_namespaces`, `keep_tolerant`, `keep_ended`: pods of these namespaces, pods that tolerate a cordon, and pods
    that have ended are left alone.
    `classes`: decides about pods in place of kubectl's filters.
    """

    force: bool = False
    ignore_daemonsets: bool = False
    delete_local_data: bool = False
    grace_for: int | None = None
    selector: Selector | None = None
    disable_eviction: bool = False
    skip_ending_for: int = 0
    skip_lost_for: int = 0
    by_priority: bool = False
    own: Selector | None = None
    ignored: Selector | None = None
    by_request: bool = False
    any_daemonset: bool = False
    force_ending: bool = False
    keep_namespaces: frozenset[str] = frozenset()
    keep_tolerant: bool = False
    keep_ended: bool = False
    force_stuck_for: int | None = None
    classes: Classes | None = None

    @property
    def keeps_some(self) -> bool:
        """Whether pods are left alone because of their namespace, their tolerations or their phase."""
        return self.keep_tolerant or self.keep_ended or bool(self.keep_namespaces)


class DrainRow(Row, frozen=True, kw_only=True):
    """The row by which a surface asks for a node to be drained.

    `force_after`: pods that are left after `deadline_at` are deleted.
    `most_at_once`: how many pods of the node may be terminating at a time. A pod whose grace period has ended does not
    count.
    """

    surface: str
    node: Key
    options: DrainOptions = DrainOptions()
    rules: PodRules = PodRules()
    since: datetime = LONG_AGO
    deadline_at: datetime | None = None
    force_after: bool = False
    # The grace period of pods that are forced to end; None: their own.
    forced_grace_for: int | None = 0
    # The reporter of the events about evictions; empty: no events.
    reporter: str = ""
    retry_for: float = 5.0
    most_at_once: int | None = None


def drain_row(surface: str, owner: Key, node: Key, **fields: object) -> DrainRow:
    place = f"{node.name}/{owner.kind}/{owner.namespace}/{owner.name}"
    return DrainRow(key=Key(node.cluster, DRAIN, surface, place), surface=surface, node=node, **fields)  # type: ignore[arg-type]


def _node_of(row: Row) -> tuple[Key, ...]:
    return (row.node,) if isinstance(row, DrainRow) else ()


DRAINS_OF_NODE = Index("drains-of-node", DRAIN, _node_of)
