"""The conditions in the status of a Skyhook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from haulout.core.kstatus import READY, RECONCILING, STALLED
from haulout.model.meta import Condition
from haulout.surfaces.packages.entries.stages import LEAVING, is_unwanted
from haulout.surfaces.packages.groups import SKYHOOK, Group
from haulout.surfaces.packages.node.interrupt_gate import NON_INTERRUPT
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.skyhook import halts, wave_gates
from haulout.surfaces.packages.skyhook.halts import GateCourse
from haulout.surfaces.packages.skyhook.intent import IMAGE_NOT_ALLOWED, NAME_TAKEN, SKYHOOK_INVALID, Intent
from haulout.surfaces.packages.wire import (
    BLOCKED,
    COMPLETE,
    DISABLED,
    ERRORING,
    IN_PROGRESS,
    PAUSED,
    PREFIX,
    UNKNOWN,
    WAITING,
    SkyhookRow,
)

TRANSITION, APPLY_PACKAGE = f"{PREFIX}Transition", f"{PREFIX}ApplyPackage"
TAINTED, IGNORED = f"{PREFIX}TaintNotTolerable", f"{PREFIX}NodesIgnored"
NO_POLICY, MALFORMED = f"{PREFIX}DeploymentPolicyNotFound", f"{PREFIX}NodeStateMalformed"
HELD_UP, TRUNCATED = f"{PREFIX}Blocked", f"{PREFIX}StatusTruncated"
DELETION_BLOCKED = f"{PREFIX}DeletionBlocked"
HALTED, GATE_AWAITED = f"{PREFIX}Halted", f"{PREFIX}GateAwaited"
# Conditions without a prefix, which the original has had since v0.16.
DRAIN_BLOCKED = "DrainBlocked"
UNINSTALLING, UNINSTALL_FAILED = "UninstallInProgress", "UninstallFailed"
BARE_BLOCKED, BARE_MALFORMED, BARE_DELETION_BLOCKED = "Blocked", "NodeStateMalformed", "DeletionBlocked"
MOST_NAMED = 10
_NOT_DELETED = {PAUSED: "PausedWithPendingUninstall", DISABLED: "DisabledWithPendingUninstall"}

# The reason of the condition that stands for each reason code. Its type is the same, with the prefix.
_PROBLEMS = {SKYHOOK_INVALID: "SpecInvalid", IMAGE_NOT_ALLOWED: "ImageNotAllowed", NAME_TAKEN: "NameTaken"}
_READY_REASONS = {
    COMPLETE: "NodesConverged",
    IN_PROGRESS: "Progressing",
    BLOCKED: "Blocked",
    ERRORING: "Erroring",
    PAUSED: "Paused",
    WAITING: "Waiting",
    DISABLED: "Disabled",
    UNKNOWN: "Unknown",
}


class Conditions:
    """A mutable collection of a Skyhook's conditions.

    A transition time changes only when the condition's status does. Types with the prefix of skyhook get that of `group`.
    """

    def __init__(self, stored: Sequence[Condition], generation: int, now: datetime, group: Group = SKYHOOK) -> None:
        self._known = {each.type: each for each in stored}
        self.group, self._named = group, group.named
        self._generation, self._now = generation, now

    def set(self, kind: str, is_true: bool, reason: str, message: str, *, observed: bool = False) -> None:
        kind = self._named(kind)
        before, status = self._known.get(kind), "True" if is_true else "False"
        same = before is not None and before.status == status
        at = before.last_transition_time if same and before is not None else self._now
        generation = self._generation if observed else None
        if before is not None and (before.status, before.reason, before.message) == (status, reason, message):
            # The observed generation stays, so that an edit of the Skyhook that does not change the condition does not
            # rewrite it.
            generation = before.observed_generation
        self._known[kind] = Condition(kind, status, reason, message, generation, at)

    def remove(self, kind: str) -> None:
        self._known.pop(self._named(kind), None)

    def get(self, kind: str) -> Condition | None:
        return self._known.get(self._named(kind))

    def all(self) -> tuple[Condition, ...]:
        return tuple(self._known.values())


def about_nodes(conditions: Conditions, nodes: Sequence[NodeStanding]) -> None:
    """Set the conditions that name nodes with taints that are not tolerated, and nodes with the ignore label."""
    tainted = [node.node for node in nodes if node.is_tainted]
    text = f"Node [{_listed(tainted)}] has taints that are not tolerable. Skipping."
    conditions.set(TAINTED, bool(tainted), "TaintNotTolerable", text if tainted else "All nodes have tolerable taints.")
    ignored = [node.node for node in nodes if node.is_ignored]
    text = f"Node [{_listed(ignored)}] has ignore label set. Skipping."
    conditions.set(IGNORED, bool(ignored), "NodesIgnored", text if ignored else "No nodes have ignore label set.")


def about_malformed(conditions: Conditions, nodes: Sequence[NodeStanding]) -> None:
    bad = [node.node for node in nodes if node.is_malformed]
    if bad:
        text = f"Node [{_listed(bad)}] has a nodeState annotation that cannot be read"
        conditions.set(MALFORMED, True, "NodeStateMalformed", text)
        text = f"nodeState annotation cannot be parsed on {len(bad)} node(s): {_listed(bad)}"
        conditions.set(BARE_MALFORMED, True, "ParseError", text)
    else:
        conditions.remove(MALFORMED)
        conditions.remove(BARE_MALFORMED)


def about_problem(conditions: Conditions, intent: Intent, nodes: Sequence[NodeStanding]) -> None:
    """Set or remove the conditions that say why the Skyhook, or a package of a node, may not run."""
    for code, reason in _PROBLEMS.items():
        refused = sorted(
            f"node {node.node}: {text}" for node in nodes for known, text in node.refusals if known == code
        )
        if intent.problem and intent.problem_code == code:
            conditions.set(f"{PREFIX}{reason}", True, reason, intent.problem, observed=True)
        elif refused:
            more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
            conditions.set(f"{PREFIX}{reason}", True, reason, f"{refused[0]}{more}")
        else:
            conditions.remove(f"{PREFIX}{reason}")


def about_deletion(conditions: Conditions, intent: Intent, nodes: Sequence[NodeStanding]) -> None:
    """Set or remove the conditions that say why packages cannot be uninstalled before the Skyhook is deleted."""
    why, reason = deletion_block(intent, nodes)
    if why:
        text = f"packages cannot be uninstalled: {why}"
        conditions.set(DELETION_BLOCKED, True, "DeletionBlocked", text)
        conditions.set(BARE_DELETION_BLOCKED, True, reason, text)
    else:
        conditions.remove(DELETION_BLOCKED)
        conditions.remove(BARE_DELETION_BLOCKED)


def deletion_block(intent: Intent, nodes: Sequence[NodeStanding]) -> tuple[str, str]:
    """Return why packages cannot be uninstalled before the Skyhook is deleted, and the same as one word; empty if they can."""
    if intent.is_uninstalling and not intent.acts:
        why = intent.shows or (DISABLED if intent.is_disabled else "")
        return why or intent.problem, _NOT_DELETED.get(why, "SpecInvalid")
    if intent.is_uninstalling and any(node.is_malformed for node in nodes):
        return "the state of a node cannot be read", "MalformedNodeState"
    return "", ""


def about_uninstall(conditions: Conditions, nodes: Sequence[NodeStanding]) -> None:
    """Set or remove the conditions that say that packages are uninstalled, and that this fails."""
    leaving = [
        (node.node, entry) for node in nodes for entry in node.state.values() if entry.stage in LEAVING and entry.state
    ]
    for kind, reason, found in (
        (UNINSTALLING, "UninstallInProgress", [each for each in leaving if each[1].state != COMPLETE]),
        (UNINSTALL_FAILED, "UninstallPodFailing", [each for each in leaving if each[1].state == ERRORING]),
    ):
        if not found:
            conditions.remove(kind)
            continue
        packages = ", ".join(sorted({f"{entry.name}:{entry.version}" for _, entry in found})[:MOST_NAMED])
        conditions.set(kind, True, reason, f"{packages} on {_listed({node for node, _ in found})}")


def about_pods(conditions: Conditions, nodes: Sequence[NodeStanding]) -> None:
    """Set or remove the conditions that name the pods that hold up drains."""
    held = [(why, f"{node.node}: {pod}") for node in nodes for why, pod in node.blocked_by]
    if not held:
        conditions.remove(HELD_UP)
        return
    reason = held[0][0]
    places = [place for why, place in held if why == reason]
    conditions.set(HELD_UP, True, reason, _listed(places))


def about_blocks(conditions: Conditions, intent: Intent, nodes: Sequence[NodeStanding]) -> None:
    """Set or remove the condition that says that packages wait for pods, or for a package that is uninstalled."""
    held = sorted({node.node for node in nodes for why, _ in node.blocked_by if why == NON_INTERRUPT})
    unwanted = {name for name, package in intent.packages.items() if is_unwanted(package)}
    waiting = sorted(
        f"{name} depends on {other}"
        for name, package in intent.packages.items()
        for other in package.depends_on
        if other in unwanted and name not in unwanted
    )
    if held:
        number = "1 node" if len(held) == 1 else f"{len(held)} nodes"
        text = f"{number} blocked by non-interrupt pods ({_listed(held)}). Waiting."
        conditions.set(BARE_BLOCKED, True, NON_INTERRUPT, text)
    elif waiting:
        text = f"{', '.join(waiting[:MOST_NAMED])}, which is uninstalled"
        conditions.set(BARE_BLOCKED, True, "DependencyUninstalled", text)
    else:
        conditions.remove(BARE_BLOCKED)


def about_drains(conditions: Conditions, nodes: Sequence[NodeStanding]) -> None:
    """Set or remove the condition that says why drains cannot go on."""
    blocked = {node.node: node.drain_blocks for node in nodes if node.drain_blocks}
    if not blocked:
        conditions.remove(DRAIN_BLOCKED)
        return
    causes = {cause for each in blocked.values() for cause, _ in each}
    details = [text for _, each in sorted(blocked.items()) for _, text in each]
    text = f"{len(blocked)}/{len(nodes)} nodes blocked draining ({_listed(blocked)}); {'; '.join(details[:MOST_NAMED])}"
    conditions.set(DRAIN_BLOCKED, True, causes.pop() if len(causes) == 1 else "MultipleCauses", text)


def about_course(conditions: Conditions, row: SkyhookRow, course: GateCourse) -> None:
    """Set or remove the conditions of a halted rollout, and of a wave that waits for its gate."""
    if course.halt is not None:
        conditions.set(HALTED, True, course.halt.reason, halts.account(row, course.halt), observed=True)
    else:
        conditions.remove(HALTED)
    if not course.waiting:
        conditions.remove(GATE_AWAITED)
        return
    first = course.waiting[0]
    before = conditions.get(GATE_AWAITED)
    if before is not None and (before.reason, first.why.reason) == (wave_gates.UNREACHABLE, wave_gates.QUERY_AWAITED):
        # An operator that has just started has not asked Prometheus yet. The error that its predecessor reported stays
        # meanwhile.
        return
    text = f"wave {first.wave.wave} of compartment {first.compartment}: {first.why.text}"
    conditions.set(GATE_AWAITED, True, first.why.reason, text, observed=True)


def about_ready(conditions: Conditions, status: str, nodes: Sequence[NodeStanding]) -> None:
    done = [node.node for node in nodes if node.is_complete]
    going = [node.node for node in nodes if node.status == IN_PROGRESS and not node.is_complete]
    parts = [f"{len(done)}/{len(nodes)} nodes complete{_named(done)}"]
    parts += [f"{len(going)} in progress{_named(going)}"] if going else []
    # The original since v0.16 has it with the prefix, too. A Skyhook that has both keeps both.
    twin = f"{PREFIX}{READY}"
    has_twin = conditions.group is not SKYHOOK or conditions.get(twin) is not None
    for kind in (READY, twin) if has_twin else (READY,):
        conditions.set(kind, status == COMPLETE, _READY_REASONS.get(status, "Unknown"), ", ".join(parts))


def for_tools(conditions: Conditions, intent: Intent, course: GateCourse | None) -> None:
    """Set the two conditions that other tools understand beside Ready (`core/kstatus.py`)."""
    ready = conditions.get(READY)
    assert ready is not None
    why = intent.problem or (course.halt.reason if course is not None and course.halt is not None else "")
    is_stalled = bool(why) or ready.reason == _READY_REASONS[ERRORING]
    is_at_rest = ready.status == "True" or ready.reason in (_READY_REASONS[PAUSED], _READY_REASONS[DISABLED])
    conditions.set(STALLED, is_stalled, ready.reason, why)
    conditions.set(RECONCILING, not is_stalled and not is_at_rest, ready.reason, "")


def _listed(names: Iterable[str]) -> str:
    found = sorted(names)
    return ", ".join(found) if len(found) <= MOST_NAMED else f"{len(found)} nodes"


def _named(names: list[str]) -> str:
    if len(names) > MOST_NAMED:
        return " (list truncated; see controller logs)"
    return f" ({', '.join(sorted(names))})" if names else ""
