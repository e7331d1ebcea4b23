"""K22: while a node or what works on it is paused, no action that disrupts it is sent, of any surface (decision 0179).

Each decision passes here twice: when its actions are carried out, which subscribes it to the pauses of its nodes, and
just before each of its writes is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import PodRow
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import View, holds_table
from haulout.core.action import Action, Send, Step
from haulout.core.budgets.rule import NAME as BUDGETS
from haulout.core.decision import Decider, Decision
from haulout.core.disruption import NODE, Disruptions
from haulout.core.holds import Claim
from haulout.core.pause import BUDGET, Pause, pause_of_all, pause_of_node, pause_of_object, reason_of
from haulout.kernel.jobs import Job
from haulout.kernel.rooms import Subject


class Pauses:
    """Holds disruptive actions back.

    `is_obeyed`: there are pauses. A surface that is served alone, as its original, knows none.
    """

    def __init__(
        self, deciders: Iterable[Decider] = (), records: Iterable[str] = (), *, is_obeyed: bool = False
    ) -> None:
        self.is_obeyed = is_obeyed
        self._disruptions = Disruptions(records)
        self._deciders: dict[str, Decider] = {}
        self._deciders_of: dict[str, list[Decider]] = {}
        for decider in deciders:
            self._deciders[decider.name] = decider
            self._deciders_of.setdefault(decider.kind, []).append(decider)

    def resolve(self, decision: Decision, subject: Subject, view: View, store: Store) -> Decision:
        """Return the decision without the actions that a pause holds back.

        It is as if the API server had refused them: the other edits of the same object and the later steps are withheld,
        the other actions of the same step are not.
        """
        if not self.is_obeyed or not any(self._disrupting(decision.actions, subject)):
            return decision
        _require_budgets(view)
        touched = self._touched(subject, decision.claims, store)
        kept: list[Step] = []
        found: Pause | None = None
        for step in decision.actions:
            held = {}
            for action in self._disrupting((step,), subject):
                pause = _pause(_nodes_of(action, touched, store), view)
                if pause is not None:
                    held[_write_of(action)] = found = pause
            if not held:
                kept.append(step)
                continue
            if rest := tuple(action for action in step if _is_write(action) and _write_of(action) not in held):
                kept.append(rest)
            break
        if found is None:
            return decision
        reasons = (reason_of(found, subject.key), *decision.reasons) if view.explaining else decision.reasons
        return msgspec.structs.replace(decision, actions=tuple(kept), reasons=reasons)

    def holds_back(self, subject: Subject, job: Job, claims: Sequence[Claim], store: Store) -> bool:
        """Whether a write must not be sent now."""
        return self._holds_back(subject, (*job.edits, job.other) if job.other else job.edits, claims, store)

    def holds_message_back(self, subject: Subject, message: Send, claims: Sequence[Claim], store: Store) -> bool:
        """Whether a message must not be sent now."""
        return self._holds_back(subject, (message,), claims, store)

    def explain(self, decision: Decision, subject: Subject, view: View, store: Store) -> Decision:
        """Return the decision with the pause of the work that has begun as its first reason."""
        if not self.is_obeyed or not any(claim.begun for claim in decision.claims):
            return decision
        pause = _pause(self._touched(subject, decision.claims, store), view)
        if pause is None:
            return decision
        return msgspec.structs.replace(decision, reasons=(reason_of(pause, subject.key), *decision.reasons))

    def _holds_back(self, subject: Subject, actions: Sequence[Action], claims: Sequence[Claim], store: Store) -> bool:
        if not self.is_obeyed:
            return False
        disrupting = list(self._disrupting((tuple(actions),), subject))
        if not disrupting:
            return False
        view, touched = View(store), self._touched(subject, claims, store)
        return any(_pause(_nodes_of(action, touched, store), view) is not None for action in disrupting)

    def _disrupting(self, steps: Iterable[Step], subject: Subject) -> Iterator[Action]:
        for step in steps:
            for action in step:
                if self._disruptions.disrupts(action, subject.key):
                    yield action

    def _touched(self, subject: Subject, claims: Iterable[Claim], store: Store) -> frozenset[Key]:
        """Return the Nodes that a decision works on, its own object, and other objects whose pause it obeys."""
        decider, key = self._deciders[subject.decider], subject.key
        found = {key, *(claim.node for claim in claims)}
        if decider.touches is not None:
            found.update(decider.touches(key, store))
        else:
            for each in self._deciders_of[key.kind]:
                found.update(each.nodes(key, store))
        return frozenset(found)


def _require_budgets(view: View) -> None:
    """Put the decision off until it is known what budgets pause. Unreadable ones pause nothing new (K19)."""
    for table in (BUDGET, holds_table(BUDGETS)):
        if view.listing(table) is Listing.WAITING:
            view.require(table)


def _nodes_of(action: Action, touched: frozenset[Key], store: Store) -> frozenset[Key]:
    """Return what an action is about: its Node, or the Node of its pod, or all that the decision touches."""
    target = getattr(action, "target", None)
    if not isinstance(target, Key):
        return touched
    if target.kind == NODE:
        # Of the others, only the object that the decision is about matters: it may be paused itself.
        return frozenset({target, *(key for key in touched if key.kind != NODE)})
    pod = store.row(target)
    if isinstance(pod, PodRow) and pod.node:
        return touched | {Key(target.cluster, NODE, "", pod.node)}
    return touched


def _pause(keys: Iterable[Key], view: View) -> Pause | None:
    """Return the first pause of these Nodes and other objects. What concerns no known Node is paused with all."""
    for key in sorted(keys):
        pause = pause_of_node(key, view) if key.kind == NODE else pause_of_object(key, view)
        if pause is not None:
            return pause
    return pause_of_all(view)


def _is_write(action: Action) -> bool:
    return hasattr(action, "target")


def _write_of(action: Action) -> object:
    """Return a value that is equal for actions that are sent in one request."""
    if not hasattr(action, "target"):
        return action.outcome if isinstance(action, Send) else action
    return action.target, getattr(action, "subresource", ""), getattr(action, "uid", "")
