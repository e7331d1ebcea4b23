"""What happens to a node that a Skyhook leaves, and to pods whose Skyhook does not exist."""

from __future__ import annotations

from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core import cordon
from haulout.core.action import Delete
from haulout.core.cordon_remains import CODE as LEFT_BEHIND
from haulout.core.reason import Reason
from haulout.surfaces.packages.entries.entry import MalformedNodeState, NodeState, entry_key, parse, to_text
from haulout.surfaces.packages.groups import NODEWRIGHT
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.node import status as node_status
from haulout.surfaces.packages.node.cordoning import releasing
from haulout.surfaces.packages.node.draft import NodeDraft
from haulout.surfaces.packages.node.names import CORDON_PREFIX
from haulout.surfaces.packages.node.pod_results import orphan_result
from haulout.surfaces.packages.node.situation import NodeSituation
from haulout.surfaces.packages.node.status import NodeCondition
from haulout.surfaces.packages.node.work import VisitResult
from haulout.surfaces.packages.pods.bodies import About
from haulout.surfaces.packages.pods.config_maps import MetadataRow, metadata_key
from haulout.surfaces.packages.pods.rows import PackagePodRow
from haulout.surfaces.packages.pods.verdict import PodResult
from haulout.surfaces.packages.skyhook.intent import Intent
from haulout.surfaces.packages.wire import objects_of

# Pods of other namespaces add no more once a node has entries of this many Skyhooks, or this many entries of one.
MOST_OF_OTHERS = 10


def leave(intent: Intent, draft: NodeDraft, node: NodeRow, shared: NodeSituation) -> VisitResult:
    """Remove a Skyhook's marks, cordon and conditions from a node. The entries of its packages stay."""
    skyhook = intent.skyhook
    conditions = _without_marks(skyhook, draft, node, shared, deleted=intent.is_deleting)
    if intent.is_deleting and intent.group is NODEWRIGHT:
        draft.annotate(node_names.node_state(skyhook), None)
    pods = () if intent.is_deleting else tuple(pod for pod in shared.pods if _is_of(pod, intent))
    kept = shared.view.get(metadata_key(shared.options.namespace, skyhook, node.key.name), MetadataRow)
    if kept is not None and not kept.is_of(skyhook, node.key.name):
        kept = None
    return VisitResult(
        old_pods=tuple(pod for pod in pods if pod.deleting_at is None),
        config_maps=(Delete(kept.key, kept.uid),) if kept is not None and not intent.is_deleting else (),
        conditions=conditions,
    )


def _without_marks(
    skyhook: str, draft: NodeDraft, node: NodeRow, shared: NodeSituation, *, deleted: bool
) -> tuple[NodeCondition, ...]:
    """Remove a Skyhook's marks and cordon from the draft. Return the conditions of the node to clear."""
    draft.apply(releasing(draft.node, skyhook, alone=shared.options.alone))
    for name in node_names.released_annotations(skyhook, deleted=deleted):
        draft.annotate(name, None)
    draft.label(node_names.status(skyhook), None)
    return node_status.cleared_conditions(node, skyhook)


def vanished_skyhooks(node: NodeRow, view: View) -> tuple[str, ...]:
    """Return the Skyhooks whose cordon is on the node and that do not exist, because they lost their finalizer."""
    names = (name.removeprefix(CORDON_PREFIX) for name in node.annotations if name.startswith(CORDON_PREFIX))
    return tuple(sorted(name for name in names if not objects_of(view, name)))


def release_vanished(skyhook: str, draft: NodeDraft, node: NodeRow, shared: NodeSituation) -> VisitResult:
    """End the cordon of a Skyhook that does not exist, as its deletion would have done, once its pods have ended.

    Without a ledger it is not known whether a person had cordoned the node, so that a person has to uncordon it. The marks
    are removed afterwards.
    """
    if any(pod.skyhook == skyhook for pod in shared.pods):
        return VisitResult()
    if node.unschedulable and cordon.believed_ledger(node, is_held=True) is None:
        return VisitResult(reasons=(_left_cordoned(skyhook, node),) if shared.view.explaining else ())
    return VisitResult(conditions=_without_marks(skyhook, draft, node, shared, deleted=True))


def _left_cordoned(skyhook: str, node: NodeRow) -> Reason:
    """Return the reason for a cordon without a ledger, which `haulout let-go` would not lift either."""
    text = f"Skyhook {skyhook}, which no longer exists, cordoned it; nothing says whether it was cordoned before"
    act = f"check that the work on it is over, then run: haulout uncordon {node.key.name}"
    return Reason(LEFT_BEHIND, node.key, text, act=act)


def has_remains(intent: Intent, node: NodeRow) -> bool:
    """Whether the node carries marks of a deleted Skyhook that must be removed with it."""
    skyhook = intent.skyhook
    marks = (
        *node_names.released_annotations(skyhook, deleted=True),
        node_names.cordon(skyhook),
        node_names.cordon_before(skyhook),
    )
    if intent.group is NODEWRIGHT:
        marks = (*marks, node_names.node_state(skyhook))
    if node_names.status(skyhook) in node.labels or any(mark in node.annotations for mark in marks):
        return True
    return bool(node_status.cleared_conditions(node, skyhook))


def _is_of(pod: PackagePodRow, intent: Intent) -> bool:
    return pod.about is not None and pod.skyhook == intent.skyhook


def orphans(shared: NodeSituation, draft: NodeDraft) -> VisitResult:
    """Record the results of pods whose Skyhook does not exist, and return the pods to delete."""
    over: list[PackagePodRow] = []
    for pod in (*shared.pods, *shared.foreign):
        if pod.about is None or pod.about.skyhook in shared.known or pod.deleting_at is not None:
            continue
        if objects_of(shared.view, pod.about.skyhook):
            # The Skyhook exists but has no intent, so it is not known what must follow from the pod's result.
            continue
        name = node_names.node_state(pod.about.skyhook)
        try:
            state = parse(draft.node.annotations.get(name, "{}"))
        except MalformedNodeState:
            continue
        if pod in shared.foreign and not _has_room(draft, name, state, pod.about):
            continue
        if pod.about.invalid:
            over.append(pod)
            continue
        changed = orphan_result(state, pod, pod.about, shared.options)
        if changed != state:
            draft.annotate(name, to_text(changed))
        if pod.verdict.result is PodResult.SUCCEEDED:
            over.append(pod)
    return VisitResult(old_pods=tuple(over))


def _has_room(draft: NodeDraft, name: str, state: NodeState, about: About) -> bool:
    """Whether a pod of another namespace may add its entry to the node.

    Without this bound, tenants could fill the 256 KiB that a node has for annotations.
    """
    known = [each for each in draft.node.annotations if each.startswith(node_names.NODE_STATE_PREFIX)]
    has_entry = entry_key(about.name, about.version) in state or len(state) < MOST_OF_OTHERS
    return has_entry and (name in known or len(known) < MOST_OF_OTHERS)
