"""The decision about a Kubernikus node: the label of an outdated kubelet, and the deletion of its server.

See decision 0016.
"""

from __future__ import annotations

from datetime import datetime

from haulout.base.semver import SemverError, Version
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import FactDemand, View
from haulout.core import cordon
from haulout.core.action import Annotate, Label, NodeEdit, Release, Say
from haulout.core.decision import NOTHING, Decision
from haulout.core.drain.options import DrainOptions
from haulout.core.emptying import Emptying, Repeated, empty_then_act, node_claim
from haulout.core.holds import Claim, is_granted
from haulout.model.meta import wire_time
from haulout.surfaces.kubernikus.options import Options
from haulout.surfaces.kubernikus.present import deleting, resting, unknown, waiting
from haulout.surfaces.kubernikus.wire import (
    BEGUN_AT,
    CHANNEL,
    DELETE_LABEL,
    NAME,
    REPORTER,
    UPDATE_LABEL,
    VERSION_PROBE,
    ServerDeletion,
)


def decide(key: Key, view: View, now: datetime) -> Decision:
    """Decide about one node: label an outdated kubelet, and delete the server if a label asks for it."""
    node, setting = view.get(key, NodeRow), view.config(NAME)
    if node is None:
        return NOTHING
    claims = (_claim(node),) if node.labels.get(DELETE_LABEL) == "true" else ()
    if setting is None or not isinstance(setting.value, Options):
        # Without settings nothing is done, but the claim keeps other surfaces off a node whose deletion has begun.
        return Decision(claims=tuple(claim for claim in claims if claim.begun))
    options = setting.value
    version = view.fact(FactDemand(VERSION_PROBE, "", options.pace_for))
    if not isinstance(version.value, str):
        failed = ((_failed(node, version.error),),) if version.error else ()
        return Decision(claims=claims, actions=failed, reasons=unknown(node, version.error) if view.explaining else ())
    try:
        needs_update = _version(node.kubelet_version) != _version(version.value)
    except SemverError as error:
        text = f"versions cannot be compared: {error}"
        reasons = unknown(node, text) if view.explaining else ()
        return Decision(claims=claims, actions=((_failed(node, text),),), reasons=reasons)
    label = Label(key, UPDATE_LABEL, str(needs_update).lower())
    edits: tuple[NodeEdit, ...] = (label,) if node.labels.get(UPDATE_LABEL) != label.value else ()
    if not claims:
        edits += _release(node, view, options)
        reasons = resting(node, version.value, needs_update=needs_update) if view.explaining else ()
        return Decision(actions=(edits,) if edits else (), reasons=reasons)
    return _delete(node, claims[0], edits, options, view, now)


def _claim(node: NodeRow) -> Claim:
    return node_claim(node, begun=node.unschedulable, slot="delete-node")


def _version(text: str) -> Version:
    """Return the parsed version, without the `v` before it."""
    return Version(text[1:])


def _failed(node: NodeRow, error: str) -> Say:
    return Say("kubernikus maintenance failed", (("node", node.key.name), ("error", error)), "error")


def _release(node: NodeRow, view: View, options: Options) -> tuple[NodeEdit, ...]:
    """Return the edits that uncordon a node whose deletion label was removed.

    The original leaves such a node cordoned, and so does the drop-in.
    """
    if options.alone:
        return ()
    forgotten = (Annotate(node.key, BEGUN_AT, None),) if BEGUN_AT in node.annotations else ()
    stood = cordon.ledger(node)
    if stood is None or NAME not in stood.by:
        return forgotten
    return (Release(node.key, NAME), *forgotten)


def _delete(
    node: NodeRow, claim: Claim, edits: tuple[NodeEdit, ...], options: Options, view: View, now: datetime
) -> Decision:
    """Cordon and drain the node, then delete its server. This is repeated while the Node exists.

    When the cloud accepts a deletion, the server is not gone yet.
    """
    if not claim.begun and not is_granted(view, NAME, claim):
        reasons = waiting(node, claim, view) if view.explaining else ()
        return Decision(actions=(edits,) if edits else (), claims=(claim,), reasons=reasons)
    if not options.alone and BEGUN_AT not in node.annotations:
        edits += (Annotate(node.key, BEGUN_AT, wire_time(now)),)
    drain = DrainOptions(force=True, delete_local_data=True, any_daemonset=True, force_ending=options.force)
    name = f"{CHANNEL}/{node.key.name}/{node.uid}"
    repeated = Repeated(name, CHANNEL, ServerDeletion(node.key.name, options.secret), options.pace_for)
    return empty_then_act(
        Emptying(NAME, REPORTER, node, drain, options.rules),
        view,
        now,
        claim=claim,
        edits=edits,
        act=lambda: repeated.send(view, now, lambda error: _failed(node, f"the server cannot be deleted: {error}")),
        reason=lambda because: deleting(node, because),
    )
