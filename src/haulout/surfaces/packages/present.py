"""The reasons why a Skyhook is not complete, on one node and as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from haulout.base.number import digits
from haulout.cluster.key import node_key
from haulout.core.declaration import Rollout
from haulout.core.reason import Reason
from haulout.surfaces.packages.node.eligibility import is_ignored
from haulout.surfaces.packages.node.situation import VisitSituation
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.pods.rows import PackagePodRow
from haulout.surfaces.packages.pods.verdict import PodResult
from haulout.surfaces.packages.skyhook.batches import CompartmentBatch, is_in_flight
from haulout.surfaces.packages.skyhook.halts import GateCourse, GateWait, account
from haulout.surfaces.packages.skyhook.intent import NAME_TAKEN, Intent
from haulout.surfaces.packages.wire import COMPLETE, ERRORING, IGNORE, PAUSED, SURFACE, SkyhookRow

MOST_NODES = 10
# People can write a status. A number with more digits is not a count of nodes.
MOST_DIGITS = 10


def rollout_of(row: SkyhookRow) -> Rollout:
    """Return the progress of a Skyhook's rollout, from its status."""
    status = row.status
    done, _, total = status.complete_nodes.partition("/")
    return Rollout(
        surface=SURFACE,
        object=f"skyhook/{row.name}",
        state=status.status or "new",
        total=digits(total, MOST_DIGITS) or 0,
        done=digits(done, MOST_DIGITS) or 0,
        at_work=status.nodes_in_progress,
    )


def node_reasons(
    situation: VisitSituation, before: tuple[Reason, ...], refusals: tuple[tuple[str, str], ...], *, is_ready: bool
) -> tuple[Reason, ...]:
    """Return why a Skyhook is not complete on a node: what keeps it from starting, its pods, and `before`.

    `refusals`: what may not run on the node, as reason codes and texts.
    """
    name, node = situation.intent.skyhook, situation.node.key
    refused = (Reason(code, node, text) for code, text in refusals)
    causes = (*_held_back(situation, is_ready=is_ready), *refused, *map(_of_pod, situation.pods), *before)
    text = f"Skyhook {name} is not complete on the node"
    return (Reason("skyhook-incomplete", node, text, because=causes),)


def _held_back(situation: VisitSituation, *, is_ready: bool) -> Iterator[Reason]:
    intent, node = situation.intent, situation.node.key
    if intent.shows == PAUSED:
        yield Reason(
            "skyhook-paused",
            intent.owner,
            f"Skyhook {intent.skyhook} is paused",
            act=f"skyhook resume {intent.skyhook}",
        )
    elif intent.is_disabled:
        yield Reason(
            "skyhook-disabled",
            intent.owner,
            f"Skyhook {intent.skyhook} is disabled",
            act=f"skyhook enable {intent.skyhook}",
        )
    elif intent.problem:
        yield problem_of(intent)
    elif not intent.has_compartments:
        policy = intent.spec.deployment_policy
        yield Reason(
            "policy-missing", intent.owner, f"DeploymentPolicy {policy} does not exist", act=f"create {policy}"
        )
    elif not is_ready:
        yield Reason("predecessor-incomplete", node, "a Skyhook with a higher rank is not complete on the node yet")
    elif is_ignored(situation.node):
        act = f"kubectl label node {node.name} {IGNORE}-"
        yield Reason("node-ignored", node, f"the label {IGNORE} keeps Skyhooks from the node", act=act)
    elif not situation.may_run and situation.is_picked and not situation.has_foreign_metadata:
        yield Reason("taint-not-tolerated", node, "the node has a taint that the Skyhook does not tolerate")
    elif not situation.is_picked and intent.is_halted:
        yield Reason(
            "rollout-halted", intent.owner, "the rollout is halted", act=f"haulout explain skyhook {intent.skyhook}"
        )
    elif not situation.is_picked:
        yield Reason("batch-awaited", node, "its turn in the rollout has not come yet")


def problem_of(intent: Intent) -> Reason:
    """Return why a Skyhook may not act. It must have a problem."""
    act = f"rename Skyhook {intent.skyhook} or the package" if intent.problem_code == NAME_TAKEN else ""
    return Reason(intent.problem_code, intent.owner, intent.problem, act=act or f"correct Skyhook {intent.skyhook}")


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
        act=f"correct Skyhook {row.name}, or: skyhook deployment-policy reset {row.name}",
    )


def _awaited(row: SkyhookRow, waiting: GateWait) -> Reason:
    text = f"wave {waiting.wave.wave} of compartment {waiting.compartment} has not passed its gate: {waiting.why.text}"
    return Reason("gate-awaited", row.key, text, until=waiting.why.until)


def _has_stopped(batch: CompartmentBatch) -> bool:
    return batch.status.batch_state is not None and batch.status.batch_state.should_stop


def _stopped(row: SkyhookRow, batch: CompartmentBatch) -> Reason:
    text = f"the rollout of compartment {batch.name} has stopped: too many batches failed in a row"
    return Reason("rollout-stopped", row.key, text, act=f"skyhook deployment-policy reset {row.name}")


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
