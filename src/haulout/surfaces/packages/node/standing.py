"""The standing of one node for one Skyhook: the row that a node's decision makes for the Skyhook's decision."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime

from haulout.base import bounds
from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.cluster.store import Index
from haulout.cluster.view import MARK
from haulout.surfaces.packages.entries.entry import ERRORING, NO_ENTRIES, UNKNOWN, NodeState, PackageEntry

STANDINGS = "packages-node"


class NodeStanding(Row, frozen=True, kw_only=True):
    """The standing of one node for one Skyhook, from what is stored on the node.

    `status`: the status that counts for budgets. `state`: the entries of the packages.
    `is_ready`: the Skyhooks before this one are complete on the node.
    `is_ignored`, `is_tainted`: why the node is not eligible.
    `has_begun`: a pod was created for the Skyhook on the node, or the node is cordoned for it.
    `needs_drain`: a package that is to run has an interrupt.
    `has_annotation`: the node has the annotation with the entries, perhaps without any.
    `is_malformed`: that annotation cannot be read.
    `revision`: the revision of the intent that the node's decision has seen. `is_heard`: that is the current one.
    `keeps_boot_id`: the node was rebooted; its new boot id is recorded only after its entries are removed.
    `pods`: the packages that have a pod on the node. `latest`: when the newest package pod was created, and for which
    package.
    `blocked_by`: why the drain waits, and for which pods. `drain_blocks`: what keeps the drain itself from going on.
    `changed_at`: when the node was last picked; None unless a rollback may follow.
    `has_void_pick`: the node was picked for something that failed on it, and has to be picked again.
    `untouched`: the packages whose configuration a rollback restores and which still have it.
    `failures`: which packages fail in which stage, and why.
    `refusals`: what may not run on the node, as reason codes and texts.
    """

    skyhook: str
    node: str
    created_at: datetime | None = None
    labels: Mapping[str, str] = {}
    status: str = ""
    state: NodeState = NO_ENTRIES
    is_complete: bool = False
    is_ready: bool = False
    is_ignored: bool = False
    is_tainted: bool = False
    has_begun: bool = False
    is_cordoned: bool = False
    needs_drain: bool = False
    has_annotation: bool = False
    is_malformed: bool = False
    revision: str = ""
    is_heard: bool = True
    boot_id: str = ""
    keeps_boot_id: bool = False
    pods: frozenset[str] = frozenset()
    latest: tuple[datetime, str] | None = None
    blocked_by: tuple[tuple[str, str], ...] = ()
    drain_blocks: tuple[tuple[str, str], ...] = ()
    changed_at: datetime | None = None
    has_void_pick: bool = False
    untouched: frozenset[str] = frozenset()
    failures: tuple[str, ...] = ()
    refusals: tuple[tuple[str, str], ...] = ()

    @property
    def is_eligible(self) -> bool:
        return self.is_ready and not self.is_ignored and not self.is_tainted and not self.is_malformed

    @property
    def age(self) -> tuple[datetime, str]:
        """The sort key of nodes: older ones first, then by name."""
        return self.created_at or bounds.EARLIEST, self.node


def standing_key(skyhook: str, node: str) -> Key:
    return Key("", MARK, STANDINGS, f"{skyhook}/{node}")


def _skyhook_of(row: Row) -> Iterable[Hashable]:
    return (row.skyhook,) if isinstance(row, NodeStanding) else ()


NODES_OF_SKYHOOK = Index("packages-nodes-of-skyhook", MARK, _skyhook_of)


def is_failing(state: NodeState) -> bool:
    return any(_fails(entry) for entry in state.values())


def _fails(entry: PackageEntry) -> bool:
    return entry.state in (ERRORING, UNKNOWN)
