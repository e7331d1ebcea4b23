"""The reasons why a Skyhook is not complete, on one node and as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from haulout.base.number import digits
from haulout.cluster.key import node_key
from haulout.core.declaration import Rollout
from haulout.core.reason import Reason
from haulout.surfaces.packages.batches import Batch, is_in_flight
from haulout.surfaces.packages.eligibility import is_ignored
from haulout.surfaces.packages.halts import Course, Waiting, account
from haulout.surfaces.packages.outcome import Result
from haulout.surfaces.packages.plan import NAME_TAKEN, PlanRow
from haulout.surfaces.packages.pod_rows import PackagePodRow
from haulout.surfaces.packages.situation import Scene
from haulout.surfaces.packages.standing import Standing
from haulout.surfaces.packages.wire import ERRORING, IGNORE, PAUSED, SURFACE, SkyhookRow

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
    scene: Scene, before: tuple[Reason, ...], refusals: tuple[tuple[str, str], ...], *, is_ready: bool
) -> tuple[Reason, ...]:
    """Return why a Skyhook is not complete on a node: what keeps it from starting, its pods, and `before`.

    `refusals`: what may not run on the node, as reason codes and texts.
    """
    name, node = scene.plan.skyhook, scene.node.key
    refused = (Reason(code, node, text) for code, text in refusals)
    causes = (*_held_back(scene, is_ready=is_ready), *refused, *map(_of_pod, scene.pods), *before)
    text = f"Skyhook {name} is not complete on the node"
    return (Reason("skyhook-incomplete", node, text, because=causes),)


def _held_back(scene: Scene, *, is_ready: bool) -> Iterator[Reason]:
    plan, node = scene.plan, scene.node.key
    if plan.shows == PAUSED:
        yield Reason(
            "skyhook-paused", plan.owner, f"Skyhook {plan.skyhook} is paused", act=f"skyhook resume {plan.skyhook}"
        )
    elif plan.is_disabled:
        yield Reason(
            "skyhook-disabled", plan.owner, f"Skyhook {plan.skyhook} is disabled", act=f"skyhook enable {plan.skyhook}"
        )
    elif plan.problem:
        yield problem_of(plan)
    elif not plan.has_compartments:
        policy = plan.spec.deployment_policy
        yield Reason("policy-missing", plan.owner, f"DeploymentPolicy {policy} does not exist", act=f"create {policy}")
    elif not is_ready:
        yield Reason("predecessor-incomplete", node, "a Skyhook with a higher rank is not complete on the node yet")
    elif is_ignored(scene.node):
        act = f"kubectl label node {node.name} {IGNORE}-"
        yield Reason("node-ignored", node, f"the label {IGNORE} keeps Skyhooks from the node", act=act)
    elif not scene.may_run and scene.is_picked and not scene.has_foreign_metadata:
        yield Reason("taint-not-tolerated", node, "the node has a taint that the Skyhook does not tolerate")
    elif not scene.is_picked and plan.is_halted:
        yield Reason(
            "rollout-halted", plan.owner, "the rollout is halted", act=f"haulout explain skyhook {plan.skyhook}"
        )
    elif not scene.is_picked:
        yield Reason("batch-awaited", node, "its turn in the rollout has not come yet")


def problem_of(plan: PlanRow) -> Reason:
    """Return why a Skyhook may not act. It must have a problem."""
    act = f"rename Skyhook {plan.skyhook} or the package" if plan.problem_code == NAME_TAKEN else ""
    return Reason(plan.problem_code, plan.owner, plan.problem, act=act or f"correct Skyhook {plan.skyhook}")


def _of_pod(pod: PackagePodRow) -> Reason:
    assert pod.about is not None
    about, found = pod.about, pod.verdict
    what = f"package {about.name} {about.version}, stage {about.stage}"
    if found.result is not Result.FAILED:
        return Reason("package-running", pod.key, f"{what}: its pod {pod.key.name} has not ended")
    container = found.container
    restarts = "1 restart" if container.restarts == 1 else f"{container.restarts} restarts"
    text = f"{what}: container {container.name} fails: {container.cause} ({restarts})"
    act = f"kubectl logs -n {pod.key.namespace} {pod.key.name} -c {container.name}"
    return Reason("package-failing", pod.key, text, act=act)


def skyhook_reasons(
    row: SkyhookRow, plan: PlanRow, nodes: Sequence[Standing], batches: Sequence[Batch], course: Course
) -> tuple[Reason, ...]:
    """Return why a Skyhook is not complete: its problem, halted, waiting and stopped rollouts, then its incomplete nodes."""
    found = [problem_of(plan)] if plan.problem else []
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


def _halted(row: SkyhookRow, course: Course) -> Reason:
    assert course.halt is not None
    return Reason(
        "rollout-halted",
        row.key,
        account(row, course.halt),
        act=f"correct Skyhook {row.name}, or: skyhook deployment-policy reset {row.name}",
    )


def _awaited(row: SkyhookRow, waiting: Waiting) -> Reason:
    text = f"wave {waiting.wave.wave} of compartment {waiting.compartment} has not passed its gate: {waiting.why.text}"
    return Reason("gate-awaited", row.key, text, until=waiting.why.until)


def _has_stopped(batch: Batch) -> bool:
    return batch.status.batch_state is not None and batch.status.batch_state.should_stop


def _stopped(row: SkyhookRow, batch: Batch) -> Reason:
    text = f"the rollout of compartment {batch.name} has stopped: too many batches failed in a row"
    return Reason("rollout-stopped", row.key, text, act=f"skyhook deployment-policy reset {row.name}")


def _of_node(row: SkyhookRow, node: Standing) -> Reason:
    at = ", ".join(f"{entry.name} at {entry.stage}/{entry.state}" for entry in node.state.values())
    text = f"node {node.node} is {node.status or 'unknown'}" + (f": {at}" if at else "")
    key = node_key(node.node)
    failing = tuple(Reason("package-failing", key, text) for text in node.failures)
    refused = (Reason(code, key, text) for code, text in node.refusals)
    causes = (*failing, *refused, *(Reason("pod-holds-up", key, f"{why}: {pod}") for why, pod in node.blocked_by))
    code = "node-failing" if node.status == ERRORING else "node-incomplete"
    return Reason(code, node_key(node.node), text, because=causes, act=f"haulout explain {node.node}")
