"""Turns what surfaces wish of cordons into edits: only the kernel writes a cordon and its ledger (K21, decision 0166)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core import claimants, cordon
from haulout.core.action import Action, Annotate, Cordon, KeepCordoned, Patch, Release, Step
from haulout.core.decision import Decision
from haulout.core.holds import is_wanted_by

_WISHES = (KeepCordoned, Release)


class BareCordon(Exception):
    """An error: a decision cordons a node by itself, or without a claim on it. The node would stay cordoned for ever."""


class Cordons:
    """Makes the edits of the wishes in a decision.

    `keeps_ledger`: surfaces share nodes, so that each cordon has a ledger and needs a claim.
    """

    def __init__(self, *, keeps_ledger: bool) -> None:
        self._keeps_ledger = keeps_ledger

    def resolve(self, decision: Decision, view: View) -> Decision:
        """Return the decision with edits in the place of its wishes. Raise BareCordon for what it may not do.

        `view` subscribes the decision to the claims of others: they may keep a node that it releases.
        """
        if not _concerns_cordons(decision.actions):
            return decision
        if self._keeps_ledger and not all(_is_claimed(wish, decision, view) for wish in _kept(decision)):
            # The claim is made by another decision, and after a start it may not be known yet. This one runs again then.
            return msgspec.structs.replace(decision, actions=())
        steps = (self._step(step, view) for step in decision.actions)
        return msgspec.structs.replace(decision, actions=tuple(step for step in steps if step))

    def _step(self, step: Step, view: View) -> Step:
        actions: list[Action] = []
        for action in step:
            if isinstance(action, Cordon | Annotate | Patch) and cordon.is_reserved(action):
                raise BareCordon(f"{action.target}: a decision cordons a node by KeepCordoned and Release only")
            if not isinstance(action, KeepCordoned | Release):
                actions.append(action)
                continue
            node = view.get(action.target, NodeRow)
            if node is None:
                continue
            edits = cordon.edits_of(action, node, view, keeps_ledger=self._keeps_ledger)
            # An edit that the surface makes itself in this step comes first.
            fresh = [edit for edit in edits if edit not in step]
            if action.outcome:
                fresh = [msgspec.structs.replace(edit, outcome=action.outcome) for edit in fresh]
            actions += fresh
        return tuple(actions)


def _concerns_cordons(steps: Iterable[Step]) -> bool:
    """Whether a decision wishes something of a cordon, or writes what only the kernel may. Most decisions do neither."""
    for step in steps:
        for action in step:
            if isinstance(action, _WISHES) or cordon.is_reserved(action):
                return True
    return False


def _kept(decision: Decision) -> Iterator[KeepCordoned]:
    """Yield the wishes of a decision to keep nodes cordoned."""
    for step in decision.actions:
        for action in step:
            if isinstance(action, KeepCordoned):
                yield action


def _is_claimed(wish: KeepCordoned, decision: Decision, view: View) -> bool:
    """Whether the surface claims the node. Raise BareCordon if it does not and all claims are known."""
    if any(claim.node == wish.target and claim.disrupts for claim in decision.claims):
        return True
    if is_wanted_by(view, wish.target, wish.surface):
        return True
    if claimants.are_known_to(view, wish.target.cluster):
        raise BareCordon(f"{wish.target}: {wish.surface} cordons a node without a claim to cordon it")
    return False
