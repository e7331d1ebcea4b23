"""What a drain does with which pods, as users know it from `kubectl drain`, and the rules that come before it."""

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
    """What becomes of a pod; of several drains of one node the greatest wins."""

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
    """What all drains of the process share; they come before anything that a surface says."""

    rules: tuple[Rule, ...] = ()
    annotation: bool = False
    cluster_api_label: bool = False

    @property
    def any(self) -> bool:
        """Whether there is anything that could concern a pod."""
        return bool(self.rules) or self.annotation or self.cluster_api_label


# Whether the DaemonSet of this namespace and name exists; None: DaemonSets cannot be read.
DaemonSetLookup = Callable[[str, str], bool | None]


class Classes(msgspec.Struct, frozen=True):
    """How a surface classes the pods of a node, where it does not do so by the filters of `kubectl drain`."""

    def act(self, pod: PodRow, daemonset: DaemonSetLookup, now: datetime) -> Act:
        """Return what is done with a pod. A surface that classes pods itself has its own."""
        raise NotImplementedError

    def past_budget_at(self, pod: PodRow) -> datetime | None:
        """Return from when on a pod whose eviction a budget refuses is deleted without eviction; None: never."""
        return None

    def overrules(self, act: Act) -> bool:
        """Whether the surface's deadline has passed, so that it decides itself where a rule of all drains says this."""
        return False


class DrainOptions(msgspec.Struct, frozen=True):
    """How one drain treats the pods of its node.

    The defaults are kubectl's. `grace_for` None: each pod's own. `skip_ending_for` 0: terminating ones are waited for.

    `own`: labels of the pods that go last because they do the draining. `skip_lost_for`: on a node that does not
    answer, pods that should have been gone for so long are not waited for. `by_request`: pods are not evicted but
    asked for by EvictionRequests, and the cluster sees to the rest. `any_daemonset`: whatever says that a DaemonSet owns
    it is left alone, existing or not. `force_ending`: what should be gone, and once more its grace, is deleted at once.
    `keep_namespaces`, `keep_tolerant`, `keep_ended`: pods of these namespaces, pods that tolerate a cordon, and pods that
    have ended are left alone.
    `force_stuck_for`: what should have been gone for so many seconds is. `classes`: in the place of kubectl's filters.
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
        """Whether some pods are left alone for what they are."""
        return self.keep_tolerant or self.keep_ended or bool(self.keep_namespaces)


class DrainRow(Row, frozen=True, kw_only=True):
    """The row by which a surface asks for a node to be drained.

    With `force_after`, pods that are left after `deadline_at` are deleted. `most_at_once`: so many pods of the node may be
    on their way out at a time. One that should have been gone by now does not count.
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
