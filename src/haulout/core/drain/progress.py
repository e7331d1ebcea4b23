"""How far a drain is: which pods are still there, and what each of them waits for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property, partial

import msgspec

from haulout.base.selector import SelectorError, from_object
from haulout.cluster.indexes import PODS_OF_NAMESPACE, PODS_OF_NODE
from haulout.cluster.key import Key
from haulout.cluster.rows import BudgetRow, NodeRow, PodRow, Value
from haulout.cluster.view import FAILED, PROVEN, View
from haulout.core.action import Refusal
from haulout.core.drain import advice
from haulout.core.drain.options import Act, DrainRow
from haulout.core.drain.pace import PERMITS_OF_POD, Permit
from haulout.core.drain.plan import outcome_name, selection_of
from haulout.core.drain.proof import proof_key
from haulout.core.drain.selection import Fate, Selection, changes_at
from haulout.core.reason import Reason
from haulout.model.meta import wire_time

# The library of `kubectl drain` doubles these words, and the status of a NodeMaintenance repeats that.
DOUBLED = "cannot delete cannot delete "
MOST_SHOWN = 5


class Standing(StrEnum):
    """Why a pod is still on its node, in the words that conditions and the console use."""

    EVICTING = "Evicting"
    TERMINATING = "Terminating"
    BUDGET = "DisruptionBudget"
    SEVERAL_BUDGETS = "MultipleDisruptionBudgets"
    NAMESPACE = "NamespaceTerminating"
    WAITING = "Waiting"
    HELD = "Held"
    FAILED = "Error"


class PodStanding(msgspec.Struct, frozen=True):
    """One pod that a drain waits for, and why it is still on its node.

    `error`: the server's message where it refused the eviction for another reason than a budget. Only another try
    helps.
    `refused_at`: when that was.
    """

    pod: PodRow
    standing: Standing
    message: str = ""
    since: datetime | None = None
    budgets: tuple[Key, ...] = ()
    error: str = ""
    refused_at: datetime | None = None

    @property
    def blocked(self) -> bool:
        return self.standing not in (Standing.EVICTING, Standing.TERMINATING)


class Progress(msgspec.Struct, frozen=True, dict=True):
    """The progress of the drain of one node.

    `errors`: why the drain cannot begin at all.
    `standing_of`: returns why a pod is still on the node.
    `changes_at`: when time alone changes for how long a pod is waited for.
    `proof`: whether the node has been proven empty. None: that was not asked, because a pod still has to go or the node
    is not cordoned.
    """

    selection: Selection
    standing_of: Callable[[PodRow, Fate], PodStanding]
    changes_at: datetime | None = None
    proof: Value | None = None

    @cached_property
    def pods(self) -> tuple[PodStanding, ...]:
        """The pods that still have to go, in the order of the server's lists.

        Reading them subscribes the decision to the budgets' answer about every single pod: with 30 pods under 30
        budgets, the decision runs 30 more times. So a decision reads them only when it reports them.
        """
        return tuple([self.standing_of(pod, fate) for pod, fate in self._remaining])

    @property
    def _remaining(self) -> list[tuple[PodRow, Fate]]:
        return [each for each in self.selection.pods if each[1].act is not Act.IGNORE and not each[1].error]

    @property
    def errors(self) -> str:
        return self.selection.errors

    @property
    def cleared(self) -> bool:
        """Whether our rows show no pod that is waited for.

        The rows may be out of date, so nothing final may follow from it.
        """
        return self.selection.is_clear

    @property
    def done(self) -> bool:
        """Whether the node has been proven empty (K18). Only the result of `conclusion` or `conclude` can say so."""
        return self.cleared and self.proof is not None and self.proof.state == PROVEN

    @property
    def proving(self) -> bool:
        """Whether the drain waits only for the list that proves the node empty."""
        return self.cleared and self.proof is not None and self.proof.state not in (PROVEN, FAILED)

    @property
    def proof_error(self) -> str:
        """Why the node cannot be proven empty; the list is tried again. Empty: there was no error."""
        failed = self.cleared and self.proof is not None and self.proof.state == FAILED
        return f"its pods cannot be listed: {self.proof.error}" if failed and self.proof is not None else ""

    @property
    def failed(self) -> bool:
        """Whether the evictions of all remaining pods have been refused: nothing happens until the next try."""
        remaining = self._remaining
        for pod, fate in remaining:
            # The eviction of a pod that is terminating was not refused.
            if pod.deleting_at is not None or not self.standing_of(pod, fate).error:
                return False
        return bool(remaining)

    @cached_property
    def ends_at(self) -> datetime | None:
        """Return when the last grace period ends; None unless every pod that is waited for is terminating.

        A pod with finalizers may stay for longer.
        """
        if self.errors or any(each.standing is not Standing.TERMINATING for each in self.pods):
            return None
        return max((each.pod.deleting_at for each in self.pods if each.pod.deleting_at), default=None)


def progress(view: View, drain: DrainRow, now: datetime) -> Progress:
    """Return the progress of a drain as our rows show it. It is never `done`."""
    node = view.get(drain.node, NodeRow)
    pods = view.rows(PODS_OF_NODE, drain.node.name, PodRow, drain.node.cluster)
    selection = selection_of(view, drain, pods, node, now)
    return Progress(selection, partial(_standing, view), changes_at(pods, drain.options, now, node))


def conclusion(view: View, drain: DrainRow, now: datetime) -> Progress:
    """Return the progress of a drain. It is `done` once the node is proven empty.

    When no pod is left to wait for and the cordon is stored, it asks for the proof, which costs one list of the node's
    pods. Every decision that cannot be undone is made on this proof alone.
    """
    state = progress(view, drain, now)
    node = view.get(drain.node, NodeRow)
    if not state.cleared or node is None or not node.unschedulable:
        return state
    key = proof_key(drain, node)
    return msgspec.structs.replace(state, proof=view.proof(key) or Value(key=key))


def conclude(state: Progress, drain: DrainRow) -> Progress:
    """Return the progress as done, for a drain whose end is stored already.

    As long as no pod shows up, the node is not proven empty again.
    """
    return msgspec.structs.replace(state, proof=Value(key=drain.key, state=PROVEN))


def _standing(view: View, pod: PodRow, fate: Fate) -> PodStanding:
    if pod.deleting_at is not None:
        return PodStanding(pod, Standing.TERMINATING, _terminating(pod), _asked_at(pod))
    match fate.act:
        case Act.WAIT:
            return PodStanding(pod, Standing.WAITING, "it is waited for, not evicted")
        case Act.BLOCK:
            return PodStanding(
                pod, Standing.HELD, f"{fate.decided_by or 'a setting of the drain'} keeps it on its node"
            )
    outcome = view.outcome(outcome_name(pod.key, pod.uid))
    refusal = outcome.value if outcome is not None and isinstance(outcome.value, Refusal) else None
    permits = view.rows(PERMITS_OF_POD, pod.key, Permit, pod.key.cluster)
    budgets = tuple(permit.budget for permit in permits)
    final = refusal if refusal is not None and not refusal.by_budget else None
    error, refused_at = (final.message, final.at) if final is not None else ("", None)
    if len(permits) > 1:
        text = several_text(budgets)
        return PodStanding(pod, Standing.SEVERAL_BUDGETS, text, _since(permits), budgets, error, refused_at)
    if final is not None and final.cause == "NamespaceTerminating":
        return PodStanding(pod, Standing.NAMESPACE, final.message, final.at)
    if permits and not permits[0].granted:
        return PodStanding(pod, Standing.BUDGET, closed_text(budgets[0]), _since(permits), budgets)
    if refusal is not None:
        standing = Standing.FAILED if final is not None else Standing.BUDGET
        return PodStanding(pod, standing, refusal.message, refusal.at, budgets, error, refused_at)
    return PodStanding(pod, Standing.EVICTING)


def several_text(budgets: Sequence[Key]) -> str:
    return f"covered by several budgets: {', '.join(budget.name for budget in budgets)}"


def closed_text(budget: Key) -> str:
    return f"PodDisruptionBudget {budget.namespace}/{budget.name} allows no disruption now"


def _since(permits: list[Permit]) -> datetime:
    return min(permit.waiting_since for permit in permits)


def _asked_at(pod: PodRow) -> datetime | None:
    if pod.deleting_at is None:
        return None
    # The server cuts a grace of many years short. The pod was asked to end no sooner than it was created.
    asked_at = pod.deleting_at - timedelta(seconds=pod.deletion_grace_for or 0)
    return max(asked_at, pod.created_at or asked_at)


def _terminating(pod: PodRow) -> str:
    if pod.finalizers:
        return f"terminating; it waits for its finalizers: {', '.join(pod.finalizers)}"
    assert pod.deleting_at is not None
    return f"terminating; its grace period ends {wire_time(pod.deleting_at)}"


def reasons(view: View, drain: DrainRow, now: datetime) -> tuple[Reason, ...]:
    """Return why a drain waits, down to the budget and the replica that keeps it closed, each with advice."""
    return drain_reasons(view, drain, conclusion(view, drain, now), now)


Causes = dict[Key, tuple[Reason, ...]]


def drain_reasons(
    view: View, drain: DrainRow, state: Progress, now: datetime, known: Causes | None = None
) -> tuple[Reason, ...]:
    """Return why a drain in this state waits: one reason tree for each pod, and for what else keeps it.

    `known`: reasons of budgets found at this instant. Many pods wait for one budget, so these are found once.
    """
    budgets = known if known is not None else {}
    for key in {key for each in state.pods for key in each.budgets if key not in budgets}:
        budgets[key] = _budget_causes(view, key)
    trees = [_pod_reason(each, budgets, now) for each in state.pods]
    if state.errors:
        refused = [(pod, fate.error) for pod, fate in state.selection.pods if fate.error]
        trees.insert(
            0,
            Reason(
                "drain-refused", drain.node, state.errors.replace(DOUBLED, "cannot delete "), act=advice.allow(refused)
            ),
        )
    if state.cleared and state.proof is not None and not state.done:
        trees.append(_unproven(drain.node, state))
    return tuple(trees)


def _unproven(node: Key, state: Progress) -> Reason:
    if not state.proof_error:
        text = f"node {node.name}: listing its pods once more to make sure that none is left"
        return Reason("proving-empty", node, text)
    refusal = state.proof.value if state.proof is not None else None
    denied = isinstance(refusal, Refusal) and refusal.code in (401, 403)
    text = f"node {node.name}: it is unknown whether it is empty, {state.proof_error}"
    return Reason("proof-failed", node, text, act=advice.prove(node.name, denied=denied))


def _pod_reason(each: PodStanding, budgets: Mapping[Key, tuple[Reason, ...]], now: datetime) -> Reason:
    place = _named(each.pod)
    match each.standing:
        case Standing.BUDGET | Standing.SEVERAL_BUDGETS:
            if each.standing is Standing.SEVERAL_BUDGETS:
                act = advice.separate(each.pod, each.budgets)
                return Reason("pdbs-overlap", each.pod.key, f"{place}: {each.message}", act=act)
            causes = tuple(cause for budget in each.budgets for cause in budgets[budget])
            return Reason("pdb-blocks", each.pod.key, f"{place}: {each.message}", because=causes)
        case Standing.TERMINATING:
            code = "finalizer" if each.pod.finalizers else "terminating"
            until = each.pod.deleting_at if each.pod.deleting_at and each.pod.deleting_at > now else None
            text = each.message if each.pod.finalizers else _ending(until, each.pod)
            return Reason(code, each.pod.key, f"{place}: {text}", until, act=advice.end(each.pod, now))
        case Standing.EVICTING:
            return Reason("evicting", each.pod.key, f"{place}: is being evicted")
        case _:
            act = advice.other(each.standing, each.pod)
            return Reason(each.standing.lower(), each.pod.key, f"{place}: {each.message}", act=act)


def _ending(until: datetime | None, pod: PodRow) -> str:
    """Return the text about a terminating pod. It leaves out the end of the grace period where `until` says it."""
    if until is not None or pod.deleting_at is None:
        return "terminating within its grace period"
    return f"terminating; its grace period ended {wire_time(pod.deleting_at)}"


def _budget_causes(view: View, key: Key) -> tuple[Reason, ...]:
    budget = view.get(key, BudgetRow)
    if budget is None:
        return ()
    name = f"PodDisruptionBudget {key.namespace}/{key.name}"
    if budget.observed_generation < budget.generation:
        act = "see why kube-controller-manager does not process PodDisruptionBudgets"
        return (Reason("pdb-unobserved", key, f"{name}: its controller has not processed it yet", act=act),)
    text = (
        f"{name}: {budget.current_healthy} of {budget.expected_pods} pods are healthy, {budget.desired_healthy} required, "
        f"{_count(budget.disruptions_allowed)} allowed now"
    )
    if budget.disruptions_allowed > 0 or budget.current_healthy > budget.desired_healthy:
        return (Reason("pdb-paced", key, f"{text}: evicting the pods one after the other"),)
    pods = _covered(view, budget)
    causes = tuple(
        Reason("replica-not-ready", pod.key, f"{_named(pod)} is not ready{_why(pod)}", act=advice.fix(pod))
        for pod in [pod for pod in pods if not pod.ready and pod.deleting_at is None][:MOST_SHOWN]
    )
    if causes:
        return (Reason("pdb-closed", key, text, because=causes),)
    if budget.current_healthy < budget.expected_pods:
        act = f"wait until {advice.workload(pods)} has its pods again"
        return (Reason("pdb-short", key, f"{text}: waiting for replacements", act=act),)
    pods_text = "its 1 pod" if budget.expected_pods == 1 else f"all {budget.expected_pods} pods"
    strict = f"{name}: allows no evictions even with {pods_text} healthy{_bound(budget)}"
    return (Reason("pdb-strict", key, strict, act=advice.relax(budget, pods)),)


def _count(evictions: int) -> str:
    return "no evictions" if evictions <= 0 else "1 eviction" if evictions == 1 else f"{evictions} evictions"


def _bound(budget: BudgetRow) -> str:
    """Return the field of the budget's spec that allows no eviction, in brackets."""
    if budget.max_unavailable:
        return f" (maxUnavailable: {budget.max_unavailable})"
    return f" (minAvailable: {budget.min_available})" if budget.min_available else ""


def _covered(view: View, budget: BudgetRow) -> list[PodRow]:
    """Return the running pods that a budget covers."""
    if budget.selector is None:
        return []
    try:
        selector = from_object(budget.selector)
    except SelectorError:
        return []
    pods = view.rows(PODS_OF_NAMESPACE, budget.key.namespace, PodRow, budget.key.cluster)
    # The pods of one ReplicaSet share their labels, so each set is matched once.
    answers: dict[int, bool] = {}
    for pod in pods:
        if id(pod.labels) not in answers:
            answers[id(pod.labels)] = selector.matches(pod.labels)
    return [pod for pod in pods if answers[id(pod.labels)] and not pod.ended]


def _named(pod: PodRow) -> str:
    return f"pod {pod.key.namespace}/{pod.key.name}"


def _why(pod: PodRow) -> str:
    where = f" on node {pod.node}" if pod.node else ", it has no node"
    return f"{where}: {pod.trouble}" if pod.trouble else where
