"""The reasons why a Skyhook or NodeWright is not complete, on one node and as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from haulout.base.number import digits
from haulout.cluster.key import node_key
from haulout.cluster.store import Store
from haulout.core.declaration import Rollout
from haulout.core.reason import Reason
from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT
from haulout.surfaces.packages.node.eligibility import is_ignored
from haulout.surfaces.packages.node.situation import VisitSituation
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.pods.rows import PackagePodRow
from haulout.surfaces.packages.pods.verdict import PodResult
from haulout.surfaces.packages.skyhook.batches import CompartmentBatch, is_in_flight
from haulout.surfaces.packages.skyhook.halts import GateCourse, GateWait, account
from haulout.surfaces.packages.skyhook.intent import NAME_TAKEN, Intent
from haulout.surfaces.packages.units.unit import leader_and_other
from haulout.surfaces.packages.wire import COMPLETE, ERRORING, IGNORE, PAUSED, SURFACE, SkyhookRow, skyhook_key

MOST_NODES = 10
# People can write a status. A number with more digits is not a count of nodes.
MOST_DIGITS = 10


def rollout_of(row: SkyhookRow, store: Store) -> Rollout | None:
    """Return the progress of a rollout, from the status of the object that leads; None for the one that follows."""
    pair = [found for group in GROUPS if isinstance(found := store.row(skyhook_key(row.name, group)), SkyhookRow)]
    if len(pair) == len(GROUPS) and leader_and_other(*pair)[0].key != row.key:
        return None
    status = row.status
    done, _, total = status.complete_nodes.partition("/")
    return Rollout(
        surface=SURFACE,
        object=f"{row.group.word}/{row.name}",
        state=status.status or "new",
        total=digits(total, MOST_DIGITS) or 0,
        done=digits(done, MOST_DIGITS) or 0,
        at_work=status.nodes_in_progress,
    )


def follower_reason(leader: SkyhookRow, row: SkyhookRow) -> Reason:
    """Return why nothing can be said of an object on its own: the other object of its name leads."""
    text = f"{leader.group.kind} {leader.name} leads: its spec is in force, and this object shows its status"
    return Reason("follows-other-group", row.key, text, act=f"haulout explain {leader.group.word} {leader.name}")


def node_reasons(
    situation: VisitSituation, before: tuple[Reason, ...], refusals: tuple[tuple[str, str], ...], *, is_ready: bool
) -> tuple[Reason, ...]:
    """Return why a Skyhook is not complete on a node: what keeps it from starting, its pods, and `before`.

    `refusals`: what may not run on the node, as reason codes and texts.
    """
    node = situation.node.key
    refused = (Reason(code, node, text) for code, text in refusals)
    causes = (*_held_back(situation, is_ready=is_ready), *refused, *map(_of_pod, situation.pods), *before)
    text = f"{_named(situation.intent)} is not complete on the node"
    return (Reason("skyhook-incomplete", node, text, because=causes),)


def _held_back(situation: VisitSituation, *, is_ready: bool) -> Iterator[Reason]:
    intent, node = situation.intent, situation.node.key
    if intent.shows == PAUSED:
        yield Reason(
            "skyhook-paused",
            intent.owner,
            f"{_named(intent)} is paused",
            act=f"{intent.group.word} resume {intent.skyhook}",
        )
    elif intent.is_disabled:
        yield Reason(
            "skyhook-disabled",
            intent.owner,
            f"{_named(intent)} is disabled",
            act=f"{intent.group.word} enable {intent.skyhook}",
        )
    elif intent.problem:
        yield problem_of(intent)
    elif not intent.has_compartments:
        policy = intent.spec.deployment_policy
        yield Reason(
            "policy-missing", intent.owner, f"DeploymentPolicy {policy} does not exist", act=f"create {policy}"
        )
    elif not is_ready:
        yield Reason(
            "predecessor-incomplete",
            node,
            f"another {intent.group.kind} with a higher rank is not complete on the node yet",
        )
    elif is_ignored(situation.node):
        # A NodeWright also heeds the label of Skyhooks.
        labels = [group.named(IGNORE) for group in (GROUPS if intent.group is NODEWRIGHT else GROUPS[:1])]
        act = f"kubectl label node {node.name} {' '.join(f'{label}-' for label in labels)}"
        text = f"the label {' or '.join(labels)} keeps {intent.group.kind}s from the node"
        yield Reason("node-ignored", node, text, act=act)
    elif not situation.may_run and situation.is_picked and not situation.has_foreign_metadata:
        yield Reason("taint-not-tolerated", node, f"the node has a taint that {_named(intent)} does not tolerate")
    elif not situation.is_picked and intent.is_halted:
        yield Reason(
            "rollout-halted",
            intent.owner,
            "the rollout is halted",
            act=f"haulout explain {intent.group.word} {intent.skyhook}",
        )
    elif not situation.is_picked:
        yield Reason("batch-awaited", node, "its turn in the rollout has not come yet")


def problem_of(intent: Intent) -> Reason:
    """Return why a Skyhook may not act. It must have a problem."""
    act = f"rename {_named(intent)} or the package" if intent.problem_code == NAME_TAKEN else ""
    return Reason(intent.problem_code, intent.owner, intent.problem, act=act or f"correct {_named(intent)}")


def _named(intent: Intent) -> str:
    return f"{intent.group.kind} {intent.skyhook}"


def _of_pod(pod: PackagePodRow) -> Reason:
    assert pod.about is not None
    about, found = pod.about, pod.verdict
    what = f"package {about.name} {about.version}, stage {about.stage}"
    log = log_command(pod)
    if found.result is not PodResult.FAILED:
        kind, act = ("Job", log) if pod.is_job else ("pod", "")
        suspended = " and is suspended" if pod.is_suspended else ""
        text = f"{what}: its {kind} {pod.key.name} has not ended{suspended}"
        return Reason("package-running", pod.key, text, act=act)
    container = found.container
    restarts = "1 restart" if container.restarts == 1 else f"{container.restarts} restarts"
    text = f"{what}: container {container.name} fails: {container.cause} ({restarts})"
    if pod.is_job:
        state = "has failed for good" if pod.has_ended else "tries again"
        text = f"{text}; its Job {pod.key.name} {state}"
    return Reason("package-failing", pod.key, text, act=log)


def log_command(pod: PackagePodRow) -> str:
    """Return the command that prints the log of a package's pod or Job."""
    container = pod.verdict.container.name
    if pod.is_job:
        return f"kubectl logs -n {pod.key.namespace} job/{pod.key.name} --all-containers"
    return f"kubectl logs -n {pod.key.namespace} {pod.key.name} -c {container}"


