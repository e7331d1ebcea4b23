"""The cordon and its ledger: which surfaces made a node unschedulable, and whether it was unschedulable before.

Surfaces wish (`KeepCordoned`, `Release`); the kernel makes the edits of a wish with `edits_of`, when it carries a decision
out. The ledger is one annotation of the Node. The patch that cordons also writes it, so that a restart at any point changes nothing.
`by` names only the surfaces whose own objects, labels and taints do not show their claim.

The ledger is believed only while a claim stands, and never against a person: when the claims have ended, the node is as
the last person left it, even if that person uncordoned it, or cordoned it again, while no operator was running. The API
server notes which client wrote a cordon, so that a person's cordon can be told from ours (decision 0164).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from haulout.cluster.rows import NodeRow, Taint
from haulout.cluster.view import View
from haulout.core.action import Annotate, Cordon, CordonWish, Edit, KeepCordoned, NodeEdit, Patch, Release, SetTaint
from haulout.core.edit import apply_all, between
from haulout.core.holds import is_held, is_kept_by_others
from haulout.model.meta import FIELD_MANAGER

ANNOTATION = "haulout.dev/cordon"
# Why a person cordoned the node.
CORDON_REASON = "haulout.dev/cordon-reason"
# The taint that the node lifecycle controller sets on every cordoned node, with some delay.
TAINT = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
# The taint that NodeMaintenances set with their cordon, also on a node on which another surface works. That surface
# goes on.
DRAIN_TAINT = Taint("medik8s.io/drain", "NoSchedule")


class Ledger(msgspec.Struct, frozen=True):
    """The state of a node from before it was cordoned, as the annotation `haulout.dev/cordon` keeps it.

    `before`: whether the node is to be unschedulable after the last claim: as it was before the first one, or as a
    person has left it since.
    `by`: the surfaces that keep it cordoned and whose own objects do not show that.
    `labels`: the earlier values of labels that surfaces have set, to be put back.
    `taint`: a surface has set the taint of the cordon itself, so that the taint is removed together with the cordon.
    `manager`: the client that set the cordon, where a surface took over a node that its original had cordoned.
    """

    before: bool = False
    by: tuple[str, ...] = ()
    labels: Mapping[str, str | None] = {}
    taint: bool = False
    manager: str = ""


_DECODER = msgspec.json.Decoder(Ledger)


def ledger(node: NodeRow) -> Ledger | None:
    """Return the ledger of a node. An invalid annotation counts as absent, so that it never leads to an uncordon."""
    text = node.annotations.get(ANNOTATION)
    if text is None:
        return None
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def believed_ledger(node: NodeRow, *, is_held: bool) -> Ledger | None:
    """Return the ledger of a node with what people have done to its cordon since; None where it says nothing.

    `is_held`: a claim stands that needs the node out of service. Without one, the ledger was left behind by a claim that
    ended in another way. It then counts only if the API server says that the cordon is still ours.
    """
    entry = ledger(node)
    if entry is None:
        return None
    foreign = [manager for manager in node.cordon_managers if manager not in (FIELD_MANAGER, entry.manager)]
    is_ours = bool(node.cordon_managers) and not foreign
    if not (is_held or entry.by or is_ours):
        return None
    return msgspec.structs.replace(entry, before=node.unschedulable and (entry.before or bool(foreign)))


def is_cordoned_by_person(node: NodeRow) -> bool:
    """Whether the API server says that another client than the operator cordoned the node."""
    return any(manager != FIELD_MANAGER for manager in node.cordon_managers)


def edits_of(wish: CordonWish, node: NodeRow, view: View, *, keeps_ledger: bool) -> tuple[Edit, ...]:
    """Return the edits that fulfill a surface's wish about the cordon of a node; none where it is fulfilled.

    `keeps_ledger`: surfaces share the node, and the ledger remembers its state. Without it the cordon is simply set or
    cleared, as the originals do.
    """
    has_ledger = keeps_ledger or wish.remembers
    match wish:
        case KeepCordoned() if has_ledger:
            return claim(
                node,
                wish.surface,
                is_visible=wish.is_visible,
                is_held=is_held(view, node.key),
                labels=wish.labels,
                taint=wish.taint,
                begun=wish.begun,
            )
        case KeepCordoned():
            return () if node.unschedulable else (Cordon(node.key, unschedulable=True),)
        case Release() if has_ledger:
            others = keeps_ledger and is_kept_by_others(view, node.key, wish.surface)
            return release(
                node,
                wish.surface,
                others=others,
                restore=wish.restore,
                labels=wish.labels,
                leaves_cordoned=wish.leaves_cordoned,
            )
        case Release():
            return _without_ledger(node, leaves_cordoned=wish.leaves_cordoned)


def foreseen(wish: CordonWish, node: NodeRow, view: View, *, keeps_ledger: bool) -> NodeRow:
    """Return the node as it will be once the kernel has fulfilled a wish."""
    row = apply_all(node, edits_of(wish, node, view, keeps_ledger=keeps_ledger))
    assert isinstance(row, NodeRow)
    return row


def lifts(wish: Release, node: NodeRow, view: View, *, keeps_ledger: bool) -> bool:
    """Whether the release of a node makes it schedulable."""
    return node.unschedulable and not foreseen(wish, node, view, keeps_ledger=keeps_ledger).unschedulable


def wishes_between(before: NodeRow, after: NodeRow, surface: str) -> tuple[NodeEdit, ...]:
    """Return the edits that turn the node `before` into the draft `after`, with a wish for a change of its cordon.

    For a surface whose claims the ledger has to name. A plugin that sets or clears the cordon of a draft without the
    ledger wishes the same.
    """
    edits = between(before, after)
    others = tuple(edit for edit in edits if not is_reserved(edit))
    if len(others) == len(edits):
        return edits
    if after.unschedulable and (surface in _by(after) or not before.unschedulable):
        return (*others, KeepCordoned(before.key, surface))
    restore = ledger(before) is not None or before.unschedulable == after.unschedulable
    return (*others, Release(before.key, surface, restore=restore))


def is_reserved(action: object) -> bool:
    """Whether an action writes the cordon or its ledger, which only the kernel does."""
    match action:
        case Cordon():
            return True
        case Annotate():
            return action.name == ANNOTATION
        case Patch(target=target, subresource="", body=body) if target.kind == "Node":
            spec, annotations = body.get("spec"), (body.get("metadata") or {}).get("annotations")
            return "unschedulable" in (spec or ()) or ANNOTATION in (annotations or ())
        case _:
            return False


def was_cordoned(node: NodeRow, *, is_held: bool) -> bool:
    """Whether a person had cordoned the node before any surface did. `is_held`: a claim of some surface stands."""
    entry = believed_ledger(node, is_held=is_held)
    return entry.before if entry is not None else node.unschedulable


def claim(
    node: NodeRow,
    surface: str,
    *,
    is_visible: bool,
    is_held: bool,
    labels: Iterable[str] = (),
    taint: bool = False,
    begun: bool = False,
) -> tuple[Edit, ...]:
    """Return the edits that cordon a node for a surface and enter it in the ledger.

    `is_visible`: the surface's own objects, labels or taints show its claim, so that the ledger need not name it.
    `is_held`: a claim of any surface already keeps the node out of service.
    `labels`: labels that the surface is about to set. The ledger keeps their present values.
    `taint`: the surface also sets the taint of the cordon.
    `begun`: the surface has done all this already. If there is no ledger, it is from a version that kept none, and the
    cordon, labels and taint are the surface's own.
    """
    current = ledger(node)
    taken_over = begun and ANNOTATION not in node.annotations
    entry = believed_ledger(node, is_held=is_held or begun) or Ledger(
        before=node.unschedulable and not taken_over,
        taint=taint and taken_over,
        manager=next(iter(node.cordon_managers), "") if taken_over else "",
    )
    if not is_visible and surface not in entry.by:
        entry = msgspec.structs.replace(entry, by=tuple(sorted((*entry.by, surface))))
    new = {name: None if begun else node.labels.get(name) for name in labels if name not in entry.labels}
    if new:
        entry = msgspec.structs.replace(entry, labels={**entry.labels, **new})
    if taint and not _tainted(node):
        entry = msgspec.structs.replace(entry, taint=True)
    edits: list[Edit] = []
    if entry != current:
        edits.append(_written(node, entry))
    if not node.unschedulable:
        edits.append(Cordon(node.key, unschedulable=True))
    return tuple(edits)


def release(
    node: NodeRow,
    surface: str,
    *,
    others: bool,
    restore: bool = True,
    labels: Iterable[str] = (),
    leaves_cordoned: bool = False,
) -> tuple[Edit, ...]:
    """Return the edits that release a node for a surface. After the last claim they restore the state from before.

    `others`: other surfaces claim the node, and their own objects show it.
    `restore`: without a ledger, nothing is restored. False: the node becomes schedulable, whatever it was before.
    `labels`: labels that the surface had set and puts back itself. Labels of other surfaces stay in the ledger.
    `leaves_cordoned`: the node is cordoned after the last claim, as if a person had cordoned it.
    """
    current = believed_ledger(node, is_held=True)
    if leaves_cordoned and current is not None:
        current = msgspec.structs.replace(current, before=True)
    if others or others_noted(node, surface):
        rest = tuple(name for name in current.by if name != surface) if current else ()
        mine = frozenset(labels)
        kept = {name: value for name, value in current.labels.items() if name not in mine} if current else {}
        entry = msgspec.structs.replace(current, by=rest, labels=kept) if current else None
        return (_written(node, entry),) if entry is not None and entry != ledger(node) else ()
    edits: list[Edit] = []
    if ANNOTATION in node.annotations:
        edits.append(Annotate(node.key, ANNOTATION, None))
    if leaves_cordoned and not node.unschedulable:
        edits.append(Cordon(node.key, unschedulable=True))
    cordoned = leaves_cordoned or (current.before if current else node.unschedulable) if restore else False
    # If a person has uncordoned the node meanwhile, it stays so, even if it was cordoned before.
    if node.unschedulable and not cordoned:
        edits.append(Cordon(node.key, unschedulable=False))
    if current is not None and current.taint and _tainted(node) and not (node.unschedulable and cordoned):
        edits.append(SetTaint(node.key, TAINT, present=False))
    return tuple(edits)


def others_noted(node: NodeRow, surface: str) -> bool:
    """Whether the ledger names another surface that keeps the node cordoned."""
    current = ledger(node)
    return current is not None and any(name != surface for name in current.by)


def lifted_by_hand(node: NodeRow) -> bool:
    """Whether another client uncordoned the node while claims stand. Each surface decides what follows from it."""
    return ledger(node) is not None and not node.unschedulable


def _without_ledger(node: NodeRow, *, leaves_cordoned: bool) -> tuple[Edit, ...]:
    edits: list[Edit] = []
    if node.unschedulable != leaves_cordoned:
        edits.append(Cordon(node.key, unschedulable=leaves_cordoned))
    entry = ledger(node)
    if entry is not None and not entry.by:
        # The ledger is from a time when it was kept. It must not be believed later.
        edits.append(Annotate(node.key, ANNOTATION, None))
    return tuple(edits)


def _by(node: NodeRow) -> tuple[str, ...]:
    entry = ledger(node)
    return entry.by if entry is not None else ()


def _tainted(node: NodeRow) -> bool:
    return any((taint.key, taint.effect) == (TAINT.key, TAINT.effect) for taint in node.taints)


def _written(node: NodeRow, entry: Ledger) -> Annotate:
    body: dict[str, object] = {"before": entry.before, "by": entry.by}
    body |= {"labels": entry.labels} if entry.labels else {}
    body |= {"taint": True} if entry.taint else {}
    body |= {"manager": entry.manager} if entry.manager not in ("", FIELD_MANAGER) else {}
    return Annotate(node.key, ANNOTATION, msgspec.json.encode(body).decode())
