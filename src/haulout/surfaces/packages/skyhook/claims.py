"""The claims that a Skyhook makes: on nodes that are worked on, and on nodes that could be picked next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from haulout.cluster.key import node_key
from haulout.cluster.limits import Count, Group, Limit, Membership
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.view import MARK, View
from haulout.core.holds import LONG_AGO, Claim, Grant, Want, grant_key, hold_key, read_priority
from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT, SKYHOOK
from haulout.surfaces.packages.node.names import CORDON_PREFIX
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.skyhook.batches import CompartmentBatch
from haulout.surfaces.packages.wire import ERRORING, SURFACE, SkyhookRow, unit_id

# The decisions about rollouts, by the kind of the object.
ROLLOUTS = {SKYHOOK.kind: SURFACE, NODEWRIGHT.kind: f"{SURFACE}-nodewrights"}
ROLLOUT = ROLLOUTS[SKYHOOK.kind]


# Reasons that only concern the Skyhook's own rollout. Any other reason means that another surface or a budget refuses
# the node.
OWN_REASONS = frozenset({"no-room", "backing-off", "not-used"})


_CORDONS = tuple(group.named(CORDON_PREFIX) for group in GROUPS)
# How many more nodes are claimed than the next batch has places.
SPARE = 5


class NextBatch(Count, frozen=True):
    """The count of grants for the next batch of a compartment.

    Only grants are counted, no rows: all nodes of a batch are picked in one write.
    """

    @property
    def kind(self) -> str:
        return MARK

    def describe(self, group: Group) -> str:
        return f"nodes picked together for {'/'.join(map(str, group)) if isinstance(group, tuple) else group}"


class OutOfService(Count, frozen=True):
    """The count of nodes that Skyhooks keep cordoned.

    `together`: also count nodes that are unschedulable or not ready for any other reason.
    """

    together: bool = False

    def groups(self, row: Row) -> Iterable[Membership]:
        if not isinstance(row, NodeRow):
            return ()
        ours = any(name.startswith(_CORDONS) for name in row.annotations)
        return (Membership(""),) if ours or (self.together and (row.unschedulable or not row.ready)) else ()

    def describe(self, group: Group) -> str:
        return "nodes out of service"


class AllNodes(Count, frozen=True):
    """The count of all nodes in the cluster."""

    def groups(self, row: Row) -> Iterable[Membership]:
        return (Membership(""),)


def is_unlimited(options: Options) -> bool:
    """Whether only a Skyhook's own budget limits it, so that it needs no grants.

    The arbiter is not needed for that budget, because all nodes of a batch are picked in one write.
    """
    return options.alone and not options.max_unavailable_nodes


def claims_begun(
    row: SkyhookRow, nodes: Sequence[NodeStanding], picked: Mapping[str, str], options: Options, view: View
) -> list[Claim]:
    """Return the claims on nodes that are being worked on, or that have failed and are still cordoned."""
    if is_unlimited(options):
        return []
    overall = _overall(options, view)
    return [
        # The overall limit counts stored cordons. A node that will be cordoned claims its place until then.
        _claim(row, node, options, limits=() if node.is_cordoned or not node.needs_drain else overall, is_begun=True)
        for node in nodes
        if (node.node in picked and not node.is_complete and (node.status != ERRORING or node.is_cordoned))
        or (node.is_cordoned and not node.is_complete)
    ]


def wanted_claims(row: SkyhookRow, batch: CompartmentBatch, options: Options, view: View) -> list[Claim]:
    """Return the claims on nodes that could be picked next: a few more than the batch has places.

    A claim that another surface or a budget refuses stays, and one more node is claimed for it. So a refused node does
    not stop the rollout, and the number of claims does not grow with the fleet.
    """
    if not batch.size or is_unlimited(options):
        return []
    room = Limit(NextBatch(), (unit_id(row.key), batch.name), batch.size)
    overall = _overall(options, view)
    found, places = [], batch.size + SPARE
    for node in batch.candidates:
        if not places:
            break
        claim = _claim(row, node, options, limits=(room, *(overall if node.needs_drain else ())), is_begun=False)
        found.append(claim)
        places -= not _is_refused(view, claim)
    return found


def chosen_nodes(
    view: View, claims: Iterable[Claim], batches: Iterable[CompartmentBatch], options: Options
) -> tuple[frozenset[str], bool]:
    """Return the nodes that may be picked now, and whether the arbiter has answered every claim."""
    if is_unlimited(options):
        return frozenset(node.node for batch in batches for node in batch.candidates[: batch.size]), True
    answers = {
        claim.node.name: view.get(grant_key(hold_key(ROLLOUTS[claim.owner.kind], claim)), Grant) for claim in claims
    }
    granted = frozenset(name for name, grant in answers.items() if grant is not None and grant.granted)
    return granted, all(grant is not None for grant in answers.values())


def refused_nodes(view: View, claims: Iterable[Claim]) -> list[str]:
    """Return the nodes that another surface or a NodeDisruptionBudget keeps from being picked."""
    return [claim.node.name for claim in claims if _is_refused(view, claim)]


def _is_refused(view: View, claim: Claim) -> bool:
    grant = view.get(grant_key(hold_key(ROLLOUTS[claim.owner.kind], claim)), Grant)
    return grant is not None and any(reason.code not in OWN_REASONS for reason in grant.reasons)


def _claim(
    row: SkyhookRow, node: NodeStanding, options: Options, limits: tuple[Limit, ...], *, is_begun: bool
) -> Claim:
    drains = node.needs_drain or node.is_cordoned
    wants = frozenset({Want.EXCLUSIVE, *((Want.CORDON, Want.DRAIN) if drains else ())})
    priority = 0 if options.alone else read_priority(row.annotations) or 0
    since = (row.created_at if is_begun else node.created_at) or LONG_AGO
    return Claim(node_key(node.node), row.key, wants, limits, since, priority, begun=is_begun)


def _overall(options: Options, view: View) -> tuple[Limit, ...]:
    """Return the limit on nodes that all Skyhooks together may take out of service; empty if there is none."""
    most = options.max_unavailable_nodes
    if not most:
        return ()
    share = int(most.removesuffix("%"))
    number = max(1, view.count(AllNodes(), "") * share // 100) if most.endswith("%") else share
    return (Limit(OutOfService(not options.alone), "", number),)
