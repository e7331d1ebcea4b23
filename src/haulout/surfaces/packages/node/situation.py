"""The inputs of the decision about one node, and of the visit of each Skyhook to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.action import Tell
from haulout.surfaces.packages.events import event
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.bodies import NO_IDENTITIES, PodPlace
from haulout.surfaces.packages.pods.config_maps import MetadataRow
from haulout.surfaces.packages.pods.rows import PackagePodRow
from haulout.surfaces.packages.skyhook.intent import Intent
from haulout.surfaces.packages.wire import Package


class NodeSituation(msgspec.Struct, frozen=True):
    """The inputs of the decision about one node, which the visits of all Skyhooks share.

    `pods`: the package pods on the node, in the packages' namespace.
    `foreign`: package pods on the node in other namespaces.
    `known`: the Skyhooks that record the results of their own pods.
    `can_run_jobs`: Jobs may be read.
    """

    view: View
    now: datetime
    options: Options
    pods: tuple[PackagePodRow, ...] = ()
    foreign: tuple[PackagePodRow, ...] = ()
    known: frozenset[str] = frozenset()
    can_run_jobs: bool = False


class VisitSituation(msgspec.Struct, frozen=True):
    """The inputs of one visit: those for one Skyhook on one node that it selects.

    `pods`: the Skyhook's pods on the node. `all_pods`: those of all Skyhooks there.
    `has_void_pick`: the node was picked for something that failed on it. Nothing changes there until the pick is
    removed.
    `order`: returns the node's number in the order of the rollout. It is called only to create a pod, because the
    number changes whenever another node ends.
    `metadata`: the ConfigMap that has the name of the one with the node's metadata. It may belong to another Skyhook.
    `may_run`: the node is picked and eligible, and the ConfigMap of its metadata is its own.
    `pod_at`: returns the pod or Job of this key. It is called only to create one, because it may belong to another node.
    `runs_jobs`: the stages run in Jobs.
    `gate`: returns whether the node is cordoned and drained. It is called only before an interrupt.
    `identities`: those of entries that were begun for another object of the unit.
    """

    intent: Intent
    node: NodeRow
    options: Options
    now: datetime
    pods: tuple[PackagePodRow, ...] = ()
    all_pods: tuple[PackagePodRow, ...] = ()
    is_picked: bool = False
    has_void_pick: bool = False
    order: Callable[[], int | None] = lambda: None
    metadata: MetadataRow | None = None
    may_run: bool = False
    pod_at: Callable[[Key], PackagePodRow | None] = lambda key: None
    runs_jobs: bool = False
    gate: Callable[[Package], bool] = lambda package: True
    identities: Mapping[str, str] = NO_IDENTITIES

    @property
    def place(self) -> PodPlace:
        return self.intent.place(self.node.key.name, self.options, identities=self.identities)

    @property
    def place_in_order(self) -> PodPlace:
        return self.intent.place(self.node.key.name, self.options, self.order(), self.identities)

    @property
    def has_foreign_metadata(self) -> bool:
        """Whether the ConfigMap with the name of the node's metadata is that of another Skyhook or node."""
        return self.metadata is not None and not self.metadata.is_of(self.intent.skyhook, self.node.key.name)

    def tell_node(self, reason: str, note: str, *, warning: bool = False) -> Tell:
        return event(self.node.key, reason, note, warning=warning)

    def tell_skyhook(self, reason: str, note: str) -> Tell:
        return event(self.intent.owner, reason, note)