def skyhook_reasons(
    row: SkyhookRow,
    intent: Intent,
    nodes: Sequence[NodeStanding],
    batches: Sequence[CompartmentBatch],
    course: GateCourse,
) -> tuple[Reason, ...]:
    """Return why a Skyhook is not complete: its problem, halted, waiting and stopped rollouts, then its incomplete nodes."""
    found = [problem_of(intent)] if intent.problem else []
    found += [_halted(row, course)] if course.halt is not None else []
    found += [_awaited(row, each) for each in course.waiting]
    found += [_stopped(row, batch) for batch in batches if _has_stopped(batch)]
    incomplete = [node for node in nodes if not node.is_complete]
    picked = row.status.node_priority
    incomplete.sort(key=lambda node: (node.status != ERRORING, not is_in_flight(node, picked), node.age))
    found += [_of_node(row, node) for node in incomplete[:MOST_NODES]]
    if len(incomplete) > MOST_NODES:
        found.append(Reason("more-nodes", row.key, f"and {len(incomplete) - MOST_NODES} more nodes"))
    return tuple(found)


def _halted(row: SkyhookRow, course: GateCourse) -> Reason:
    assert course.halt is not None
    return Reason(
        "rollout-halted",
        row.key,
        account(row, course.halt),
        act=f"correct {row.group.kind} {row.name}, or: {row.group.word} deployment-policy reset {row.name}",
    )


def _awaited(row: SkyhookRow, waiting: GateWait) -> Reason:
    text = f"wave {waiting.wave.wave} of compartment {waiting.compartment} has not passed its gate: {waiting.why.text}"
    return Reason("gate-awaited", row.key, text, until=waiting.why.until)


def _has_stopped(batch: CompartmentBatch) -> bool:
    return batch.status.batch_state is not None and batch.status.batch_state.should_stop


def _stopped(row: SkyhookRow, batch: CompartmentBatch) -> Reason:
    text = f"the rollout of compartment {batch.name} has stopped: too many batches failed in a row"
    return Reason("rollout-stopped", row.key, text, act=f"{row.group.word} deployment-policy reset {row.name}")


def _of_node(row: SkyhookRow, node: NodeStanding) -> Reason:
    at = ", ".join(f"{entry.name} at {entry.stage}/{entry.state}" for entry in node.state.values())
    # Its status is about the packages of before until the node has begun with those of now.
    standing = "not up to date" if node.status == COMPLETE else node.status or "unknown"
    text = f"node {node.node} is {standing}" + (f": {at}" if at else "")
    key = node_key(node.node)
    failing = tuple(Reason("package-failing", key, text) for text in node.failures)
    refused = (Reason(code, key, text) for code, text in node.refusals)
    causes = (*failing, *refused, *(Reason("pod-holds-up", key, f"{why}: {pod}") for why, pod in node.blocked_by))
    code = "node-failing" if node.status == ERRORING else "node-incomplete"
    return Reason(code, node_key(node.node), text, because=causes, act=f"haulout explain {node.node}")
