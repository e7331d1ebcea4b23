"""The act that gives a node back whose claimant is gone: it restores what the cordon ledger remembers.

Otherwise the kernel alone writes a cordon and its ledger. It never lifts a cordon whose object has vanished, because only
a person knows whether the work on the node is over (`core/cordon_remains.py`). This act is that person's answer.
See decision 0181.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from haulout.cluster.project import RESOURCES, Keep, Projector
from haulout.cluster.rows import NodeRow
from haulout.core import cordon
from haulout.core.act import NODES, ActInput, ActPlan, NotPossible
from haulout.core.edit import apply_all
from haulout.core.node_signs import visible_signs
from haulout.core.remains import Place, marks_on
from haulout.core.surface import Surface
from haulout.model.node import Node
from haulout.surfaces.registry import all_declarations


def plan(given: ActInput) -> ActPlan | NotPossible:
    node, taints = node_row(given.target), taints_of(given.target)
    entry, surfaces = cordon.ledger(node), _shown_by_objects()
    if entry is None and not any(_signs_of(each, node, taints) for each in surfaces):
        return NotPossible(f"no surface has left a cordon on node {given.name} (annotation {cordon.ANNOTATION})")
    if claims := [*_objects(given, node, taints), *_signs(node, taints)]:
        return _without_marks(given, node, entry, taints, claims)
    edited = given_back(node, entry) if entry is not None else node
    # There is no undo: a person cannot write the ledger, and the marks belong to the maintenance that has vanished.
    return ActPlan(
        (given.patch(NODES, _body(node, edited, entry, taints, _marks(node, taints, surfaces))),),
        warnings=tuple(_warnings(node, edited, entry)),
    )


def _without_marks(
    given: ActInput,
    node: NodeRow,
    entry: cordon.Ledger | None,
    taints: list[dict[str, Any]],
    claims: list[str],
) -> ActPlan | NotPossible:
    """Return the writes that remove the marks of maintenances that have vanished, where others claim the node.

    The cordon and its ledger stay: they are those of the other claims now, which would wait for the vanished one for ever.
    """
    marks = _marks(node, taints, [each for each in _shown_by_objects() if _has_vanished(each, given)])
    if not marks:
        return NotPossible(f"node {given.name} is claimed: {'; '.join(claims)}")
    before = entry.labels if entry is not None else {}
    labels = {name: before.get(name) for place, name in sorted(marks, key=str) if place is Place.LABEL}
    annotations = {name: None for place, name in sorted(marks, key=str) if place is Place.ANNOTATION}
    metadata = {name: part for name, part in (("labels", labels), ("annotations", annotations)) if part}
    kept = [each for each in taints if (Place.TAINT, each.get("key")) not in marks]
    spec = {"taints": kept or None} if kept != taints else {}
    body = {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})}
    stays = f"node {given.name} goes on with its other maintenances: {'; '.join(claims)}"
    return ActPlan((given.patch(NODES, body),), warnings=(stays,))


def given_back(node: NodeRow, entry: cordon.Ledger) -> NodeRow:
    """Return the node after its last claim, as the cordon ledger remembers it, whichever surfaces the ledger names."""
    known = msgspec.structs.replace(node, annotations={**node.annotations, cordon.ANNOTATION: _unclaimed(entry)})
    row = apply_all(known, cordon.release(known, "", others=False))
    assert isinstance(row, NodeRow)
    return row


def _body(
    node: NodeRow,
    edited: NodeRow,
    entry: cordon.Ledger | None,
    taints: list[dict[str, Any]],
    marks: frozenset[tuple[Place, str]],
) -> dict[str, Any]:
    labels: dict[str, str | None] = {name: None for place, name in sorted(marks, key=str) if place is Place.LABEL}
    labels |= entry.labels if entry is not None else {}
    annotations = {name: None for place, name in sorted(marks, key=str) if place is Place.ANNOTATION}
    if cordon.ANNOTATION in node.annotations:
        annotations[cordon.ANNOTATION] = None
    metadata = {name: part for name, part in (("labels", labels), ("annotations", annotations)) if part}
    spec: dict[str, Any] = {"unschedulable": None} if node.unschedulable and not edited.unschedulable else {}
    kept = [each for each in taints if (Place.TAINT, each.get("key")) not in marks and is_kept(each, edited)]
    if kept != taints:
        spec["taints"] = kept or None
    return {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})}


def _warnings(node: NodeRow, edited: NodeRow, entry: cordon.Ledger | None) -> Iterator[str]:
    name = node.key.name
    if edited.unschedulable:
        yield (
            f"node {name} stays cordoned: a person had cordoned it"
            if entry is not None
            else f"node {name} stays cordoned, because nothing says who cordoned it; to lift that: haulout uncordon {name}"
        )
    elif node.unschedulable:
        yield (
            "this cannot be undone: `kubectl cordon` keeps new pods away again, but brings back neither the taint of the "
            "maintenance nor the note of what it had changed"
        )
    if entry is not None and entry.by:
        yield f"{', '.join(entry.by)} had cordoned it, and cordons it again if it still wants the node"


def node_row(target: Mapping[str, Any]) -> NodeRow:
    """Return the row of a Node as the API server sent it, with all its annotations."""
    row = Projector(RESOURCES["Node"], "", Keep(all_annotations=True)).row(msgspec.convert(target, Node, strict=False))
    assert isinstance(row, NodeRow)
    return row


def taints_of(target: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the taints of a Node with all their fields."""
    return [dict(each) for each in (target.get("spec") or {}).get("taints") or ()]


