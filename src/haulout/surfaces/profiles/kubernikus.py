"""Kubernikus: labels nodes whose kubelet is not the API server's version, and empties and deletes those to be deleted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from haulout.base.semver import SemverError, Version
from haulout.cluster.key import Key
from haulout.cluster.project import Keep
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import FactDemand, View
from haulout.core import cordon
from haulout.core.action import Action, Cordon, Edit, Label, Say, Send
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
from haulout.plugins.cloud import CloudSecret
from haulout.plugins.config import Config, GoDuration
from haulout.plugins.document import read_file
from haulout.surfaces.profiles.engine import priority
from haulout.surfaces.profiles.present import refusals

NAME = "kubernikus"
REPORTER = "kubernikus-maintenance"
UPDATE_LABEL = "cloud.sap/kubelet-needs-update"
DELETE_LABEL = "cloud.sap/delete-node"
# The API server's version, as text; there is but one to ask.
VERSION_PROBE = "api-server-version"
# Asks for the deletion of a server.
CHANNEL = "kubernikus-servers"
# Whoever writes less than this does not mean it.
SHORTEST_FOR = timedelta(seconds=1)


class _Pace(Config, frozen=True, kw_only=True):
    period: GoDuration
    timeout: GoDuration


class _Eviction(Config, frozen=True, kw_only=True):
    period: GoDuration
    timeout: GoDuration
    force: bool = False


class _Intervals(Config, frozen=True, kw_only=True):
    requeue: GoDuration
    pod_deletion: _Pace
    pod_eviction: _Eviction


class Kubernikus(Config, frozen=True, kw_only=True):
    """`kubernikus.yaml`. The periods and time-outs of drains have to be there and are not used."""

    intervals: _Intervals
    cloud_provider_secret: CloudSecret = CloudSecret()


class Options(msgspec.Struct, frozen=True):
    """The settings of Kubernikus, as decisions read them.

    `force`: pods that terminate for longer than they may are deleted. `alone`, `rules`: as for profiles.
    """

    pace_for: timedelta
    force: bool = False
    secret: tuple[str, str] = ("", "")
    alone: bool = True
    rules: PodRules = PodRules()


class ServerDeletion(msgspec.Struct, frozen=True):
    """A message to OpenStack: delete the server of a node.

    `secret` is where the credentials are.
    """

    server: str
    secret: tuple[str, str]


def load(data: bytes | str, *, source: str, environment: Mapping[str, str]) -> Options:
    """ConfigProblem with the first thing that is wrong."""
    return options_of(read_file(Kubernikus, data, source=source, environment=environment))


def options_of(read: Kubernikus) -> Options:
    return Options(
        pace_for=max(read.intervals.requeue, SHORTEST_FOR),
        force=read.intervals.pod_eviction.force,
        secret=read.cloud_provider_secret.place,
    )


def sources() -> frozenset[Source]:
    return frozenset(
        {
            Source("", "Node", Keep(frozenset({cordon.ANNOTATION, PRIORITY_ANNOTATION}) | CLUSTER_API_NODE)),
            Source("", "Pod", Keep(frozenset({POD_ANNOTATION}))),
            Source("", "PodDisruptionBudget"),
        }
    )


def decide(key: Key, view: View, now: datetime) -> Decision:
    node, setting = view.get(key, NodeRow), view.config(NAME)
    if node is None:
        return NOTHING
    claims = (_claim(node),) if _is_to_go(node) else ()
    if setting is None or not isinstance(setting.value, Options):
        # Without settings nothing is done, but what has been begun is still nobody else's.
        return Decision(holds=tuple(claim for claim in claims if claim.begun))
    options = setting.value
    version = view.fact(FactDemand(VERSION_PROBE, "", options.pace_for))
    if not isinstance(version.value, str):
        failed = _failed(node, version.error) if version.error else ()
        return Decision(holds=claims, actions=failed, reasons=_unknown(node, version.error) if view.explaining else ())
    try:
        needs_update = _version(node.kubelet_version) != _version(version.value)
    except SemverError as error:
        said = f"versions cannot be compared: {error}"
        told = _unknown(node, said) if view.explaining else ()
        return Decision(holds=claims, actions=_failed(node, said), reasons=told)
    label = Label(key, UPDATE_LABEL, str(needs_update).lower())
    edits: tuple[Edit, ...] = (label,) if node.labels.get(UPDATE_LABEL) != label.value else ()
    if not claims:
        edits += _released(node, view, options)
        told = _rests(node, version.value, needs_update=needs_update) if view.explaining else ()
        return Decision(actions=(edits,) if edits else (), reasons=told)
    return _going(node, claims[0], edits, options, view, now)


DECIDER = Decider(NAME, "Node", decide)
DECIDERS = (DECIDER,)


def _is_to_go(node: NodeRow) -> bool:
    return node.labels.get(DELETE_LABEL) == "true"


def _claim(node: NodeRow) -> Claim:
    return Claim(
        node=node.key,
        owner=node.key,
        wants=frozenset({Want.CORDON, Want.DRAIN, Want.EXCLUSIVE}),
        # Nobody writes down since when the label is there.
        since=node.created_at or LONG_AGO,
        priority=priority(node),
        begun=node.unschedulable,
        slot="delete-node",
    )


def _version(text: str) -> Version:
    """Without the letter before it."""
    return Version(text[1:])


def _failed(node: NodeRow, error: str) -> tuple[tuple[Action, ...], ...]:
    return ((Say("kubernikus maintenance failed", (("node", node.key.name), ("error", error)), "error"),),)


def _released(node: NodeRow, view: View, options: Options) -> tuple[Edit, ...]:
    """It is not to go, after all. The original then leaves it cordoned."""
    stood = cordon.ledger(node)
    if options.alone or stood is None or NAME not in stood.by:
        return ()
    return cordon.release(node, NAME, others=is_kept_by_others(view, node.key, NAME))


def _going(
    node: NodeRow, claim: Claim, edits: tuple[Edit, ...], options: Options, view: View, now: datetime
) -> Decision:
    """Cordoned, then emptied, then deleted; each of them again should somebody undo it."""
    if not claim.begun and not is_granted(view, NAME, claim):
        told = _waits(node, claim, view) if view.explaining else ()
        return Decision(actions=(edits,) if edits else (), holds=(claim,), reasons=told)
    edits += _cordoned(node, options)
    drain = _drain(node, options)
    state = conclusion(view, drain, now)
    step: tuple[Action, ...] = edits
    until: datetime | None = None
    if state.done and node.unschedulable:
        more, until = _deletion(node, options, view, now)
        step += more
    return Decision(
        actions=(step,) if step else (),
        holds=(claim,),
        marks=() if state.done else (drain,),
        until=until,
        reasons=_reasons(node, drain, state, view, now) if view.explaining else (),
    )


def _cordoned(node: NodeRow, options: Options) -> tuple[Edit, ...]:
    if not options.alone:
        return cordon.claim(node, NAME, shown=False)
    return () if node.unschedulable else (Cordon(node.key, unschedulable=True),)


def _drain(node: NodeRow, options: Options) -> DrainRow:
    """Everything but mirror pods and those of DaemonSets goes."""
    return drain_row(
        NAME,
        node.key,
        node.key,
        options=DrainOptions(force=True, delete_local_data=True, any_daemonset=True, force_ending=options.force),
        rules=options.rules,
        since=node.created_at or LONG_AGO,
        reporter=REPORTER,
    )


def _deletion(node: NodeRow, options: Options, view: View, now: datetime) -> tuple[tuple[Action, ...], datetime | None]:
    """Asked for again for as long as the Node is there: that the cloud has agreed does not mean that it is done."""
    name = f"{CHANNEL}/{node.key.name}/{node.uid}"
    outcome = view.outcome(name)
    said: tuple[Action, ...] = ()
    if outcome is not None and outcome.state == "failed":
        (said,) = _failed(node, f"the server cannot be deleted: {outcome.error}")
    match outcome:
        case Value(state="pending"):
            return (), None
        case Value(value=datetime() as at) if now < at + options.pace_for:
            return said, at + options.pace_for
    return (*said, Send(name, CHANNEL, ServerDeletion(node.key.name, options.secret))), None


def _reasons(node: NodeRow, drain: DrainRow, state: Progress, view: View, now: datetime) -> tuple[Reason, ...]:
    because = explained(view, drain, state, now)
    text = "its server is to be deleted" + (", once it is empty" if because else "")
    return (Reason("delete-node", node.key, text, because=because),)


def _waits(node: NodeRow, claim: Claim, view: View) -> tuple[Reason, ...]:
    because = refusals(view, NAME, claim)
    return (Reason("delete-node", node.key, "its server is to be deleted: waits", because=because),)


def _rests(node: NodeRow, version: str, *, needs_update: bool) -> tuple[Reason, ...]:
    text = (
        f"its kubelet is {node.kubelet_version}, the API server {version}: {UPDATE_LABEL}={str(needs_update).lower()}"
    )
    return (Reason("at-rest", node.key, f"{text}, and its server stays"),)


def _unknown(node: NodeRow, error: str) -> tuple[Reason, ...]:
    why = Reason("fact-awaited", node.key, error or "the API server has not said yet which version it is")
    return (Reason("kubernikus", node.key, "nothing is begun while versions are not known", because=(why,)),)
