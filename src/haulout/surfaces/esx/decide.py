"""The decision about a node on an ESX host: its labels, and stopping and starting its virtual machine."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import FactDemand, View
from haulout.core import cordon
from haulout.core.action import Annotate, Edit, Label, Release, Say
from haulout.core.decision import NOTHING, Decision
from haulout.core.drain.options import DrainOptions
from haulout.core.emptying import Emptying, Repeated, empty_then_act
from haulout.core.holds import Claim, is_granted
from haulout.model.meta import wire_time
from haulout.surfaces.esx.options import Options
from haulout.surfaces.esx.present import starting, stopping, unknown, waiting
from haulout.surfaces.esx.situation import Situation, claim_of, host_state, is_initiated, pace, place_of
from haulout.surfaces.esx.vcenter import CHANNEL, HOST_PROBE, HostState, StartVirtualMachine, StopVirtualMachine
from haulout.surfaces.esx.wire import (
    ALARM,
    HOST_LABEL,
    INITIATED_ANNOTATION,
    INITIATED_AT,
    NAME,
    REPORTER,
    STATE_LABEL,
    VERSION_LABEL,
    ZONE_LABEL,
)


def decide(key: Key, view: View, now: datetime) -> Decision:
    """Decide about one node. Nodes without the labels of host and zone are ignored."""
    node, setting = view.get(key, NodeRow), view.config(NAME)
    if node is None or HOST_LABEL not in node.labels or ZONE_LABEL not in node.labels:
        return NOTHING
    if setting is None or not isinstance(setting.value, Options):
        # Without settings nothing is done, but the claim keeps other surfaces off a node that is shutting down or off.
        return Decision(claims=(claim_of(node),) if is_initiated(node) else ())
    place, options = place_of(node), setting.value
    if not place.host or not place.zone:
        return Decision(actions=((_failed(node, "the label of its host or zone is empty; the node is ignored"),),))
    fact = view.fact(FactDemand(HOST_PROBE, (place.host, place.zone), pace(options, place.zone)))
    known = fact.value if not fact.error and isinstance(fact.value, HostState) else None
    # While the state of the host is not known, the last known state counts, and nothing new begins.
    state = host_state(known, options) if known else node.labels.get(STATE_LABEL, "")
    situation = Situation(node, place, state, options, view, now)
    claim = claim_of(node)
    claims = (claim,) if situation.is_initiated or situation.is_to_stop else ()
    if known is None:
        failed = ((_failed(node, fact.error),),) if fact.error else ()
        return Decision(claims=claims, actions=failed, reasons=unknown(situation, fact) if view.explaining else ())
    edits = _labels(node, known, state)
    if situation.is_to_start:
        return _start(situation, claims, edits)
    if situation.is_to_stop and (situation.is_initiated or is_granted(view, NAME, claim)):
        return _stop(situation, claim, edits)
    reasons = waiting(situation, claim, fact) if view.explaining else ()
    return Decision(actions=(edits,) if edits else (), claims=claims, reasons=reasons)


def _labels(node: NodeRow, host: HostState, state: str) -> tuple[Edit, ...]:
    """Return the labels that differ. A host that is not connected reports no version, so the last known one stays."""
    labels = {STATE_LABEL: state} | ({VERSION_LABEL: host.version} if host.version else {})
    return tuple(Label(node.key, name, value) for name, value in labels.items() if node.labels.get(name) != value)


def _failed(node: NodeRow, error: str) -> Say:
    return Say("esx maintenance failed", (("node", node.key.name), ("error", error)), "error")


def _stop(situation: Situation, claim: Claim, edits: tuple[Edit, ...]) -> Decision:
    """Annotate, cordon and drain the node, then shut down its virtual machine.

    This is repeated while it is found running.
    """
    node, options = situation.node, situation.options
    if not situation.is_initiated:
        edits += (Annotate(node.key, INITIATED_ANNOTATION, "true"),)
        if not options.alone:
            edits += (Annotate(node.key, INITIATED_AT, wire_time(situation.now)),)
    message = StopVirtualMachine(node.key.name, situation.place.zone, options.poll_for, options.give_up_for)
    repeated = Repeated(_outcome(node, "stop"), CHANNEL, message, situation.pace_for)
    return empty_then_act(
        _emptying(situation),
        situation.view,
        situation.now,
        claim=claim,
        edits=edits,
        act=lambda: repeated.send(situation.view, situation.now, lambda error: _failed(node, error)),
        reason=lambda because: stopping(situation, because),
    )


def _emptying(situation: Situation) -> Emptying:
    """Return the drain: all pods but mirror pods and those of DaemonSets; under an alarm without grace period."""
    drain = DrainOptions(
        force=True,
        delete_local_data=True,
        any_daemonset=True,
        force_ending=situation.options.force,
        grace_for=0 if situation.state == ALARM else None,
    )
    options = situation.options
    return Emptying(NAME, REPORTER, situation.node, drain, options.rules, is_visible=True)


def _start(situation: Situation, claims: tuple[Claim, ...], edits: tuple[Edit, ...]) -> Decision:
    """Start the virtual machine, then uncordon the node and remove the annotation."""
    node, view = situation.node, situation.view
    message = StartVirtualMachine(node.key.name, situation.place.zone)
    repeated = Repeated(_outcome(node, "start"), CHANNEL, message, situation.pace_for, disrupts=False)
    outcome = view.outcome(repeated.name)
    if outcome is not None and outcome.state == "done":
        # Without a ledger entry the original has cordoned the node. The original always uncordons.
        release = Release(node.key, NAME, restore=cordon.ledger(node) is not None)
        marks = [name for name in (INITIATED_ANNOTATION, INITIATED_AT) if name in node.annotations]
        removals = (Annotate(node.key, name, None) for name in marks)
        return Decision(actions=((*edits, release, *removals),), claims=claims)
    more, until = repeated.send(view, situation.now, lambda error: _failed(node, error))
    step = (*edits, *more)
    reasons = starting(situation, outcome) if view.explaining else ()
    return Decision(actions=(step,) if step else (), claims=claims, until=until, reasons=reasons)


def _outcome(node: NodeRow, act: str) -> str:
    return f"{CHANNEL}/{act}/{node.key.name}/{node.uid}"
