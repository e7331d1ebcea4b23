"""The reasons for what ESX maintenance does with a node, or waits for."""

from __future__ import annotations

from haulout.cluster.rows import Value
from haulout.core.holds import Claim, refusals
from haulout.core.reason import Reason
from haulout.surfaces.esx.situation import Situation
from haulout.surfaces.esx.wire import ALARM, IN_MAINTENANCE, NAME, OK_LABEL, WORKING

_STATES = {WORKING: "at work", IN_MAINTENANCE: "in maintenance", ALARM: "under an alarm"}


def stopping(situation: Situation, because: tuple[Reason, ...]) -> Reason:
    """Return the reason that the virtual machine is stopped, with what is waited for before."""
    text = f"its host {situation.place.host} is out of service, its virtual machine is to be off"
    return Reason("esx", situation.node.key, text + (", once it is empty" if because else ""), because=because)


def unknown(situation: Situation, fact: Value) -> tuple[Reason, ...]:
    """Return the reason that nothing new begins while the state of the host is not known."""
    key, place = situation.node.key, situation.place
    why = fact.error or f"the vCenter of zone {place.zone} has not reported the state of the host yet"
    text = f"waiting: the state of its host {place.host} is unknown"
    return (Reason("esx", key, text, because=(Reason("fact-awaited", key, why),)),)


def waiting(situation: Situation, claim: Claim, fact: Value) -> tuple[Reason, ...]:
    """Return what a node waits for: the label that allows to stop its virtual machine, then the grant."""
    key, verb = situation.node.key, "was last seen" if fact.state == "stale" else "is"
    text = f"its host {situation.place.host} {verb} {_STATES[situation.state]}"
    if situation.is_to_stop:
        because = refusals(situation.view, NAME, claim)
        waits = Reason("waits-for-grant", key, "its virtual machine is to be off: the shutdown waits", because=because)
        return (Reason("esx", key, text, because=(waits,)),)
    if situation.state == WORKING:
        return (Reason("at-rest", key, f"{text}, and its virtual machine stays as it is"),)
    awaited = Reason(
        "label-awaited",
        key,
        f"its virtual machine stays on until the node has the label {OK_LABEL}=true",
        act=f"let the virtual machine go down: kubectl label node {key.name} {OK_LABEL}=true",
    )
    return (Reason("esx", key, text, because=(awaited,)),)


def starting(situation: Situation, outcome: Value | None) -> tuple[Reason, ...]:
    """Return the reason that the virtual machine is started, with the error of the last attempt."""
    key, failed = situation.node.key, outcome is not None and outcome.state == "failed"
    because = (Reason("failing", key, outcome.error),) if outcome is not None and failed else ()
    host = situation.place.host
    text = f"its host {host} works again: its virtual machine is switched on, then the node is uncordoned"
    return (Reason("esx", key, text, because=because),)
