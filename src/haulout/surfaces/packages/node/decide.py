"""The decision about one node: every Skyhook that selects it is applied in order, and the edits become one patch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.action import Create, Delete, Patch, Step
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.surfaces.packages.entries.entry import MalformedNodeState, parse
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.node import taints
from haulout.surfaces.packages.node.concerns import concerning
from haulout.surfaces.packages.node.draft import NodeDraft
from haulout.surfaces.packages.node.leaving import leave, orphans, release_vanished, vanished_skyhooks
from haulout.surfaces.packages.node.prefixes import inner, outer_conditions
from haulout.surfaces.packages.node.pulls import is_pull
from haulout.surfaces.packages.node.situation import NodeSituation
from haulout.surfaces.packages.node.status import condition_patch
from haulout.surfaces.packages.node.visit import visit
from haulout.surfaces.packages.node.work import VisitResult
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.config_maps import MetadataRow, metadata_of_node
from haulout.surfaces.packages.pods.foreign_rows import FOREIGN_POD, foreign_pods
from haulout.surfaces.packages.pods.jobs import PackageJobRow, can_run_jobs, jobs_of_node, recorded_job, removal_of
from haulout.surfaces.packages.pods.rows import PackagePodRow, package_pods_of_node
from haulout.surfaces.packages.pods.unlabelled import labelled_metadata
from haulout.surfaces.packages.pods.verdict import PodResult
from haulout.surfaces.packages.skyhook.hearing import INTENT_DECISIONS, await_first_answers
from haulout.surfaces.packages.skyhook.intent import Intent
from haulout.surfaces.packages.skyhook.reach import ALL_HOLDERS, ALL_REACHES, Holder, Reach
from haulout.surfaces.packages.wire import SURFACE


def decide(key: Key, view: View, now: datetime) -> Decision:
    setting = view.config(SURFACE)
    if setting is None:
        return NOTHING
    assert isinstance(setting.value, Options)
    node = view.get(key, NodeRow)
    if node is None or node.deleting_at is not None:
        return _without_node(key, view, setting.value)
    for decision in INTENT_DECISIONS:
        await_first_answers(view, decision)
    reaches = view.rows(ALL_REACHES, "", Reach)
    namespace = setting.value.namespace
    pods = (
        *view.rows(package_pods_of_node(namespace), key.name, PackagePodRow),
        *jobs_of_node(view, namespace, key.name),
    )
    foreign = foreign_pods(view, setting.value, key.name)
    intents = concerning(node, reaches, pods, view, setting.value) if reaches else []
    homes = {intent.skyhook: intent.home for intent in intents}
    gone = () if setting.value.alone else vanished_skyhooks(inner(node, homes), view)
    if not intents and not pods and not foreign and not gone:
        return NOTHING
    known = frozenset(reach.skyhook for reach in reaches)
    draft = NodeDraft(node, view, homes, keeps_ledger=not setting.value.alone)
    situation = NodeSituation(
        view, now, setting.value, pods, foreign, known, can_run_jobs=can_run_jobs(view, namespace)
    )
    answer = _decided(situation, draft, intents, gone)
    if unlabelled := labelled_metadata(view, namespace, key.name):
        # Without these labels the ConfigMaps are not seen, and would be created again.
        return msgspec.structs.replace(answer, actions=(unlabelled,))
    return answer


def _without_node(key: Key, view: View, options: Options) -> Decision:
    """Delete the metadata ConfigMaps of a node that does not exist any more.

    Kubernetes itself removes the node's pods.
    """
    kept = view.rows(metadata_of_node(options.namespace), key.name, MetadataRow)
    deletions = tuple(Delete(row.key, row.uid) for row in kept)
    return Decision(actions=(deletions,) if deletions else ())


def _decided(shared: NodeSituation, draft: NodeDraft, intents: list[Intent], gone: tuple[str, ...]) -> Decision:
    node = draft.node
    selecting = [
        intent for intent in intents if intent.selects(node) and (not intent.is_deleting or _uninstalls(intent, node))
    ]
    draft.apply(taints.added_to_new(draft.node, selecting, shared.options))
    draft.apply(taints.uncordoned_by_hand(draft.node))
    visits: list[VisitResult] = []
    holder = _first_holder(shared.view) if selecting else None
    predecessors_done = True
    for intent in intents:
        if intent in selecting:
            is_ready = predecessors_done and (holder is None or holder >= intent.rank)
            found = visit(intent, draft, node, shared, is_ready=is_ready)
            predecessors_done = predecessors_done and (intent.is_disabled or _lets_others(intent, found))
        elif intent.selector is None and not intent.is_deleting:
            # The selector is invalid, so it is not known whether the Skyhook selects the node, and nothing changes.
            found = VisitResult()
        else:
            found = leave(intent, draft, node, shared)
        visits.append(found)
    required = (
        found.is_complete
        for intent, found in zip(intents, visits, strict=True)
        if intent in selecting and intent.spec.runtime_required
    )
    if draft.apply(taints.removed_when_complete(draft.node, required, shared.options.taints)):
        draft.apply(taints.cordoned_after(draft.node, selecting))
    visits += [release_vanished(skyhook, draft, node, shared) for skyhook in gone]
    visits.append(orphans(shared, draft))
    visits.append(VisitResult(old_pods=tuple(_unneeded_pulls(shared, visits))))
    return Decision(
        actions=tuple(_steps(draft, visits, shared.options)),
        until=earliest(*(found.until for found in visits)),
        marks=tuple(mark for found in visits for mark in found.marks),
        reasons=tuple(reason for found in visits for reason in found.reasons),
    )


def _unneeded_pulls(shared: NodeSituation, visits: list[VisitResult]) -> Iterator[PackagePodRow]:
    """Yield the pods that pull images and that no Skyhook on the node needs any more."""
    kept = {found.kept_pull for found in visits}
    for pod in shared.pods:
        if is_pull(pod, shared.options) and pod.deleting_at is None and pod.key not in kept:
            yield pod


def _first_holder(view: View) -> tuple[int, str] | None:
    """Return the rank of the first Skyhook that holds back all later ones, whether or not it selects the node."""
    return min((each.rank for each in view.rows(ALL_HOLDERS, "", Holder)), default=None)


def _is_to_be_recorded(pod: PackagePodRow) -> bool:
    """Whether a Job is over and stays for a while, so that people can read its log."""
    return isinstance(pod, PackageJobRow) and pod.verdict.result is PodResult.SUCCEEDED and not pod.is_recorded


def _uninstalls(intent: Intent, node: NodeRow) -> bool:
    """Whether a Skyhook that is being deleted has something to uninstall on the node."""
    if not intent.is_uninstalling:
        return False
    try:
        return not intent.is_done(parse(node.annotations.get(node_names.node_state(intent.skyhook), "{}")))
    except MalformedNodeState:
        return True


def _lets_others(intent: Intent, found: VisitResult) -> bool:
    """Whether the Skyhooks after this one may begin on the node.

    One that cannot go on, because it is refused or its entries cannot be read, holds up only nodes that it works on.
    """
    return found.is_complete or ((intent.is_refused or found.is_malformed) and not found.is_at_work)


def _steps(draft: NodeDraft, visits: list[VisitResult], options: Options) -> Iterator[Step]:
    """Yield the steps: entries are stored before pods are created for them, and results before pods are deleted."""
    edits = draft.edits()
    changed = outer_conditions((each for found in visits for each in found.conditions), draft.stored, draft.homes)
    conditions = condition_patch(draft.stored, changed)
    if draft.is_newly_cordoned:
        # After a cordon the node controller adds a taint, and a status patch right after it would conflict with that.
        # So it goes first.
        if conditions:
            yield conditions
        conditions = ()
    elif edits and not draft.is_spec_changed:
        # If the edits only change metadata, they and the conditions fit into one step.
        edits, conditions = (*edits, *conditions), ()
    if edits:
        yield (*edits, *draft.tells)
    config_maps: list[Create | Patch | Delete] = [each for found in visits for each in found.config_maps]
    if config_maps:
        yield tuple(config_maps)
    if patches := tuple(each for found in visits for each in found.patches):
        yield patches
    made = [pod for found in visits for pod in found.new_pods]
    over = [pod for found in visits for pod in found.old_pods]
    succeeded = [pod for pod in over if _is_to_be_recorded(pod)]
    if succeeded:
        yield tuple(recorded_job(pod, options) for pod in succeeded if isinstance(pod, PackageJobRow))
    ended = (pod for pod in over if pod not in succeeded and pod.key.kind != FOREIGN_POD)
    deletions = [removal_of(pod) if pod.is_job else Delete(pod.key, pod.uid) for pod in ended]
    deletions += [Delete(*each) for found in visits for each in found.surplus]
    if made or deletions:
        yield (
            *(Create(pod.key, pod.body) for pod in made),
            *deletions,
            *(tell for pod in made for tell in pod.tells),
        )
    if conditions:
        yield conditions
    stated = [tell for found in visits for tell in found.statements]
    if stated:
        yield tuple(stated)
    # The operator may lack the right to delete pods in other namespaces, and a refusal withholds the later steps. So
    # this comes last.
    if foreign := tuple(Delete(pod.key, pod.uid) for pod in over if pod.key.kind == FOREIGN_POD):
        yield foreign
