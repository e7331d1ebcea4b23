"""The inputs of the decisions about a Skyhook and about a Skyhook on a node, and the resulting work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.action import Tell
from haulout.surfaces.packages.config_maps import MetadataRow, PackageConfigRow
from haulout.surfaces.packages.node_state import NodeState
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.plan import PlanRow
from haulout.surfaces.packages.pod_rows import PackagePodRow, pod_key
from haulout.surfaces.packages.pods import Place
from haulout.surfaces.packages.standing import Standing
from haulout.surfaces.packages.wire import (
    REPORTER,
    Package,
    SkyhookRow,
)
from haulout.surfaces.packages.wire_policy import PolicyRow


class Scene(msgspec.Struct, frozen=True):
    """The inputs for one Skyhook on one node.

    `pods`: the Skyhook's pods on the node. `all_pods`: those of all Skyhooks there.
    `has_void_pick`: the node was picked for something that failed on it. Nothing changes there until the pick is
    removed.
    `order`: returns the node's number in the order of the rollout. It is called only to create a pod, because the
    number changes whenever another node ends.
    `metadata`: the ConfigMap that has the name of the one with the node's metadata. It may belong to another Skyhook.
    `may_run`: the node is picked and eligible, and the ConfigMap of its metadata is its own.
    `has_pod`: returns whether there is a pod of this key. It is called only to create one, because the pod may belong to
    another node.
    `gate`: returns whether the node is cordoned and drained. It is called only before an interrupt.
    """

    plan: PlanRow
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
    has_pod: Callable[[Key], bool] = lambda key: False
    gate: Callable[[Package], bool] = lambda package: True

    @property
    def place(self) -> Place:
        return self.plan.place(self.node.key.name, self.options)

    @property
    def place_in_order(self) -> Place:
        return self.plan.place(self.node.key.name, self.options, self.order())

    @property
    def has_foreign_metadata(self) -> bool:
        """Whether the ConfigMap with the name of the node's metadata is that of another Skyhook or node."""
        known = self.metadata
        if known is None:
            return False
        return known.skyhook != self.plan.skyhook or known.node not in ("", self.node.key.name)

    def tell_node(self, reason: str, note: str, *, warning: bool = False) -> Tell:
        return event(self.node.key, reason, note, warning=warning)

    def tell_skyhook(self, reason: str, note: str) -> Tell:
        return event(self.plan.owner, reason, note)


class NewPod(msgspec.Struct, frozen=True):
    """A pod to be created. `directory`: where it copies its package on the host; empty if it copies none."""

    body: dict[str, Any]
    tells: tuple[Tell, ...] = ()
    directory: str = ""

    @property
    def key(self) -> Key:
        metadata = self.body["metadata"]
        return pod_key(metadata["namespace"], metadata["name"])


class Work(msgspec.Struct, frozen=True):
    """The changes for one Skyhook on one node.

    `state`: the entries to store, before pods are created or deleted. `old_pods`: the pods to delete.
    `taken_names`: the names of pods that cannot be created because pods of other Skyhooks or nodes have them.
    """

    state: NodeState
    tells: tuple[Tell, ...] = ()
    new_pods: tuple[NewPod, ...] = ()
    old_pods: tuple[PackagePodRow, ...] = ()
    until: datetime | None = None
    taken_names: tuple[str, ...] = ()


def event(regarding: Key, reason: str, note: str, *, warning: bool = False) -> Tell:
    return Tell(regarding, reason, reason, note, REPORTER, warning=warning, core=True)


class Situation(msgspec.Struct, frozen=True):
    """The inputs of one decision about a Skyhook.

    `desired`: the Skyhook with the packages that its nodes should have.
    `nodes`: the standings of its nodes, in order. `named`: the same, by name.
    `policy`: its DeploymentPolicy; None if it names none.
    """

    row: SkyhookRow
    desired: SkyhookRow
    plan: PlanRow
    view: View
    now: datetime
    options: Options
    nodes: tuple[Standing, ...]
    named: dict[str, Standing]
    configs: tuple[PackageConfigRow, ...]
    policy: PolicyRow | None

    @property
    def resets(self) -> bool:
        """Whether the batch states are reset when the Skyhook is complete or a version changes."""
        own = self.row.spec.deployment_policy_options
        if own is not None and own.reset_batch_state_on_completion is not None:
            return own.reset_batch_state_on_completion
        return self.policy.resets if self.policy is not None else False

    @property
    def is_restoring(self) -> bool:
        return self.desired is not self.row
