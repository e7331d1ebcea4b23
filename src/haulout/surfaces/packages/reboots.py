"""Whether a reboot of a node was part of a Skyhook's own interrupt, or calls for all packages to be applied again."""

from __future__ import annotations

from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import View
from haulout.core.action import Tell
from haulout.surfaces.packages.interrupts import REBOOT, interrupts_of
from haulout.surfaces.packages.node_state import INTERRUPT, NodeState
from haulout.surfaces.packages.plan import PlanRow, boot_key
from haulout.surfaces.packages.situation import event


def needs_reset(view: View, plan: PlanRow, node: NodeRow, state: NodeState) -> bool:
    """Whether the node was rebooted since its boot id was last recorded, and not by an interrupt of its packages."""
    known = view.get(boot_key(plan.skyhook, node.key.name), Value)
    if known is None or not node.boot_id or known.value == node.boot_id:
        return False
    return not is_our_own(plan, state)


def is_our_own(plan: PlanRow, state: NodeState) -> bool:
    for package in plan.packages.values():
        entry = state.get(package.key)
        wanted = interrupts_of(package, plan.updates.get(package.name, ()))
        if entry is not None and entry.stage == INTERRUPT and any(each.type == REBOOT for each in wanted):
            return True
    return False


def told_of(plan: PlanRow, node: NodeRow) -> tuple[Tell, Tell]:
    name = node.key.name
    return (
        event(plan.owner, "Reboot", f"detected reboot, resetting node [{name}] to be reapplied"),
        event(node.key, "Reboot", f"detected reboot, resetting node for [{plan.skyhook}] to be reapplied"),
    )
