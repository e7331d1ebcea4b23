"""Whether a reboot of a node was part of a Skyhook's own interrupt, or calls for all packages to be applied again."""

from __future__ import annotations

from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import View
from haulout.core.action import Tell
from haulout.surfaces.packages.entries.entry import INTERRUPT, NodeState
from haulout.surfaces.packages.entries.interrupts import REBOOT, interrupts_of
from haulout.surfaces.packages.events import event
from haulout.surfaces.packages.skyhook.intent import Intent, boot_key


def needs_reset(view: View, intent: Intent, node: NodeRow, state: NodeState) -> bool:
    """Whether the node was rebooted since its boot id was last recorded, and not by an interrupt of its packages."""
    known = view.get(boot_key(intent.owner, node.key.name), Value)
    if known is None or not node.boot_id or known.value == node.boot_id:
        return False
    return not is_our_own(intent, state)


def is_our_own(intent: Intent, state: NodeState) -> bool:
    for package in intent.packages.values():
        entry = state.get(package.key)
        wanted = interrupts_of(package, intent.updates.get(package.name, ()))
        if entry is not None and entry.stage == INTERRUPT and any(each.type == REBOOT for each in wanted):
            return True
    return False


def told_of(intent: Intent, node: NodeRow) -> tuple[Tell, Tell]:
    name = node.key.name
    return (
        event(intent.owner, "Reboot", f"detected reboot, resetting node [{name}] to be reapplied"),
        event(node.key, "Reboot", f"detected reboot, resetting node for [{intent.skyhook}] to be reapplied"),
    )
