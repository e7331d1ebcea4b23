"""The state of a drain by hand: which pods have gone, which are terminating, and which stay and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, PodRow
from haulout.cluster.store import Store
from haulout.cluster.view import NotListed, View
from haulout.core.action import Refusal
from haulout.core.drain.causes import Cause, causes
from haulout.core.drain.options import Act
from haulout.core.drain.plan import outcome_name
from haulout.core.drain.progress import Causes, PodStanding, Progress, Standing, conclusion, drain_reasons
from haulout.core.reason import Reason
from haulout.surfaces.byhand.decide import Wish

# Codes of refusals after which the same request may succeed: no answer, a time-out, a conflict, too many requests.
PASSING = frozenset({0, 408, 409, 429})


class DrainOutcome(StrEnum):
    """The outcome of a drain by hand, for one node or for all of them."""

    RUNNING = "running"
    DONE = "done"
    BLOCKED = "blocked"
    TIMED_OUT = "timed-out"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


CODES = {
    DrainOutcome.DONE: 0,
    DrainOutcome.BLOCKED: 3,
    DrainOutcome.TIMED_OUT: 4,
    DrainOutcome.FAILED: 1,
    # The exit code of shells for Ctrl-C, which our other commands have, too.
    DrainOutcome.INTERRUPTED: 130,
}
# The outcome of the whole drain is the first of these that a node has.
GRAVITY = (
    DrainOutcome.FAILED,
    DrainOutcome.INTERRUPTED,
    DrainOutcome.RUNNING,
    DrainOutcome.TIMED_OUT,
    DrainOutcome.BLOCKED,
    DrainOutcome.DONE,
)


class NodeState(msgspec.Struct, frozen=True):
    """One node of a drain by hand at one moment. Pods are named as "namespace/name".

    `before`: whether the node was cordoned before the drain. `stuck`: whether no pod can leave without help.
    `departed_pods`: pods that have left. `ending`: those that are terminating. `staying`: those that have to leave yet.
    `ignored`: those that may stay, about which the user is warned.
    `last_grace_ends_at`: when the last grace period ends, if every remaining pod is terminating.
    """

    name: str
    outcome: DrainOutcome = DrainOutcome.RUNNING
    cordoned: bool = False
    before: bool = False
    departed_pods: tuple[str, ...] = ()
    ending: tuple[str, ...] = ()
    staying: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    warnings: str = ""
    error: str = ""
    stuck: bool = False
    last_grace_ends_at: datetime | None = None

    @property
    def total(self) -> int:
        return len(self.departed_pods) + len(self.ending) + len(self.staying)


class DrainState(msgspec.Struct, frozen=True):
    """A drain by hand at one moment, over all its nodes.

    `seconds`: how long it has been running.
    `causes`: why pods have not left yet, causes that block the drain first.
    """

    seconds: float
    nodes: tuple[NodeState, ...]
    causes: tuple[Cause, ...] = ()

    @property
    def outcome(self) -> DrainOutcome:
        found = {node.outcome for node in self.nodes}
        return next((outcome for outcome in GRAVITY if outcome in found), DrainOutcome.DONE)

    @property
    def ended(self) -> bool:
        return all(node.outcome is not DrainOutcome.RUNNING for node in self.nodes)

    @property
    def stuck(self) -> bool:
        return all(node.stuck or node.outcome is not DrainOutcome.RUNNING for node in self.nodes)

    def ended_as(self, outcome: DrainOutcome) -> DrainState:
        """Return this state with the given outcome for every node that is still being drained."""
        nodes = tuple(
            msgspec.structs.replace(node, outcome=outcome) if node.outcome is DrainOutcome.RUNNING else node
            for node in self.nodes
        )
        return msgspec.structs.replace(self, nodes=nodes)


class Tracker:
    """Follows a drain by hand in the store, and returns its state at any moment.

    It remembers the pods that it has seen, to know which have gone.
    `before`: for each node, whether it was cordoned before the drain.
    `refusals`: for nodes that the server refuses to cordon, its message.
    """

    def __init__(self, wish: Wish, store: Store, before: Mapping[str, bool], refusals: Mapping[str, str]) -> None:
        self._wish = wish
        self._store = store
        self._before = before
        self._refusals = refusals
        self._seen: dict[str, dict[str, Key]] = {node: {} for node in wish.nodes}

    def look(self, now: datetime) -> DrainState | None:
        """Return the state of the drain; None if a kind that it reads is not listed."""
        view = View(self._store, explaining=True)
        trees: list[Reason] = []
        nodes: list[NodeState] = []
        budgets: Causes = {}
        try:
            for name in self._wish.nodes:
                drain = self._wish.drain(name)
                state = conclusion(view, drain, now)
                node = self._node(view, name, state, now)
                nodes.append(node)
                if node.outcome is not DrainOutcome.DONE:
                    trees += drain_reasons(view, drain, state, now, budgets)
        except NotListed:
            return None
        return DrainState((now - self._wish.since).total_seconds(), tuple(nodes), causes(trees))

    def _node(self, view: View, name: str, state: Progress, now: datetime) -> NodeState:
        row = view.get(node_key(name), NodeRow)
        seen = self._seen[name]
        here = {each.pod.uid for each in state.pods}
        seen.update({each.pod.uid: each.pod.key for each in state.pods})
        outcome, error = self._outcome(view, name, row, state)
        return NodeState(
            name=name,
            outcome=outcome,
            error=error,
            cordoned=row is not None and row.unschedulable,
            before=self._before.get(name, False),
            departed_pods=tuple(_named(key) for uid, key in seen.items() if uid not in here),
            ending=tuple(_named(each.pod.key) for each in state.pods if each.pod.deleting_at is not None),
            staying=tuple(
                _named(pod.key)
                for pod, fate in state.selection.pods
                if fate.error or (fate.awaited and pod.deleting_at is None)
            ),
            ignored=tuple(
                _named(pod.key) for pod, fate in state.selection.pods if fate.act is Act.IGNORE and fate.warning
            ),
            warnings=state.selection.warnings,
            stuck=bool(state.pods) and all(_is_stuck(each, now) for each in state.pods),
            last_grace_ends_at=state.ends_at,
        )

    def _outcome(self, view: View, name: str, row: NodeRow | None, state: Progress) -> tuple[DrainOutcome, str]:
        if name in self._refusals:
            return DrainOutcome.FAILED, self._refusals[name]
        if row is None:
            return DrainOutcome.FAILED, "the node is not there any more"
        if not row.unschedulable:
            return DrainOutcome.RUNNING, ""
        if state.errors:
            return DrainOutcome.BLOCKED, state.errors
        if state.done:
            return DrainOutcome.DONE, ""
        if state.cleared:
            refusal = state.proof.value if state.proof is not None else None
            return (DrainOutcome.FAILED, state.proof_error) if _is_final(refusal) else (DrainOutcome.RUNNING, "")
        if not all(_is_refused(view, each) for each in state.pods):
            return DrainOutcome.RUNNING, ""
        errors = dict.fromkeys(each.error for each in state.pods if each.standing is Standing.FAILED)
        return (DrainOutcome.FAILED, "; ".join(errors)) if errors else (DrainOutcome.BLOCKED, state.pods[0].message)


def _is_refused(view: View, each: PodStanding) -> bool:
    """Whether the server's answer to an eviction means that repeating it does not help."""
    if not each.error:
        return False
    if each.standing is Standing.SEVERAL_BUDGETS:
        return True
    outcome = view.outcome(outcome_name(each.pod.key, each.pod.uid))
    return _is_final(outcome.value if outcome is not None else None)


def _is_final(refusal: object) -> bool:
    return isinstance(refusal, Refusal) and refusal.code < 500 and refusal.code not in PASSING


def _is_stuck(each: PodStanding, now: datetime) -> bool:
    pod: PodRow = each.pod
    if pod.deleting_at is not None:
        return bool(pod.finalizers) and now >= pod.deleting_at
    return each.blocked


def _named(key: Key) -> str:
    return f"{key.namespace}/{key.name}"
