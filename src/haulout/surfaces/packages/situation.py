"""One Skyhook on one node: what is decided upon, and what is to be done."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.core.action import Tell
from haulout.surfaces.packages.node_state import NodeState
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.plan import PlanRow
from haulout.surfaces.packages.pod_rows import PackagePodRow, pod_key
from haulout.surfaces.packages.pods import Place
from haulout.surfaces.packages.wire import REPORTER, Package


class Scene(msgspec.Struct, frozen=True):
    """What is known of one Skyhook on one node.

    `pods`: its pods on the node; `all_pods`: those of every Skyhook there. `order`: its place in the rollout, asked only
    where a pod is made: it changes whenever another node ends. `may_run`: the node is ready and eligible. `gate`: whether
    the node is cordoned and empty, asked only where an interrupt follows.
    """

    plan: PlanRow
    node: NodeRow
    options: Options
    now: datetime
    pods: tuple[PackagePodRow, ...] = ()
    all_pods: tuple[PackagePodRow, ...] = ()
    is_picked: bool = False
    order: Callable[[], int | None] = lambda: None
    may_run: bool = False
    gate: Callable[[Package], bool] = lambda package: True

    @property
    def place(self) -> Place:
        return self.plan.place(self.node.key.name, self.options)

    @property
    def place_in_order(self) -> Place:
        return self.plan.place(self.node.key.name, self.options, self.order())

    def tell_node(self, reason: str, note: str, *, warning: bool = False) -> Tell:
        return told(self.node.key, reason, note, warning=warning)

    def tell_skyhook(self, reason: str, note: str) -> Tell:
        return told(self.plan.owner, reason, note)


class NewPod(msgspec.Struct, frozen=True):
    """A pod to be created. `directory`: where its package is copied to, if it is the first of the package's cycle."""

    body: dict[str, Any]
    tells: tuple[Tell, ...] = ()
    directory: str = ""

    @property
    def key(self) -> Key:
        metadata = self.body["metadata"]
        return pod_key(metadata["namespace"], metadata["name"])


class Work(msgspec.Struct, frozen=True):
    """What is to be done for one Skyhook on one node: first the state is stored, then pods are made and deleted."""

    state: NodeState
    tells: tuple[Tell, ...] = ()
    new_pods: tuple[NewPod, ...] = ()
    old_pods: tuple[PackagePodRow, ...] = ()
    until: datetime | None = None


def told(regarding: Key, reason: str, note: str, *, warning: bool = False) -> Tell:
    return Tell(regarding, reason, reason, note, REPORTER, warning=warning, core=True)
