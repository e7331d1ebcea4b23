"""The steps of a maintenance that may take its node: cordon, taints and lease, then the drain and its status."""

from __future__ import annotations

import msgspec

from haulout.base.spans import span_text
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import MARK
from haulout.core import cordon
from haulout.core.action import KeepCordoned, Label, NodeEdit, SetTaint, Step
from haulout.core.decision import Decision, earliest
from haulout.core.drain.options import DrainRow
from haulout.core.drain.preview import foresee
from haulout.core.drain.progress import Progress, conclude, conclusion, drain_reasons, progress
from haulout.core.holds import Claim
from haulout.core.reason import Reason, roots
from haulout.core.refusals import find_refusal
from haulout.surfaces.nodemaintenance import lease as leases
from haulout.surfaces.nodemaintenance import node_conditions, refusals
from haulout.surfaces.nodemaintenance.claims import claims_of, not_granted, with_status
from haulout.surfaces.nodemaintenance.counts import has_drain_taint
from haulout.surfaces.nodemaintenance.drain_log import leaving
from haulout.surfaces.nodemaintenance.drain_status import drain_status, without_pods
from haulout.surfaces.nodemaintenance.lease import Holder
from haulout.surfaces.nodemaintenance.lease_failures import lease_steps
from haulout.surfaces.nodemaintenance.options import DrainWish
from haulout.surfaces.nodemaintenance.situation import (
    SURFACE,
    Situation,
    drain_of,
    is_expired,
    pending,
)
from haulout.surfaces.nodemaintenance.status import (
    failed_with,
    with_errors,
)
from haulout.surfaces.nodemaintenance.wire import (
    DRAIN_TAINT,
    EXCLUDE_LABEL,
    FAILED,
    RUNNING,
    SUCCEEDED,
    UNSCHEDULABLE_TAINT,
)

replace = msgspec.structs.replace
DEADLINE = "deadline"
# Reasons of pods that nothing blocks. After the deadline they are not evicted any more.
UNDER_WAY = {"evicting", "goes", "proving-empty"}
OUR_TAINTS = frozenset((taint.key, taint.effect) for taint in (DRAIN_TAINT, UNSCHEDULABLE_TAINT))


def maintain(situation: Situation, node: NodeRow, wanted: DrainWish) -> Decision:
    row, view, now, options = situation.row, situation.view, situation.now, situation.options
    ours = leases.holder(situation.lease, now) is Holder.OURS
    edits = _node_edits(situation, node, wanted)
    statements = _node_refused(situation, wanted, edits)
    prepared = ours and not edits
    drain = drain_of(situation, wanted)
    reopened = _reopened(situation, node)
    stands = row.status.phase == SUCCEEDED and not reopened
    # Pods are read only after the node is out of service. Before that, a change of a pod must not wake this decision.
    state = None
    if prepared:
        state = conclude(progress(view, drain, now), drain) if stands else conclusion(view, drain, now)
    claims = claims_of(situation, drained=state is not None and state.done and not wanted.problem)
    refusal = not_granted(situation, claims[:1])
    if refusal is not None:
        return replace(refusal, actions=refusal.actions or statements, claims=claims)
    renew_at = leases.renew_at(situation.lease, node, options, row.seen) if ours and situation.lease else None
    steps: list[Step] = [*statements]
    if renew_at is None or now >= renew_at:
        steps += lease_steps(situation, node)
        renew_at = now + options.renewal_for
    if edits:
        steps.append(refusals.with_outcome(edits, refusals.outcome_name("node", row.key)))
    if row.status.phase == FAILED and is_expired(situation, wanted):
        # A maintenance past its deadline keeps its node, but evicts nothing more.
        blocked = _blocked(situation, drain) if view.explaining else ()
        assert wanted.deadline_for is not None
        text = f"the drain of node {row.node} exceeded its deadline of {span_text(wanted.deadline_for)}: it evicts no more pods"
        reason = Reason(DEADLINE, row.key, text, because=blocked)
        return Decision(actions=tuple(steps), claims=claims, until=renew_at, reasons=(reason,))
    if state is None:
        return Decision(actions=tuple(steps), claims=claims, until=renew_at, marks=reopened)
    if wanted.problem:
        steps.append(without_pods(situation, wanted.problem))
        why = Reason("drain-refused", row.key, wanted.problem)
        return Decision(actions=tuple(step for step in steps if step), claims=claims, until=renew_at, reasons=(why,))
    pod_lines, logged_pods = leaving(situation, wanted, state)
    status, until, waiting = drain_status(situation, wanted, state, claims)
    steps += [pod_lines, *status]
    if options.node_conditions:
        succeeded = row.status.phase == SUCCEEDED
        steps.append(node_conditions.condition_patches(node, now, drained=state.done, succeeded=succeeded))
    return Decision(
        actions=tuple([step for step in steps if step]),
        claims=claims,
        until=earliest(renew_at, until, state.changes_at),
        marks=(
            *(() if is_expired(situation, wanted) else (drain,)),
            *waiting,
            *logged_pods,
            *(() if state.done else reopened),
        ),
        reasons=_reasons(situation, drain, state, claims) if view.explaining else (),
    )


