"""The act that gives a node back whose claimant is gone: it restores what the cordon ledger remembers.

Otherwise the kernel alone writes a cordon and its ledger. It never lifts a cordon whose object has vanished, because only
a person knows whether the work on the node is over (`core/cordon_remains.py`). This act is that person's answer.
See decision 0181.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from shlex import join
from typing import Any

import msgspec

from haulout.acts.declared import claimants
from haulout.cluster.project import RESOURCES, Keep, Projector
from haulout.cluster.rows import NodeRow
from haulout.core import cordon
from haulout.core.act import NODES, ActInput, ActPlan, NotPossible
from haulout.core.edit import apply_all
from haulout.core.node_signs import visible_signs
from haulout.model.node import Node
from haulout.surfaces.registry import all_declarations


def plan(given: ActInput) -> ActPlan | NotPossible:
    node, taints = node_row(given.target), taints_of(given.target)
    entry, left = cordon.ledger(node), _orphaned_taints(taints)
    if entry is None and not left:
        return NotPossible(f"no surface has left a cordon on node {given.name} (annotation {cordon.ANNOTATION})")
    if claims := [*_objects(given), *_signs(node, taints)]:
        return NotPossible(f"node {given.name} is claimed: {'; '.join(claims)}")
    edited, labels = node, dict[str, str | None]()
    if entry is not None:
        edited = given_back(node, entry)
        labels = dict(entry.labels)
    kept = [each for each in taints if each.get("key") not in left and is_kept(each, edited)]
    return ActPlan(
        (given.patch(NODES, _body(node, edited, labels, taints, kept)),),
        undo=join(("kubectl", "cordon", given.name)) if node.unschedulable and not edited.unschedulable else "",
        warnings=tuple(_warnings(node, edited, entry)),
    )


def given_back(node: NodeRow, entry: cordon.Ledger) -> NodeRow:
    """Return the node after its last claim, as the cordon ledger remembers it, whichever surfaces the ledger names."""
    known = msgspec.structs.replace(node, annotations={**node.annotations, cordon.ANNOTATION: _unclaimed(entry)})
    row = apply_all(known, cordon.release(known, "", others=False))
    assert isinstance(row, NodeRow)
    return row


def _body(
    node: NodeRow,
    edited: NodeRow,
    labels: Mapping[str, str | None],
    taints: list[dict[str, Any]],
    kept: list[dict[str, Any]],
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"labels": labels} if labels else {}
    if cordon.ANNOTATION in node.annotations:
        metadata["annotations"] = {cordon.ANNOTATION: None}
    spec: dict[str, Any] = {"unschedulable": None} if node.unschedulable and not edited.unschedulable else {}
    if kept != taints:
        spec["taints"] = kept or None
    return {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})}


def _warnings(node: NodeRow, edited: NodeRow, entry: cordon.Ledger | None) -> Iterator[str]:
    if edited.unschedulable:
        yield (
            f"node {node.key.name} stays cordoned: a person had cordoned it"
            if entry is not None
            else f"node {node.key.name} stays cordoned, because nothing says who cordoned it"
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


def _orphaned_taints(taints: list[dict[str, Any]]) -> frozenset[str]:
    """Return the taints of surfaces on the node whose objects show whether they are still claimed."""
    own = {sign.taint for surface in all_declarations() for sign in surface.signs if sign.orphan}
    return frozenset(str(each.get("key")) for each in taints) & own


def is_kept(taint: Mapping[str, Any], edited: NodeRow) -> bool:
    """Whether a taint stays. That of the cordon stays while a taint of that kind is in the edited row."""
    if (taint.get("key"), taint.get("effect")) != (cordon.TAINT.key, cordon.TAINT.effect):
        return True
    return any((each.key, each.effect) == (cordon.TAINT.key, cordon.TAINT.effect) for each in edited.taints)


def _unclaimed(entry: cordon.Ledger) -> str:
    """Return the ledger without the surfaces that it names: the person says that they are gone."""
    return msgspec.json.encode(msgspec.structs.replace(entry, by=())).decode()


def _objects(given: ActInput) -> Iterator[str]:
    """Yield each object that is about the node, and each kind whose objects cannot be read."""
    for kind in claimants():
        objects = given.related.get(kind.kind, ())
        if objects is None:
            yield f"{kind.plural} cannot be listed, and one may hold it"
            continue
        for each in objects:
            if _at(each, kind.node) == given.name:
                metadata = each.get("metadata") or {}
                place = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
                yield f"{kind.kind} {place} holds it"


def _signs(node: NodeRow, taints: list[dict[str, Any]]) -> Iterator[str]:
    """Yield each sign of a surface on the node, except taints whose objects have been looked for."""
    keys = [str(each.get("key")) for each in taints]
    for surface in all_declarations():
        for sign in surface.signs:
            if not sign.orphan:
                found = visible_signs(sign, node.labels, keys, node.annotations)
                yield from (f"{text} ({place})" for place, text in found)


def _at(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = body.get(name) if isinstance(body, Mapping) else None
    return body
