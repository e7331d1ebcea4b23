"""The cordon ledger: who made a node unschedulable, and what a person had set before.

One annotation remembers it, written by the same patch that cordons, so that a restart anywhere in between changes
nothing. `by` names the surfaces whose own objects, labels and taints do not show their claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from haulout.cluster.rows import NodeRow, Taint
from haulout.core.action import Annotate, Cordon, Edit, SetTaint

ANNOTATION = "haulout.dev/cordon"
# The taint that the node lifecycle controller sets on every cordoned node, with some delay.
TAINT = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
# The taint that NodeMaintenances set with their cordon, also on a node on which another surface works, which goes on.
DRAIN_TAINT = Taint("medik8s.io/drain", "NoSchedule")


class Ledger(msgspec.Struct, frozen=True):
    """What the annotation `haulout.dev/cordon` remembers of a node from before it was cordoned.

    `before`: whether the node was unschedulable when the first claim came; `labels`: what else was, to be put back.

    `taint`: a surface has set the taint of the cordon itself, so that the taint goes when the cordon does.
    """

    before: bool = False
    by: tuple[str, ...] = ()
    labels: Mapping[str, str | None] = {}
    taint: bool = False


_DECODER = msgspec.json.Decoder(Ledger)


def ledger(node: NodeRow) -> Ledger | None:
    """Return what the annotation says. One that cannot be read counts as absent, so that it uncordons nothing."""
    text = node.annotations.get(ANNOTATION)
    if text is None:
        return None
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def claim(
    node: NodeRow,
    surface: str,
    *,
    is_visible: bool,
    labels: Iterable[str] = (),
    taint: bool = False,
    begun: bool = False,
) -> tuple[Edit, ...]:
    """Cordons for a surface. `is_visible`: the surface's own objects, labels or taints say so, no entry is needed.

    `labels`: those that the surface is about to set, remembered as they are. `taint`: it sets that of the cordon, too.
    `begun`: it has done all that already; what is not in the ledger is its own work, from when it kept none.
    """
    stood = ledger(node)
    taken_over = begun and ANNOTATION not in node.annotations
    entry = stood or Ledger(before=node.unschedulable and not taken_over, taint=taint and taken_over)
    if not is_visible and surface not in entry.by:
        entry = msgspec.structs.replace(entry, by=tuple(sorted((*entry.by, surface))))
    new = {name: None if begun else node.labels.get(name) for name in labels if name not in entry.labels}
    if new:
        entry = msgspec.structs.replace(entry, labels={**entry.labels, **new})
    if taint and not _tainted(node):
        entry = msgspec.structs.replace(entry, taint=True)
    edits: list[Edit] = []
    if entry != stood:
        edits.append(_written(node, entry))
    if not node.unschedulable:
        edits.append(Cordon(node.key, unschedulable=True))
    return tuple(edits)


def release(
    node: NodeRow, surface: str, *, others: bool, restore: bool = True, labels: Iterable[str] = ()
) -> tuple[Edit, ...]:
    """Release the node for a surface. After the last claim it is as before, or schedulable where not to `restore`.

    `others`: claims of other surfaces stand that their own objects show. Without a ledger there is nothing of ours
    to undo, unless the surface insists by `restore=False`. `labels`: those that the surface had set and puts back itself.
    What other surfaces have to put back stays remembered.
    """
    stood = ledger(node)
    if others or others_noted(node, surface):
        rest = tuple(name for name in stood.by if name != surface) if stood else ()
        mine = frozenset(labels)
        kept = {name: value for name, value in stood.labels.items() if name not in mine} if stood else {}
        entry = msgspec.structs.replace(stood, by=rest, labels=kept) if stood else None
        return (_written(node, entry),) if entry is not None and entry != stood else ()
    edits: list[Edit] = []
    if ANNOTATION in node.annotations:
        edits.append(Annotate(node.key, ANNOTATION, None))
    cordoned = (stood.before if stood else node.unschedulable) if restore else False
    # The earlier state does not overrule a person who uncordoned the node meanwhile.
    if node.unschedulable and not cordoned:
        edits.append(Cordon(node.key, unschedulable=False))
    if stood is not None and stood.taint and _tainted(node) and not (node.unschedulable and cordoned):
        edits.append(SetTaint(node.key, TAINT, present=False))
    return tuple(edits)


def others_noted(node: NodeRow, surface: str) -> bool:
    """Whether the ledger names another surface that keeps the node cordoned."""
    stood = ledger(node)
    return stood is not None and any(name != surface for name in stood.by)


def lifted_by_hand(node: NodeRow) -> bool:
    """Whether a person uncordoned the node while claims stand. Each surface decides what follows from it."""
    return ledger(node) is not None and not node.unschedulable


def _tainted(node: NodeRow) -> bool:
    return any((taint.key, taint.effect) == (TAINT.key, TAINT.effect) for taint in node.taints)


def _written(node: NodeRow, entry: Ledger) -> Annotate:
    body: dict[str, object] = {"before": entry.before, "by": entry.by}
    body |= {"labels": entry.labels} if entry.labels else {}
    body |= {"taint": True} if entry.taint else {}
    return Annotate(node.key, ANNOTATION, msgspec.json.encode(body).decode())