def _reopened(situation: Situation, node: NodeRow) -> tuple[Value, ...]:
    """Return a mark if the node was uncordoned after its drain had succeeded. It must be proven empty once more."""
    if situation.status.phase != SUCCEEDED:
        return ()
    key = Key("", MARK, "nodemaintenance-reopened", situation.key.name)
    mark = situation.view.recall(key, Value)
    return (mark or Value(key=key),) if mark is not None or not node.unschedulable else ()


def _reasons(situation: Situation, drain: DrainRow, state: Progress, claims: tuple[Claim, ...]) -> tuple[Reason, ...]:
    """Return what the drain waits for or, after the drain, what the turn waits for."""
    refusal = not_granted(situation, claims[1:]) if state.done else None
    if refusal is not None:
        return refusal.reasons
    return drain_reasons(situation.view, drain, with_errors(state, situation.status.blocked_pods), situation.now)


def _blocked(situation: Situation, drain: DrainRow) -> tuple[Reason, ...]:
    """Return what would block the drain if it went on. Nothing is evicted, so no budget has been asked."""
    view, now = situation.view, situation.now
    state = with_errors(foresee(view, progress(view, drain, now), now), situation.status.blocked_pods)
    found = drain_reasons(view, drain, state, now)
    return tuple(each for each in found if not {end.code for end in roots(each)} <= UNDER_WAY)


def _node_refused(situation: Situation, wanted: DrainWish, edits: tuple[NodeEdit, ...]) -> tuple[Step, ...]:
    """Return the step that reports that the API server refused to cordon or taint the node."""
    name = refusals.outcome_name("node", situation.key)
    refusal = find_refusal(situation.view, name) if edits else None
    if refusal is None:
        return ()
    phase = situation.status.phase if is_expired(situation, wanted) else RUNNING
    status = failed_with(pending(situation, phase), refusals.beginning(edits, refusal), situation.now)
    return with_status(situation, status).actions


def _node_edits(situation: Situation, node: NodeRow, wanted: DrainWish) -> tuple[NodeEdit, ...]:
    """Return the edits that take the node out of service, as far as they are missing: label, taints and cordon."""
    edits: list[NodeEdit] = []
    if node.labels.get(EXCLUDE_LABEL) != "true":
        edits.append(Label(node.key, EXCLUDE_LABEL, "true"))
    present = {(taint.key, taint.effect) for taint in node.taints}
    ours = (DRAIN_TAINT, UNSCHEDULABLE_TAINT)
    if not present.issuperset(OUR_TAINTS):
        # Like in the original, the list of taints is written again with ours first and without times.
        edits += [SetTaint(node.key, taint, present=False) for taint in ours]
        edits += [SetTaint(node.key, taint, present=True, first=True) for taint in ours]
    keep = KeepCordoned(
        node.key,
        SURFACE,
        is_visible=True,
        labels=(EXCLUDE_LABEL,) if wanted.restore else (),
        taint=True,
        begun=has_drain_taint(node),
        remembers=wanted.restore,
    )
    if cordon.edits_of(keep, node, situation.view, keeps_ledger=not situation.options.alone):
        edits.append(keep)
    return tuple(edits)
