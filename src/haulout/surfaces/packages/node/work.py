"""The results of visits to one node: the work that the entries call for, and what becomes of it in the node's decision."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.core.action import Create, Delete, Patch, Tell
from haulout.core.reason import Reason
from haulout.surfaces.packages.entries.entry import NodeState
from haulout.surfaces.packages.node.status import NodeCondition
from haulout.surfaces.packages.pods.jobs import job_key
from haulout.surfaces.packages.pods.rows import PackagePodRow, pod_key


class NewPod(msgspec.Struct, frozen=True):
    """A pod or Job to be created. `directory`: where it copies its package on the host; empty if it copies none."""

    body: dict[str, Any]
    tells: tuple[Tell, ...] = ()
    directory: str = ""

    @property
    def key(self) -> Key:
        metadata = self.body["metadata"]
        key = job_key if self.body["kind"] == "Job" else pod_key
        return key(metadata["namespace"], metadata["name"])


class VisitWork(msgspec.Struct, frozen=True):
    """The changes that one visit makes to the entries and pods of a node.

    `state`: the entries to store, before pods are created or deleted. `old_pods`: the pods to delete.
    `taken_names`: the names of pods that cannot be created because pods of other Skyhooks or nodes have them.
    """

    state: NodeState
    tells: tuple[Tell, ...] = ()
    new_pods: tuple[NewPod, ...] = ()
    old_pods: tuple[PackagePodRow, ...] = ()
    until: datetime | None = None
    taken_names: tuple[str, ...] = ()


class VisitResult(msgspec.Struct, frozen=True):
    """The result of one Skyhook's visit to one node, apart from the edits that went into the `NodeDraft`.

    `is_at_work`: a pod or Job of the Skyhook is on the node, or its cordon.
    `is_malformed`: the node's entries of the Skyhook cannot be read.
    `old_pods`: pods to delete. `patches`: the writes by which pods and ConfigMaps get another owner, and
    those to Jobs.
    `surplus`: failed pods of Jobs to delete, which others like them outlast.
    `kept_pull`: the key of the pod that pulls images, while it is still needed.
    """

    is_complete: bool = False
    is_at_work: bool = False
    is_malformed: bool = False
    marks: tuple[Row, ...] = ()
    config_maps: tuple[Create | Patch | Delete, ...] = ()
    new_pods: tuple[NewPod, ...] = ()
    old_pods: tuple[PackagePodRow, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    statements: tuple[Tell, ...] = ()
    until: datetime | None = None
    reasons: tuple[Reason, ...] = ()
    kept_pull: Key | None = None
    patches: tuple[Patch, ...] = ()
    surplus: tuple[tuple[Key, str], ...] = ()
