"""The inputs that all Skyhooks on one node share in a node's decision, and the result for each Skyhook."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.cluster.view import View
from haulout.core.action import Create, Delete, Patch, Tell
from haulout.core.reason import Reason
from haulout.surfaces.packages.node_status import NodeCondition
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pod_rows import PackagePodRow
from haulout.surfaces.packages.situation import NewPod


class Around(msgspec.Struct, frozen=True):
    """The inputs of one node's decision, the same for every Skyhook.

    `pods`: the package pods on the node, in the packages' namespace.
    `foreign`: package pods on the node in other namespaces.
    """

    view: View
    now: datetime
    options: Options
    pods: tuple[PackagePodRow, ...] = ()
    foreign: tuple[PackagePodRow, ...] = ()


class Visit(msgspec.Struct, frozen=True):
    """The result of applying one Skyhook to one node, apart from the edits that went into the `NodeDraft`.

    `has_begun`: the Skyhook has begun on the node.
    `old_pods`: pods to delete.
    `kept_pull`: the key of the pod that pulls images, while it is still needed.
    """

    is_complete: bool = False
    has_begun: bool = False
    marks: tuple[Row, ...] = ()
    config_maps: tuple[Create | Patch | Delete, ...] = ()
    new_pods: tuple[NewPod, ...] = ()
    old_pods: tuple[PackagePodRow, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    statements: tuple[Tell, ...] = ()
    until: datetime | None = None
    reasons: tuple[Reason, ...] = ()
    kept_pull: Key | None = None
