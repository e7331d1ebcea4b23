"""ESX: shows on nodes how the host under them is, and takes their machines down and up again around its maintenance."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.project import Keep
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import FactDemand, View
from haulout.core import cordon
from haulout.core.action import Action, Annotate, Cordon, Edit, Label, Say, Send
from haulout.core.decision import NOTHING, Decider, Decision, Source
from haulout.core.drain.options import CLUSTER_API_NODE, POD_ANNOTATION, DrainOptions, DrainRow, PodRules, drain_row
from haulout.core.drain.report import Progress, conclusion, explained
from haulout.core.holds import (
    LONG_AGO,
    PRIORITY_ANNOTATION,
    Claim,
    Want,
    is_granted,
    is_kept_by_others,
)
from haulout.core.reason import Reason
from haulout.plugins.config import Config, GoDuration, Min
from haulout.plugins.document import read_file
from haulout.surfaces.profiles.engine import priority
from haulout.surfaces.profiles.present import refusals

NAME = "esx"
REPORTER = "esx-maintenance"
HOST_LABEL = "kubernetes.cloud.sap/host"
ZONE_LABEL = "failure-domain.beta.kubernetes.io/zone"
VERSION_LABEL = "cloud.sap/esx-version"
STATE_LABEL = "cloud.sap/esx-in-maintenance"
OK_LABEL = "cloud.sap/esx-reboot-ok"
INITIATED_ANNOTATION = "cloud.sap/esx-reboot-initiated"
WORKING, IN_MAINTENANCE, ALARM = "false", "true", "alarm"
# Of an alarm that only its label tells of the name is not known: it stands for one that is configured.
ANY_ALARM = ""
# How a host is, by its name and zone.
HOST_PROBE = "esx-host"
# Switches machines on and off.
CHANNEL = "esx-machines"
SHORTEST_FOR = timedelta(seconds=1)


class _Unused(Config, frozen=True, kw_only=True):
    period: GoDuration = timedelta(0)
    timeout: GoDuration = timedelta(0)


class _Check(Config, frozen=True, kw_only=True):
    period: GoDuration
    jitter: Annotated[float, Min(0.001)] = 0.0


class _Eviction(Config, frozen=True, kw_only=True):
    period: GoDuration
    timeout: GoDuration
    force: bool = False


class _Shutdown(Config, frozen=True, kw_only=True):
    period: GoDuration
    timeout: GoDuration


class _Intervals(Config, frozen=True, kw_only=True):
    check: _Check
    pod_deletion: _Unused = _Unused()
    pod_eviction: _Eviction
    vm_shutdown: _Shutdown


class Login(Config, frozen=True, kw_only=True):
    """A user of a vCenter and the password, from `esx.yaml`."""

    username: str
    password: str = ""

    def __repr__(self) -> str:
        """The password is not for logs."""
        return f"Login({self.username!r})"


class VCenterSettings(Config, frozen=True, kw_only=True):
    """How to reach the vCenter of each zone.

    `credentials` are by zone: its one letter or digit is `$AZ` in the address.
    """

    template_url: str
    insecure: bool = False
    credentials: dict[str, Login]


class Esx(Config, frozen=True, kw_only=True):
    """`esx.yaml`. The other periods and time-outs of drains are not used."""

    intervals: _Intervals
    alarms: tuple[str, ...] = ()
    v_centers: VCenterSettings


class Options(msgspec.Struct, frozen=True):
    """The settings of ESX, as decisions read them.

    The credentials are not among them. `force`: as for Kubernikus.
    """

    pace_for: timedelta
    jitter: float
    force: bool
    poll_for: timedelta
    give_up_for: timedelta
    alarms: frozenset[str] = frozenset()
    alone: bool = True
    rules: PodRules = PodRules()


class HostState(msgspec.Struct, frozen=True):
    """What a vCenter says of a host. `alarms` are the names of those that are triggered, in order."""

    version: str = ""
    in_maintenance: bool = False
    entering: bool = False
    alarms: tuple[str, ...] = ()


class StartMachine(msgspec.Struct, frozen=True):
    """A message to a vCenter: switch on the virtual machine of a node. `zone` says which vCenter."""

    machine: str
    zone: str


class StopMachine(msgspec.Struct, frozen=True):
    """A message to a vCenter: shut down the virtual machine of a node.

    The guest is asked to shut down and looked at every `poll_for`; after `give_up_for` it is switched off.
    """

    machine: str
    zone: str
    poll_for: timedelta
    give_up_for: timedelta


def load(data: bytes | str, *, source: str, environment: Mapping[str, str]) -> tuple[Options, VCenterSettings]:
    """ConfigProblem with the first thing that is wrong."""
    # Zones may be digits, which nobody puts in quotes.
    read = read_file(Esx, data, source=source, environment=environment, any_keys=True)
    return options_of(read), read.v_centers


def options_of(read: Esx) -> Options:
    intervals = read.intervals
    return Options(
        pace_for=max(intervals.check.period, SHORTEST_FOR),
        jitter=intervals.check.jitter,
        force=intervals.pod_eviction.force,
        poll_for=max(intervals.vm_shutdown.period, timedelta(milliseconds=100)),
        give_up_for=intervals.vm_shutdown.timeout,
        alarms=frozenset(read.alarms),
    )


def sources() -> frozenset[Source]:
    kept = frozenset({cordon.ANNOTATION, PRIORITY_ANNOTATION, INITIATED_ANNOTATION}) | CLUSTER_API_NODE
    return frozenset(
        {
            Source("", "Node", Keep(kept)),
            Source("", "Pod", Keep(frozenset({POD_ANNOTATION}))),
            Source("", "PodDisruptionBudget"),
        }
    )


class _Place(msgspec.Struct, frozen=True):
    host: str
    zone: str


class _Machine(msgspec.Struct, frozen=True):
    """A node with its host, as a decision about it is made upon."""

    node: NodeRow
    place: _Place
    state: str
    options: Options
    view: View
    now: datetime

    @property
    def initiated(self) -> bool:
        return _is_initiated(self.node)

    @property
    def is_to_stop(self) -> bool:
        return self.state in (IN_MAINTENANCE, ALARM) and self.node.labels.get(OK_LABEL) == "true"

    @property
    def is_to_start(self) -> bool:
        return self.initiated and self.state == WORKING

    @property
    def pace_for(self) -> timedelta:
        return _pace(self.options, self.place.zone)


def decide(key: Key, view: View, now: datetime) -> Decision:
    node, setting = view.get(key, NodeRow), view.config(NAME)
    if node is None or HOST_LABEL not in node.labels or ZONE_LABEL not in node.labels:
        return NOTHING
    if setting is None or not isinstance(setting.value, Options):
        # Without settings nothing is done, but what has been begun is still nobody else's.
        return Decision(holds=(_claim(node),) if _is_initiated(node) else ())
    place = _Place(node.labels[HOST_LABEL], node.labels[ZONE_LABEL][-1:])
    if not place.host or not place.zone:
        return Decision(actions=(_failed(node, "the label of its host or zone is empty; the node is ignored"),))
    options = setting.value
    fact = view.fact(FactDemand(HOST_PROBE, (place.host, place.zone), _pace(options, place.zone)))
    known = fact.value if not fact.error and isinstance(fact.value, HostState) else None
    # As long as the host is not known it is as it was last seen to be, and nothing is begun.
    state = _state(known, options) if known else node.labels.get(STATE_LABEL, "")
    machine = _Machine(node, place, state, options, view, now)
    claim = _claim(node)
    claims = (claim,) if machine.initiated or machine.is_to_stop else ()
    if known is None:
        failed = (_failed(node, fact.error),) if fact.error else ()
        return Decision(holds=claims, actions=failed, reasons=_unknown(machine, fact) if view.explaining else ())
    edits = _labels(node, known, state)
    if machine.is_to_start:
        return _starting(machine, claims, edits)
    if machine.is_to_stop and (machine.initiated or is_granted(view, NAME, claim)):
        return _stopping(machine, claims, edits)
    told = _waits(machine, claim, fact) if view.explaining else ()
    return Decision(actions=(edits,) if edits else (), holds=claims, reasons=told)


DECIDER = Decider(NAME, "Node", decide)
DECIDERS = (DECIDER,)


def _pace(options: Options, zone: str) -> timedelta:
    """Zones are not asked all at once; always the same for a zone, so that its hosts share a session."""
    return options.pace_for * (1 + options.jitter * zlib.crc32(zone.encode()) / 2**32)


def _state(host: HostState, options: Options) -> str:
    if options.alarms.intersection(host.alarms) or ANY_ALARM in host.alarms:
        return ALARM
    return IN_MAINTENANCE if host.in_maintenance or host.entering else WORKING


def _labels(node: NodeRow, host: HostState, state: str) -> tuple[Edit, ...]:
    """A host that is not connected has no version: the last one that was known stays."""
    wanted = {STATE_LABEL: state} | ({VERSION_LABEL: host.version} if host.version else {})
    return tuple(Label(node.key, name, value) for name, value in wanted.items() if node.labels.get(name) != value)


def _is_initiated(node: NodeRow) -> bool:
    return node.annotations.get(INITIATED_ANNOTATION) == "true"


def _claim(node: NodeRow) -> Claim:
    return Claim(
        node=node.key,
        owner=node.key,
        wants=frozenset({Want.CORDON, Want.DRAIN, Want.EXCLUSIVE}),
        # Nobody writes down since when the labels are there.
        since=node.created_at or LONG_AGO,
        priority=priority(node),
        begun=_is_initiated(node),
        slot="esx-maintenance",
    )


def _failed(node: NodeRow, error: str) -> tuple[Action, ...]:
    return (Say("esx maintenance failed", (("node", node.key.name), ("error", error)), "error"),)


# Down


def _stopping(machine: _Machine, claims: tuple[Claim, ...], edits: tuple[Edit, ...]) -> Decision:
    """Marked and cordoned, then emptied, then switched off; and looked at again for as long as the host is away."""
    node, view, now = machine.node, machine.view, machine.now
    if not machine.initiated:
        edits += (Annotate(node.key, INITIATED_ANNOTATION, "true"),)
    edits += _cordoned(machine)
    drain = _drain(machine)
    state = conclusion(view, drain, now)
    step: tuple[Action, ...] = edits
    until: datetime | None = None
    if state.done and node.unschedulable and machine.initiated:
        options = machine.options
        wanted = StopMachine(node.key.name, machine.place.zone, options.poll_for, options.give_up_for)
        more, until = _sent(machine, _outcome(node, "stop"), wanted)
        step += more
    return Decision(
        actions=(step,) if step else (),
        holds=claims,
        marks=() if state.done else (drain,),
        until=until,
        reasons=_reasons(machine, drain, state) if view.explaining else (),
    )


def _cordoned(machine: _Machine) -> tuple[Edit, ...]:
    if not machine.options.alone:
        return cordon.claim(machine.node, NAME, shown=True)
    return () if machine.node.unschedulable else (Cordon(machine.node.key, unschedulable=True),)


def _drain(machine: _Machine) -> DrainRow:
    """Everything but mirror pods and those of DaemonSets goes; under an alarm without any grace."""
    node = machine.node
    return drain_row(
        NAME,
        node.key,
        node.key,
        options=DrainOptions(
            force=True,
            delete_local_data=True,
            any_daemonset=True,
            force_ending=machine.options.force,
            grace_for=0 if machine.state == ALARM else None,
        ),
        rules=machine.options.rules,
        since=node.created_at or LONG_AGO,
        reporter=REPORTER,
    )


# Up


def _starting(machine: _Machine, claims: tuple[Claim, ...], edits: tuple[Edit, ...]) -> Decision:
    """Switched on, then uncordoned and no longer marked."""
    node, view = machine.node, machine.view
    name = _outcome(node, "start")
    outcome = view.outcome(name)
    if outcome is not None and outcome.state == "done":
        edits += (*_returned(machine), Annotate(node.key, INITIATED_ANNOTATION, None))
        return Decision(actions=(edits,), holds=claims)
    more, until = _sent(machine, name, StartMachine(node.key.name, machine.place.zone))
    step = (*edits, *more)
    told = _comes_back(machine, outcome) if view.explaining else ()
    return Decision(actions=(step,) if step else (), holds=claims, until=until, reasons=told)


def _returned(machine: _Machine) -> tuple[Edit, ...]:
    node = machine.node
    if not machine.options.alone:
        others = is_kept_by_others(machine.view, node.key, NAME)
        # Without a ledger it was cordoned by somebody who kept none: the original, which always uncordons.
        return cordon.release(node, NAME, others=others, restore=cordon.ledger(node) is not None)
    return (Cordon(node.key, unschedulable=False),) if node.unschedulable else ()


# Both


def _outcome(node: NodeRow, what: str) -> str:
    return f"{CHANNEL}/{what}/{node.key.name}/{node.uid}"


def _sent(
    machine: _Machine, name: str, wanted: StartMachine | StopMachine
) -> tuple[tuple[Action, ...], datetime | None]:
    """Once a pace, for as long as it is wanted."""
    outcome = machine.view.outcome(name)
    said: tuple[Action, ...] = ()
    if outcome is not None and outcome.state == "failed":
        said = _failed(machine.node, outcome.error)
    match outcome:
        case Value(state="pending"):
            return (), None
        case Value(value=datetime() as at) if machine.now < at + machine.pace_for:
            return said, at + machine.pace_for
    return (*said, Send(name, CHANNEL, wanted)), None


# Told


def last_seen(node: NodeRow) -> tuple[FactDemand, HostState] | None:
    """How the host was when its node was labelled, for whoever cannot ask the vCenter; None: nobody has seen it yet."""
    host, zone, state = (node.labels.get(name, "") for name in (HOST_LABEL, ZONE_LABEL, STATE_LABEL))
    if not host or not zone or state not in (WORKING, IN_MAINTENANCE, ALARM):
        return None
    demand = FactDemand(HOST_PROBE, (host, zone[-1:]), SHORTEST_FOR)
    alarms = (ANY_ALARM,) if state == ALARM else ()
    return demand, HostState(node.labels.get(VERSION_LABEL, ""), state == IN_MAINTENANCE, alarms=alarms)


def _reasons(machine: _Machine, drain: DrainRow, state: Progress) -> tuple[Reason, ...]:
    because = explained(machine.view, drain, state, machine.now)
    text = f"its host {machine.place.host} is out of service, its machine is to be off"
    return (Reason("esx", machine.node.key, text + (", once it is empty" if because else ""), because=because),)


def _unknown(machine: _Machine, fact: Value) -> tuple[Reason, ...]:
    place = machine.place
    why = fact.error or f"the vCenter of zone {place.zone} has not said yet how it is"
    text = f"nothing is begun while its host {place.host} is not known"
    return (Reason("esx", machine.node.key, text, because=(Reason("fact-awaited", machine.node.key, why),)),)


def _waits(machine: _Machine, claim: Claim, fact: Value) -> tuple[Reason, ...]:
    """A host that is out of service waits for the word that its machine may go down, and then for the node's turn."""
    key, verb = machine.node.key, "was last seen" if fact.state == "stale" else "is"
    shown = {WORKING: "at work", IN_MAINTENANCE: "in maintenance", ALARM: "under an alarm"}[machine.state]
    text = f"its host {machine.place.host} {verb} {shown}"
    if machine.is_to_stop:
        waits = Reason(
            "waits-for-grant", key, "its machine is to be off: waits", because=refusals(machine.view, NAME, claim)
        )
        return (Reason("esx", key, text, because=(waits,)),)
    if machine.state == WORKING:
        return (Reason("at-rest", key, f"{text}, and its machine stays as it is"),)
    awaited = Reason(
        "label-awaited",
        key,
        f"its machine stays on until the node has the label {OK_LABEL}=true",
        act=f"let the machine go down: kubectl label node {key.name} {OK_LABEL}=true",
    )
    return (Reason("esx", key, text, because=(awaited,)),)


def _comes_back(machine: _Machine, outcome: Value | None) -> tuple[Reason, ...]:
    key, failed = machine.node.key, outcome is not None and outcome.state == "failed"
    because = (Reason("failing", key, outcome.error),) if outcome is not None and failed else ()
    text = f"its host {machine.place.host} works again: its machine is switched on, then the node is uncordoned"
    return (Reason("esx", key, text, because=because),)
