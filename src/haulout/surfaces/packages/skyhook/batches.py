"""The batches of each compartment's rollout: whether one is under way, how it ended, and which nodes may be next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.skyhook.compartments import BatchResult, batch_size, ceiling, evaluate_batch
from haulout.surfaces.packages.wire import BLOCKED, ERRORING, IN_PROGRESS, UNKNOWN, WAITING
from haulout.surfaces.packages.wire_policy import Compartment
from haulout.surfaces.packages.wire_status import FRESH_BATCH, BatchState, CompartmentStatus

# The order in which nodes are picked, by status. A node that has failed is picked last.
ORDER = (WAITING, UNKNOWN, BLOCKED, ERRORING)


class CompartmentBatch(msgspec.Struct, frozen=True):
    """One compartment with its nodes, and how many more of them may be picked.

    `members`: all nodes of the compartment.
    `size`: how many nodes may be picked now.
    `candidates`: the nodes that may be picked, in order.
    `is_flying`: nodes of the compartment are being changed.
    `ended`: the members of a batch that has just ended.
    """

    compartment: Compartment
    members: tuple[NodeStanding, ...]
    status: CompartmentStatus
    size: int = 0
    candidates: tuple[NodeStanding, ...] = ()
    is_flying: bool = False
    ended: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.compartment.name


def is_in_flight(node: NodeStanding, picked: Mapping[str, str]) -> bool:
    """Whether a node takes a place in the batch: from its pick until it is complete or has failed."""
    return node.node in picked and not node.is_complete and node.status != ERRORING


def batch_of(
    compartment: Compartment,
    members: Sequence[NodeStanding],
    stored: CompartmentStatus | None,
    picked: Mapping[str, str],
    options: Options,
    *,
    is_rolling: bool,
    is_rollback: bool = False,
) -> CompartmentBatch:
    """Return the batch of a compartment.

    `stored`: the compartment's record in the status. `picked`: when each picked node was picked.
    `is_rolling`: the Skyhook is not complete and may act.
    """
    before = stored or CompartmentStatus()
    state = before.batch_state or FRESH_BATCH
    batch_nodes = before.batch_nodes
    flying = any(is_in_flight(node, picked) for node in members)
    names = {node.node for node in members}
    ended: tuple[str, ...] = ()
    if not flying and batch_nodes:
        result = _result(members, frozenset(batch_nodes))
        ended = batch_nodes if result.succeeded + result.failed else ()
        if is_rolling:
            state = evaluate_batch(state, compartment.strategy, result)
        batch_nodes = ()
    status = _counted(compartment, members, state, tuple(name for name in batch_nodes if name in names))
    if flying or not is_rolling or state.should_stop:
        return CompartmentBatch(compartment, tuple(members), status, is_flying=flying, ended=ended)
    able = [node for node in members if node.is_eligible and not node.is_complete and not _is_picked(node, picked)]
    candidates = sorted(able, key=_turn_back if is_rollback else _turn)
    return CompartmentBatch(
        compartment,
        tuple(members),
        status,
        # A rollback picks failed nodes that are still cordoned. They are out of service already, so they do not reduce
        # the batch.
        size=_size(compartment, members, state, options, frozenset(each.node for each in able if is_rollback)),
        candidates=tuple(candidates),
        ended=ended,
    )


def _is_picked(node: NodeStanding, picked: Mapping[str, str]) -> bool:
    """Whether a node is picked or has a void pick.

    It can be picked again once the void pick is removed from the status.
    """
    return node.node in picked or node.has_void_pick


def _result(members: Sequence[NodeStanding], batch: frozenset[str]) -> BatchResult:
    ours = [node for node in members if node.node in batch]
    return BatchResult(
        succeeded=sum(node.is_complete for node in ours),
        failed=sum(_has_failed(node) for node in ours),
        completed_nodes=sum(node.is_complete for node in members),
        failed_nodes=sum(_has_failed(node) for node in members),
        total=len(members),
    )


def _has_failed(node: NodeStanding) -> bool:
    return node.status == ERRORING and not node.is_complete


def _counted(
    compartment: Compartment, members: Sequence[NodeStanding], state: BatchState, batch: tuple[str, ...]
) -> CompartmentStatus:
    matched, completed = len(members), sum(node.is_complete for node in members)
    return CompartmentStatus(
        matched=matched,
        ceiling=ceiling(compartment.budget, matched),
        in_progress=sum(node.status == IN_PROGRESS for node in members),
        completed=completed,
        progress_percent=completed * 100 // matched if matched else 0,
        batch_state=state,
        batch_nodes=batch,
    )


def _size(
    compartment: Compartment,
    members: Sequence[NodeStanding],
    state: BatchState,
    options: Options,
    first: frozenset[str],
) -> int:
    """Return how many nodes may be picked now. Failed nodes that are still cordoned count against the budget.

    `first`: nodes that do not count although they are failed and cordoned, because they are picked before all others.
    """
    total = len(members)
    processed = sum(node.is_complete or _has_failed(node) for node in members)
    most = max(1, ceiling(compartment.budget, total))
    failed = [node for node in members if _has_failed(node) and node.is_cordoned and node.node not in first]
    down = len(failed) if options.budget_counts_erroring else 0
    return max(0, min(batch_size(compartment.strategy, state, total, processed), most - down))


def _turn(node: NodeStanding) -> tuple[int, tuple[datetime, str]]:
    return _place(node.status), node.age


def _turn_back(node: NodeStanding) -> tuple[bool, float, tuple[datetime, str]]:
    """Return the sort key of a rollback: cordoned nodes first, then the nodes that were picked last."""
    changed_at = node.changed_at.timestamp() if node.changed_at is not None else float("-inf")
    return not node.is_cordoned, -changed_at, node.age


def _place(status: str) -> int:
    return ORDER.index(status) if status in ORDER else 0
