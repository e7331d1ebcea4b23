"""How one node stands for one Skyhook: the row by which nodes tell the rollout of themselves."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime

from haulout.base import bounds
from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.cluster.store import Index
from haulout.cluster.view import MARK
from haulout.surfaces.packages.node_state import ERRORING, NO_ENTRIES, UNKNOWN, Entry, NodeState

STANDINGS = "packages-node"


class Standing(Row, frozen=True, kw_only=True):
    """How a node stands for a Skyhook, from what is stored on it.

    `is_ready`: the Skyhooks before this one are complete on it. `is_ignored`, `is_tainted`: why it is not eligible.
    `has_begun`: a pod was made for it, or it is cordoned. `needs_drain`: a package that is to run has an interrupt.
    `is_malformed`: its state cannot be read. `revision`: the revision of the plan that it has taken in; `is_heard`: that is
    the present one. `keeps_boot_id`: its packages' state is gone after a reboot, which is to be recorded.
    `pods`: the packages that have a pod on it. `latest`: when the newest package pod was made, and of what.
    `blocked_by`: why its drain waits, and for which pod. `changed_at`: when it was picked last; known where a rollback may follow.
    `has_void_pick`: it was picked for what has failed on it; for what the Skyhook wants now it has to be picked again.
    `untouched`: the packages whose configuration a rollback restores and that it has never lost. `failures`: which packages fail in which stage, and why.
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
    is_malformed: bool = False
    revision: str = ""
    is_heard: bool = True
    boot_id: str = ""
    keeps_boot_id: bool = False
    pods: frozenset[str] = frozenset()
    latest: tuple[datetime, str] | None = None
    blocked_by: tuple[tuple[str, str], ...] = ()
    changed_at: datetime | None = None
    has_void_pick: bool = False
    untouched: frozenset[str] = frozenset()
    failures: tuple[str, ...] = ()

    @property
    def is_eligible(self) -> bool:
        return self.is_ready and not self.is_ignored and not self.is_tainted and not self.is_malformed

    @property
    def age(self) -> tuple[datetime, str]:
        """Return the order of nodes: the older first, then by name."""
        return self.created_at or bounds.EARLIEST, self.node


def standing_key(skyhook: str, node: str) -> Key:
    return Key("", MARK, STANDINGS, f"{skyhook}/{node}")


def _skyhook_of(row: Row) -> Iterable[Hashable]:
    return (row.skyhook,) if isinstance(row, Standing) else ()


NODES_OF_SKYHOOK = Index("packages-nodes-of-skyhook", MARK, _skyhook_of)


def is_failing(state: NodeState) -> bool:
    return any(_fails(entry) for entry in state.values())


def _fails(entry: Entry) -> bool:
    return entry.state in (ERRORING, UNKNOWN)
