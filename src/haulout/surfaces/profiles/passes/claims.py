"""The claims of profiles on their node."""

from __future__ import annotations

from haulout.cluster.rows import NodeRow
from haulout.core.cordon import ledger
from haulout.core.drain.start_times import start_times
from haulout.core.holds import Claim, Want, node_priority
from haulout.surfaces.profiles.passes.result import Chain, Judged, Result
from haulout.surfaces.profiles.wire import SURFACE, Entry, State

NO_WANTS: frozenset[Want] = frozenset()


def claim_of(result: Result, judged: Judged, enter: Chain) -> Claim | None:
    """Return the claim of a transition: the turn to work on the node, and places under limits; None without need.

    `enter`: the triggers of the next state, which may need the node, too.
    """
    entering = judged.transition.next == State.IN_MAINTENANCE
    wants = wanted_by((*judged.transition.trigger, *(enter if entering else ())))
    if not entering and not judged.limits and not wants:
        return None
    return Claim(
        node=result.node.key,
        owner=result.node.key,
        wants=wants | {Want.EXCLUSIVE} if entering or wants else frozenset(),
        limits=judged.limits,
        since=result.entry.transition.at,
        priority=node_priority(result.node),
        # A drain that has begun continues, even if another claim would come first now.
        begun=Want.DRAIN in wants and result.profile in start_times(result.node),
        slot=slot_of(result, judged),
    )


def slot_of(result: Result, judged: Judged) -> str:
    """Return the name of a transition's claim.

    It has a number, because several transitions may lead to the same state.
    """
    return f"profile {result.profile}, transition {judged.number + 1} to {judged.transition.next}"


def profile_of(claim: Claim) -> str:
    """Return the profile that makes a claim."""
    return claim.slot.removeprefix("profile ").partition(",")[0]


def wanted_by(chain: Chain) -> frozenset[Want]:
    """Return what the triggers of a chain need of the node."""
    if not chain:
        return NO_WANTS
    return frozenset(want for instance in chain for want in instance.plugin.wants(instance.config))


def standing_claim(node: NodeRow, profile: str, entry: Entry, enter: Chain) -> Claim:
    """Return the claim of a profile in maintenance: the turn to work, and the cordon if there is one or will be."""
    return Claim(
        node=node.key,
        owner=node.key,
        wants=frozenset({Want.EXCLUSIVE})
        | wanted_by(enter)
        | ({Want.CORDON} if is_cordoned_by_us(node) else frozenset()),
        since=entry.transition.at,
        priority=node_priority(node),
        begun=True,
        slot=f"profile {profile}",
    )


def is_cordoned_by_us(node: NodeRow) -> bool:
    """Whether the cordon ledger names the profiles surface."""
    stood = ledger(node)
    return stood is not None and SURFACE in stood.by