def _shown_by_objects() -> tuple[Surface, ...]:
    """Return the surfaces whose claims are shown by objects about nodes. Without such an object, their marks are left over."""
    return tuple(each for each in all_declarations() if any(sign.orphan for sign in each.signs))


def _has_vanished(surface: Surface, given: ActInput) -> bool:
    """Whether no object of a surface is about the node. Objects that cannot be listed may be."""
    kinds = [each for each in surface.archive if each.node]
    found = [(kind.node, given.related.get(kind.kind, ())) for kind in kinds]
    return all(
        objects is not None and all(_at(each, place) != given.name for each in objects) for place, objects in found
    )


def _marks(node: NodeRow, taints: list[dict[str, Any]], surfaces: Iterable[Surface]) -> frozenset[tuple[Place, str]]:
    """Return place and name of each mark of these surfaces on the node."""
    present: dict[Place, Mapping[str, Any]] = {
        Place.LABEL: node.labels,
        Place.ANNOTATION: node.annotations,
        Place.TAINT: {str(each.get("key")): each.get("value") for each in taints},
        Place.CONDITION: {},
    }
    found = (mark for each in surfaces for mark in marks_on(present, each.remains.nodes))
    return frozenset((place, name) for place, name, _ in found)


def is_kept(taint: Mapping[str, Any], edited: NodeRow) -> bool:
    """Whether a taint stays. That of the cordon stays while a taint of that kind is in the edited row."""
    if (taint.get("key"), taint.get("effect")) != (cordon.TAINT.key, cordon.TAINT.effect):
        return True
    return any((each.key, each.effect) == (cordon.TAINT.key, cordon.TAINT.effect) for each in edited.taints)


def _unclaimed(entry: cordon.Ledger) -> str:
    """Return the ledger without the surfaces that it names: the person says that they are gone."""
    return msgspec.json.encode(msgspec.structs.replace(entry, by=())).decode()


def _objects(given: ActInput, node: NodeRow, taints: list[dict[str, Any]]) -> Iterator[str]:
    """Yield each object that holds the node, and each kind whose objects cannot be read.

    An object whose surface has no sign on the node only waits for it, often for the very cordon that is to go.
    """
    for surface in all_declarations():
        is_signed = bool(_signs_of(surface, node, taints))
        for kind in (each for each in surface.archive if each.node):
            objects = given.related.get(kind.kind, ())
            if objects is None:
                yield f"{kind.plural} cannot be listed, and one may hold it"
                continue
            for each in objects:
                if _at(each, kind.node) == given.name and (is_signed or not surface.signs):
                    metadata = each.get("metadata") or {}
                    place = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
                    yield f"{kind.kind} {place} holds it"


def _signs(node: NodeRow, taints: list[dict[str, Any]]) -> Iterator[str]:
    """Yield each sign of a surface on the node, except of surfaces whose objects have been looked for."""
    shown = _shown_by_objects()
    for surface in all_declarations():
        if surface not in shown:
            yield from _signs_of(surface, node, taints)


def _signs_of(surface: Surface, node: NodeRow, taints: list[dict[str, Any]]) -> list[str]:
    keys = [str(each.get("key")) for each in taints]
    found = (visible_signs(sign, node.labels, keys, node.annotations) for sign in surface.signs)
    return [f"{text} ({place})" for signs in found for place, text in signs]


def _at(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = body.get(name) if isinstance(body, Mapping) else None
    return body
