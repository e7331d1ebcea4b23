"""A node that a person uncordoned although profiles had cordoned it. This is reported and not undone."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.action import Release, Say, Statement, Tell
from haulout.core.cordon import foreseen, lifted_by_hand
from haulout.core.holds import Claim
from haulout.surfaces.profiles.passes.claims import is_cordoned_by_us
from haulout.surfaces.profiles.wire import SURFACE

NOTE = "The node was uncordoned in the middle of its maintenance; it is not cordoned again"


def is_lifted(node: NodeRow, claims: tuple[Claim, ...]) -> bool:
    """Whether a person uncordoned the node while a claim on it is in progress."""
    return _is_open(node) and any(claim.begun for claim in claims)


def uncordon_statements(key: Key) -> tuple[Statement, ...]:
    """Return the event and the log line about a node that was uncordoned during its maintenance."""
    return (
        Tell(key, "UncordonedInMaintenance", "Uncordon", NOTE, "haulout", warning=True),
        Say("uncordoned in the middle of its maintenance", (("node", key.name),), "warning"),
    )


def without_empty_entry(draft: NodeRow, view: View, claims: tuple[Claim, ...]) -> NodeRow:
    """Return the node without our entry in the cordon ledger if its cordon was lifted by hand.

    Other surfaces would take the entry for a claim.
    """
    if not _is_open(draft) or any(claim.begun for claim in claims):
        return draft
    return foreseen(Release(draft.key, SURFACE), draft, view, keeps_ledger=True)


def _is_open(node: NodeRow) -> bool:
    return lifted_by_hand(node) and is_cordoned_by_us(node)
