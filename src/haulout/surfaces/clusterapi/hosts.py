"""The decision about one Metal3 host: it is kept off while the maintenance of its Machine is approved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import MARK, View
from haulout.core.action import Annotate, Step, Tell
from haulout.core.decision import NOTHING, Decision
from haulout.core.reason import Reason
from haulout.surfaces.clusterapi.events import event
from haulout.surfaces.clusterapi.options import Options, options_of
from haulout.surfaces.clusterapi.pause import is_paused
from haulout.surfaces.clusterapi.wire import (
    APPROVED,
    MACHINES_OF_HOST,
    REBOOT,
    REBOOT_MODE,
    HostRow,
    MachineRow,
)

replace = msgspec.structs.replace

# The name of the original's controller in its metrics.
DECIDER = "metal3"
# How long a host must have had no Machine before it is switched on again. A person may be working on the host.
FORSAKEN_FOR = timedelta(seconds=10)
SOFT, HARD = "", '{"mode":"hard"}'


def decide(key: Key, view: View, now: datetime) -> Decision:
    host = view.get(key, HostRow)
    if host is None:
        return NOTHING
    options = options_of(view)
    named = view.rows(MACHINES_OF_HOST, (key.namespace, key.name), MachineRow)
    # With owned_hosts_only: any user can name any host in a Machine of their own namespace, and a paused Machine would
    # stop all work on it.
    machines = [each for each in named if not options.owned_hosts_only or each.key.namespace == key.namespace]
    strangers = [each for each in named if each not in machines and each.request == APPROVED]
    warned = tuple(_foreign(host, each) for each in strangers)
    decision = _decided(host, machines, view, now)
    return replace(decision, actions=((*warned,), *decision.actions)) if warned else decision


def _foreign(host: HostRow, machine: MachineRow) -> Tell:
    text = f"BareMetalHost {_name(host)} is not switched off: it is in another namespace than the Machine"
    return event(machine.key, "HostOwnershipMismatch", text, warning=True)


def _decided(host: HostRow, machines: Sequence[MachineRow], view: View, now: datetime) -> Decision:
    options = options_of(view)
    if any(is_paused(view, machine) for machine in machines):
        return NOTHING
    approved = [machine for machine in machines if machine.request == APPROVED]
    if not approved and REBOOT not in host.annotations:
        return NOTHING
    if not approved:
        return Decision(actions=_released(host, machines)) if machines else _forsaken(host, view, now)
    hard = options.reboot_mode_annotation and any(
        machine.annotations.get(REBOOT_MODE) == "hard" for machine in approved
    )
    return Decision(actions=_off(host, approved, HARD if hard else SOFT, options))


def _off(host: HostRow, approved: Sequence[MachineRow], mode: str, options: Options) -> tuple[Step, ...]:
    if host.annotations.get(REBOOT) == mode:
        return ()
    refusals = {machine.key: _refusal(host, machine, options) for machine in approved}
    rightful = [machine for machine in approved if refusals[machine.key] is None]
    warnings: Step = tuple(refusal for refusal in refusals.values() if refusal is not None)
    if not rightful:
        return (warnings,)
    statements = tuple(
        event(
            machine.key, "HostPowerOffRequested", f"BareMetalHost {_name(host)} is to be off until the maintenance ends"
        )
        for machine in rightful
    )
    off: Step = (Annotate(host.key, REBOOT, mode, disrupts=True), *statements)
    return (warnings, off) if warnings else (off,)


def _refusal(host: HostRow, machine: MachineRow, options: Options) -> Tell | None:
    """Return the warning that this Machine may not switch the host off; None if it may."""
    if host.stays_on:
        text = f"BareMetalHost {_name(host)} is not switched off: its spec says disablePowerOff"
        return event(machine.key, "HostPowerOffDisabled", text, warning=True)
    if options.owned_hosts_only and machine.key.namespace != host.key.namespace:
        return _foreign(host, machine)
    named = (machine.host.consumer if machine.host else "") or (
        machine.infrastructure if options.owned_hosts_only else ""
    )
    if options.owned_hosts_only and not (named and host.consumer):
        text = f"BareMetalHost {_name(host)} is not switched off: its consumerRef does not name the Machine's Metal3Machine"
        return event(machine.key, "HostOwnershipMismatch", text, warning=True)
    consumers = (host.consumer, host.consumer_namespace or machine.key.namespace)
    if named and host.consumer and consumers != (named, machine.key.namespace):
        consumer = f"{host.consumer_namespace}/{host.consumer}" if host.consumer_namespace else host.consumer
        text = f"BareMetalHost {_name(host)} is not switched off: it is in use by {consumer}"
        return event(machine.key, "HostOwnershipMismatch", text, warning=True)
    return None


def _released(host: HostRow, machines: Sequence[MachineRow]) -> tuple[Step, ...]:
    text = f"BareMetalHost {_name(host)} may be on again"
    statements = tuple(
        event(each, "HostReleased", text) for each in [machine.key for machine in machines] or [host.key]
    )
    return ((Annotate(host.key, REBOOT, None), *statements),)


def _forsaken(host: HostRow, view: View, now: datetime) -> Decision:
    """Decide about a host without a Machine.

    It waits a while, because a Machine that is moved or restored may come after its host.
    """
    place = Key("", MARK, DECIDER, f"{host.key.namespace}/{host.key.name}")
    row = view.recall(place, Value)
    since = row.value if row is not None and isinstance(row.value, datetime) else now
    due_at = since + FORSAKEN_FOR
    steps = _released(host, ()) if now >= due_at else ()
    return Decision(actions=steps, marks=(Value(key=place, value=since),), until=None if steps else due_at)


def reasons(machine: MachineRow, host: HostRow | None, options: Options) -> tuple[Reason, ...]:
    """Return the state of an approved Machine's host, as reasons."""
    if machine.host is None:
        return ()
    name = f"BareMetalHost {machine.host.namespace}/{machine.host.name}"
    if host is None:
        return (Reason("host-missing", machine.key, f"{name} does not exist: nothing is switched off"),)
    if REBOOT in host.annotations:
        return (Reason("host-off", host.key, f"{name} is kept off until then"),)
    refusal = _refusal(host, machine, options)
    if refusal is not None:
        return (Reason("host-left-alone", host.key, refusal.note),)
    text = f"{name} is still to be switched off: is the operator running?"
    return (
        Reason(
            "unwritten",
            host.key,
            text,
            act="see that the operator runs with the clusterapi surface and holds its lease",
        ),
    )


def _name(host: HostRow) -> str:
    return f"{host.key.namespace}/{host.key.name}"
