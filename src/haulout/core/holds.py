"""The claims of surfaces on nodes as hold rows, and the arbiter's answers to them as grant rows (decision 0099)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from haulout.base.number import digits
from haulout.cluster.key import Key
from haulout.cluster.limits import Limit
from haulout.cluster.rows import NodeRow, ReservingRow, Row
from haulout.cluster.store import Index
from haulout.cluster.topics import Bucket
from haulout.cluster.view import GRANT, HOLD, View
from haulout.core import claimants
from haulout.core.reason import Reason

LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)
# The annotation with the priority: on the objects of surfaces; for profiles, on the Node.
PRIORITY_ANNOTATION = "haulout.dev/priority"
# The range of priorities in Kubernetes. The arbiter ranks claims that have begun above all of them.
MOST_PRIORITY = (1 << 31) - 1


class Want(StrEnum):
    """What a claim asks of a node.

    Several surfaces may cordon and drain a node together, but only one at a time has the exclusive turn to work on it.
    """

    CORDON = "cordon"
    DRAIN = "drain"
    EXCLUSIVE = "exclusive"


DISRUPTIVE = frozenset({Want.CORDON, Want.DRAIN})


class Rank(msgspec.Struct, frozen=True, order=True):
    """The order in which the arbiter answers claims.

    The higher priority comes first, then the older claim, then the name.
    """

    urgency: int = 0
    since: datetime = LONG_AGO
    name: str = ""


class Claim(msgspec.Struct, frozen=True):
    """A surface's claim on a node, derived from the surface's own objects.

    `owner`: the object that the claim is for.
    `limits`: every limit that it needs, its surface's own included. It gets room under all of them or under none.
    `begun`: the work has begun. The claim is counted but never refused, so that a restart does not take the node away.
    It then names only limits under which no object shows it yet.
    `slot`: tells several claims of one owner on one node apart.
    `ending`: the owner is releasing the node.
    """

    node: Key
    owner: Key
    wants: frozenset[Want] = frozenset()
    limits: tuple[Limit, ...] = ()
    since: datetime = LONG_AGO
    priority: int = 0
    begun: bool = False
    slot: str = ""
    ending: bool = False

    @property
    def disrupts(self) -> bool:
        """Whether the claim takes the node out of service. The exclusive turn alone does not."""
        return not self.wants.isdisjoint(DISRUPTIVE)


class Hold(Row, frozen=True, kw_only=True):
    """A claim as a row, with the surface that makes it.

    `paused_until`: a write was refused, and the claim is not granted again before then.
    `declined`: the claim was granted, and the surface did not use the grant.
    """

    surface: str
    claim: Claim
    paused_until: datetime | None = None
    declined: bool = False

    @property
    def rank(self) -> Rank:
        return Rank(-self.claim.priority, self.claim.since, f"{self.surface}/{self.claim.owner}/{self.claim.slot}")


class Blocked(Row, frozen=True, kw_only=True):
    """The row that stands for the claims of a surface while its decision about a node fails.

    While it stands, nothing new is granted on the node.
    """

    surface: str
    node: Key


class Grant(ReservingRow, frozen=True, kw_only=True):
    """The arbiter's answer to one hold. It reserves places under limits until objects show that they are taken.

    `budgets`: the budgets under which it takes a place for as long as it exists.
    """

    hold: Key
    granted: bool = False
    reasons: tuple[Reason, ...] = ()
    budgets: tuple[Key, ...] = ()


def read_priority(annotations: Mapping[str, str]) -> int | None:
    """Return the priority in an object's annotations, limited to the range of priorities in Kubernetes.

    0: there is no annotation. None: it is not a number, and has no effect.
    """
    word = annotations.get(PRIORITY_ANNOTATION)
    if word is None:
        return 0
    # Blanks and one plus sign have always been accepted.
    text = word.strip()
    number = digits(text.removeprefix("-") if text.startswith("-") else text.removeprefix("+"), 400)
    if number is None:
        return None
    priority = -number if text.startswith("-") else number
    return min(max(priority, -MOST_PRIORITY), MOST_PRIORITY)


def node_priority(node: NodeRow) -> int:
    """Return the priority in a Node's own annotations; 0 where it is not a number."""
    return read_priority(node.annotations) or 0


