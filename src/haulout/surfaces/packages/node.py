"""The decision about one node: every Skyhook that selects it is applied in order, and the edits become one patch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.action import Create, Delete, Patch, Step
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.surfaces.packages import node_names, taints
from haulout.surfaces.packages.around import Around, Visit
from haulout.surfaces.packages.config_maps import MetadataRow, metadata_of_node
from haulout.surfaces.packages.foreign_pods import FOREIGN_POD, foreign_pods
from haulout.surfaces.packages.hearing import PLAN_DECISION, await_first_answers
from haulout.surfaces.packages.node_draft import NodeDraft
from haulout.surfaces.packages.node_leaving import leave, orphans, release_vanished, vanished
from haulout.surfaces.packages.node_state import MalformedNodeState, parse
from haulout.surfaces.packages.node_status import condition_patch
from haulout.surfaces.packages.node_visit import visit
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.plan import ALL_PLANS, PlanRow
from haulout.surfaces.packages.pod_rows import PackagePodRow, package_pods_of_node
from haulout.surfaces.packages.prepull import is_pull
from haulout.surfaces.packages.wire import SURFACE


def decide(key: Key, view: View, now: datetime) -> Decision:
    setting = view.config(SURFACE)
    if setting is None:
        return NOTHING
    assert isinstance(setting.value, Options)
    node = view.get(key, NodeRow)
    if node is None or node.deleting_at is not None:
        return _without_node(key, view, setting.value)
    await_first_answers(view, PLAN_DECISION)
    plans = sorted(view.rows(ALL_PLANS, "", PlanRow), key=lambda plan: plan.rank)
    pods = tuple(view.rows(package_pods_of_node(setting.value.namespace), key.name, PackagePodRow))
    foreign = foreign_pods(view, setting.value, key.name)
    gone = () if setting.value.alone else vanished(node, view)
    if not plans and not pods and not foreign and not gone:
        return NOTHING
    return _decided(Around(view, now, setting.value, pods, foreign), node, plans, gone)


def _without_node(key: Key, view: View, options: Options) -> Decision:
    """Delete the metadata ConfigMaps of a node that does not exist any more.

    Kubernetes itself removes the node's pods.
    """
    kept = view.rows(metadata_of_node(options.namespace), key.name, MetadataRow)
    deletions = tuple(Delete(row.key, row.uid) for row in kept)
    return Decision(actions=(deletions,) if deletions else ())


def _decided(around: Around, node: NodeRow, plans: list[PlanRow], gone: tuple[str, ...]) -> Decision:
    draft = NodeDraft(node, around.view, keeps_ledger=not around.options.alone)
    selecting = [plan for plan in plans if _selects(plan, node) and (not plan.is_deleting or _uninstalls(plan, node))]
    draft.apply(taints.added_to_new(node, selecting, around.options.runtime_required))
    visits: list[Visit] = []
    predecessors_done = True
    for plan in plans:
        if plan in selecting:
            found = visit(plan, draft, node, around, is_ready=predecessors_done)
            predecessors_done = predecessors_done and (plan.is_disabled or _lets_others(plan, found))
        elif plan.selector is None and not plan.is_deleting:
            # The selector is invalid, so it is not known whether the Skyhook selects the node, and nothing changes.
            found = Visit()
        else:
            found = leave(plan, draft, node, around)
            predecessors_done = predecessors_done and not _holds_back(plan)
        visits.append(found)
    required = (
        found.is_complete
        for plan, found in zip(plans, visits, strict=True)
        if plan in selecting and plan.spec.runtime_required
    )
    draft.apply(taints.removed_when_complete(draft.node, required, around.options.runtime_required))
    visits += [release_vanished(skyhook, draft, node, around) for skyhook in gone]
    visits.append(orphans(around, {plan.skyhook for plan in plans}, draft))
    visits.append(Visit(old_pods=tuple(_unneeded_pulls(around, visits))))
    return Decision(
        actions=tuple(_steps(draft, visits)),
        until=earliest(*(found.until for found in visits)),
        marks=tuple(mark for found in visits for mark in found.marks),
        reasons=tuple(reason for found in visits for reason in found.reasons),
    )


def _unneeded_pulls(around: Around, visits: list[Visit]) -> Iterator[PackagePodRow]:
    """Yield the pods that pull images and that no Skyhook on the node needs any more."""
    kept = {found.kept_pull for found in visits}
    for pod in around.pods:
        if is_pull(pod, around.options) and pod.deleting_at is None and pod.key not in kept:
            yield pod


def _selects(plan: PlanRow, node: NodeRow) -> bool:
    return plan.selector is not None and plan.selector.matches(node.labels)


def _uninstalls(plan: PlanRow, node: NodeRow) -> bool:
    """Whether a Skyhook that is being deleted has something to uninstall on the node."""
    if not plan.is_uninstalling:
        return False
    try:
        return not plan.is_done(parse(node.annotations.get(node_names.node_state(plan.skyhook), "{}")))
    except MalformedNodeState:
        return True


def _lets_others(plan: PlanRow, found: Visit) -> bool:
    """Whether the Skyhooks after this one may begin. A refused one holds up only nodes on which it has begun."""
    is_over = found.is_complete or (plan.is_refused and not found.has_begun)
    return is_over and not _holds_back(plan)


def _holds_back(plan: PlanRow) -> bool:
    """Whether the Skyhooks after this one must wait until it is complete on all nodes, not only on this one."""
    may_act = not (plan.is_disabled or plan.is_deleting or plan.is_refused)
    return plan.spec.sequencing == "all" and not plan.is_complete and may_act


def _steps(draft: NodeDraft, visits: list[Visit]) -> Iterator[Step]:
    """Yield the steps: entries are stored before pods are created for them, and results before pods are deleted."""
    edits = draft.edits()
    conditions = condition_patch(draft.node, [each for found in visits for each in found.conditions])
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
    made = [pod for found in visits for pod in found.new_pods]
    over = [pod for found in visits for pod in found.old_pods]
    deletions = [Delete(pod.key, pod.uid) for pod in over if pod.key.kind != FOREIGN_POD]
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
