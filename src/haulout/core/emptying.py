"""Empties a node, then acts on the host or server under it: cordon, drain, and a message that is sent again at a pace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.project import Keep
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import View
from haulout.core import cordon
from haulout.core.action import Action, KeepCordoned, NodeEdit, Say, Send
from haulout.core.decision import Decision, Source
from haulout.core.drain.options import (
    CLUSTER_API_NODE,
    POD_ANNOTATION,
    DrainOptions,
    DrainRow,
    PodRules,
    drain_row,
)
from haulout.core.drain.progress import conclusion, drain_reasons
from haulout.core.holds import LONG_AGO, PRIORITY_ANNOTATION, Claim, Want, node_priority
from haulout.core.reason import Reason

# The annotations that are kept of nodes: the cordon ledger, the priority of work, and those that Cluster API's drain
# label needs.
NODE_ANNOTATIONS = frozenset({cordon.ANNOTATION, PRIORITY_ANNOTATION}) | CLUSTER_API_NODE

Act = Callable[[], tuple[tuple[Action, ...], datetime | None]]


def sources(*annotations: str) -> frozenset[Source]:
    """Return the sources of a surface that empties nodes. `annotations`: its own annotations on nodes."""
    return frozenset(
        {
            Source("", "Node", Keep(NODE_ANNOTATIONS | {*annotations})),
            Source("", "Pod", Keep(frozenset({POD_ANNOTATION}))),
            Source("", "PodDisruptionBudget"),
        }
    )


class Emptying(msgspec.Struct, frozen=True):
    """A node that a surface empties before it acts on the host or server under it.

    `is_visible`: the surface's own labels or annotations on the node show its claim, so that the ledger need not name
    the surface.
    """

    surface: str
    reporter: str
    node: NodeRow
    drain: DrainOptions
    rules: PodRules = PodRules()
    is_visible: bool = False

    def drain_row(self) -> DrainRow:
        """Return the row that asks the drain engine to drain the node."""
        return drain_row(
            self.surface,
            self.node.key,
            self.node.key,
            options=self.drain,
            rules=self.rules,
            since=self.node.created_at or LONG_AGO,
            reporter=self.reporter,
        )


class Repeated(msgspec.Struct, frozen=True):
    """A message that is sent again every `pace_for`, for as long as the decision wants what it asks for.

    `name`: the name of its outcome row. `disrupts`: it takes the host or server out of service.
    """

    name: str
    channel: str
    message: object
    pace_for: timedelta
    disrupts: bool = True

    def send(
        self, view: View, now: datetime, failed: Callable[[str], Say]
    ) -> tuple[tuple[Action, ...], datetime | None]:
        """Return the message if it is due, and otherwise the instant when it is.

        `failed` makes a log line of an error.
        """
        outcome = view.outcome(self.name)
        logged: tuple[Action, ...] = ()
        if outcome is not None and outcome.state == "failed":
            logged = (failed(outcome.error),)
        match outcome:
            case Value(state="pending"):
                return (), None
            case Value(value=datetime() as at) if now < at + self.pace_for:
                return logged, at + self.pace_for
        return (*logged, Send(self.name, self.channel, self.message, disrupts=self.disrupts)), None


def node_claim(node: NodeRow, *, begun: bool, slot: str) -> Claim:
    """Return the claim to have a node alone, cordoned and drained.

    The claim is as old as the node, because the labels that ask for it do not say when they were set.
    """
    return Claim(
        node=node.key,
        owner=node.key,
        wants=frozenset({Want.CORDON, Want.DRAIN, Want.EXCLUSIVE}),
        since=node.created_at or LONG_AGO,
        priority=node_priority(node),
        begun=begun,
        slot=slot,
    )


def empty_then_act(
    emptying: Emptying,
    view: View,
    now: datetime,
    *,
    claim: Claim,
    edits: tuple[NodeEdit, ...],
    act: Act,
    reason: Callable[[tuple[Reason, ...]], Reason],
) -> Decision:
    """Cordon and drain the node; once it is proven empty and the claim has begun, run `act`.

    If another client undoes one of these, it is done again. `reason` makes the reason, given what is waited for.
    """
    drain = emptying.drain_row()
    state = conclusion(view, drain, now)
    keep = KeepCordoned(emptying.node.key, emptying.surface, is_visible=emptying.is_visible)
    step: tuple[Action, ...] = (*edits, keep)
    until: datetime | None = None
    if state.done and emptying.node.unschedulable and claim.begun:
        more, until = act()
        step += more
    return Decision(
        actions=(step,),
        claims=(claim,),
        marks=() if state.done else (drain,),
        until=until,
        reasons=(reason(drain_reasons(view, drain, state, now)),) if view.explaining else (),
    )