def hold_key(surface: str, claim: Claim) -> Key:
    owner = claim.owner
    place = f"{claim.node.name}/{owner.kind}/{owner.namespace}/{owner.name}"
    return Key(claim.node.cluster, HOLD, surface, f"{place}/{claim.slot}" if claim.slot else place)


def grant_key(hold: Key) -> Key:
    return Key(hold.cluster, GRANT, hold.namespace, hold.name)


def _granted_hold(row: Row) -> tuple[Key, ...]:
    return (row.hold,) if isinstance(row, Grant) and row.granted else ()


GRANTED = Index("granted", GRANT, _granted_hold)


def granted_topic(hold: Key) -> Bucket:
    """Return the topic that changes when the claim of a hold is granted, and when it is no longer granted."""
    return Bucket(GRANTED.name, hold.cluster, hold)


def is_granted(view: View, surface: str, claim: Claim) -> bool:
    """Whether a claim is granted.

    The decision runs again when that changes, but not when the reasons of a refusal change.
    """
    hold = hold_key(surface, claim)
    return bool(view.rows(GRANTED, hold, Grant, hold.cluster))


def refusals(view: View, surface: str, claim: Claim) -> tuple[Reason, ...]:
    """Return the arbiter's reasons for a claim that it has not granted."""
    grant = view.get(grant_key(hold_key(surface, claim)), Grant)
    return grant.reasons if grant is not None else (no_answer_yet(claim.node),)


def no_answer_yet(node: Key) -> Reason:
    """Return the reason for a claim that the arbiter has not answered yet."""
    return Reason("not-asked", node, "the arbiter has not decided on the claim yet")


def _node_of(row: Row) -> tuple[Key, ...]:
    match row:
        case Hold():
            return (row.claim.node,)
        case Blocked():
            return (row.node,)
        case _:
            return ()


HOLDS_OF_NODE = Index("holds-of-node", HOLD, _node_of)


def _begun_on(row: Row) -> tuple[Key, ...]:
    return (row.claim.node,) if isinstance(row, Hold) and row.claim.begun else ()


# A decision that reads this does not run again when its own claim, which has not begun, is declined or delayed.
BEGUN_HOLDS_OF_NODE = Index("begun-holds-of-node", HOLD, _begun_on)


def is_held(view: View, node: Key) -> bool:
    """Whether a claim of any surface keeps the node out of service. The cordon ledger is believed only then."""
    return any(hold.claim.disrupts for hold in view.rows(BEGUN_HOLDS_OF_NODE, node, Hold, node.cluster))


def is_wanted_by(view: View, node: Key, surface: str) -> bool:
    """Whether a claim of the surface wants the node out of service. Only then may the surface keep it cordoned."""
    holds = view.rows(HOLDS_OF_NODE, node, Row, node.cluster)
    return any(isinstance(hold, Hold) and hold.surface == surface and hold.claim.disrupts for hold in holds)


def is_kept_by_others(view: View, node: Key, surface: str) -> bool:
    """Whether another surface keeps the node out of service, so that the cordon stays when this surface releases it.

    A claim that is ending does not count: if two surfaces release a node at once, each would leave the cordon to the
    other. After a start not all claims are known; the kernel sends no uncordon until they are.
    """
    claimants.follow(view, node.cluster)
    return any(
        isinstance(hold, Hold)
        and hold.surface != surface
        and hold.claim.begun
        and hold.claim.disrupts
        and not hold.claim.ending
        for hold in view.rows(HOLDS_OF_NODE, node, Row, node.cluster)
    )


def is_wanted_by_others(view: View, node: Key, surface: str) -> bool:
    """Whether another surface keeps the node out of service, or wants to."""
    rows = view.rows(HOLDS_OF_NODE, node, Row, node.cluster)
    return any(isinstance(hold, Hold) and hold.surface != surface and hold.claim.disrupts for hold in rows)
