"""Finds the marks of surfaces on objects, and makes the patches that remove them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from haulout.acts.let_go import given_back, is_kept, node_row, taints_of
from haulout.core import cordon
from haulout.core.node_signs import shows_sign
from haulout.core.remains import OWN_PREFIX, Mark, Place, marks_on
from haulout.core.surface import Surface

Json = Mapping[str, Any]
# Every object of others loses these, too.
_OWN = tuple(Mark(place, OWN_PREFIX, is_prefix=True) for place in (Place.LABEL, Place.ANNOTATION))


class Unmarking(msgspec.Struct, frozen=True):
    """The removal of all marks from one object.

    `body`: the merge patch; empty if the object itself stays. `conditions`: those that stay, if one of them goes.
    `texts`: what is removed, for people. `found`: the names of the marks that were found.
    """

    body: dict[str, Any] = {}
    conditions: list[Json] | None = None
    texts: tuple[str, ...] = ()
    found: tuple[str, ...] = ()


def unmark_object(target: Json, marks: Iterable[Mark], finalizers: Iterable[str]) -> Unmarking:
    """Return the removal of marks and finalizers from an object that is not a Node."""
    found = dict(_found(target, (*marks, *_OWN)))
    metadata, texts = _without(found), [_text(place, name) for place, name in found]
    own, present = frozenset(finalizers), _metadata(target).get("finalizers") or []
    if own.intersection(present):
        metadata["finalizers"] = [each for each in present if each not in own]
        texts += [f"finalizer {each}" for each in present if each in own]
    return Unmarking({"metadata": metadata} if metadata else {}, texts=tuple(texts), found=_names(found))


def unmark_node(
    target: Json,
    marks: Iterable[Mark],
    surfaces: frozenset[str],
    *,
    is_shared: bool,
    is_last: bool,
    keeps_records: bool,
) -> Unmarking:
    """Return the removal of marks from a Node, which is given back as the cordon ledger remembers it.

    `surfaces`: those whose marks go. `is_shared`: another surface claims the node, so it stays cordoned.
    `is_last`: no surface remains in the cluster, so the ledger goes in any case. `keeps_records`: see `Mark.is_record`.
    """
    node, taints = node_row(target), taints_of(target)
    entry = cordon.ledger(node)
    found = dict(_found(target, marks, keeps_records=keeps_records))
    metadata, texts, edited = _without(found), [_text(place, name) for place, name in found], node
    others = tuple(name for name in entry.by if name not in surfaces) if entry is not None else ()
    if entry is not None and not is_last and (is_shared or others):
        if others != entry.by:
            kept = msgspec.json.encode(msgspec.structs.replace(entry, by=others)).decode()
            metadata.setdefault("annotations", {})[cordon.ANNOTATION] = kept
            texts.append(
                f"{', '.join(name for name in entry.by if name in surfaces)} in annotation {cordon.ANNOTATION}"
            )
    elif entry is not None:
        edited = given_back(node, entry)
        metadata["labels"] = {**metadata.get("labels", {}), **entry.labels}
        metadata.setdefault("annotations", {})[cordon.ANNOTATION] = None
        text = _text(Place.ANNOTATION, cordon.ANNOTATION)
        texts += [] if text in texts else [text]
        if node.unschedulable and not edited.unschedulable:
            texts.append("cordon")
    gone = {name for place, name in found if place is Place.TAINT}
    remaining = [each for each in taints if each.get("key") not in gone and is_kept(each, edited)]
    spec: dict[str, Any] = {"unschedulable": None} if node.unschedulable and not edited.unschedulable else {}
    if remaining != taints:
        spec["taints"] = remaining or None
    metadata = {name: each for name, each in metadata.items() if each}
    body = {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})}
    return Unmarking(body, _conditions(target, found), tuple(texts), _names(found))


def shows_claim(target: Json, surfaces: Iterable[Surface]) -> bool:
    """Whether a Node shows that one of these surfaces claims it."""
    metadata, taints = _metadata(target), [str(each.get("key")) for each in taints_of(target)]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return any(shows_sign(each.signs, labels, taints, annotations) for each in surfaces)


def _found(
    target: Json, marks: Iterable[Mark], *, keeps_records: bool = False
) -> Iterator[tuple[tuple[Place, str], None]]:
    """Yield place and name of each mark on an object that is to go."""
    present = {
        Place.LABEL: _metadata(target).get("labels") or {},
        Place.ANNOTATION: _metadata(target).get("annotations") or {},
        Place.TAINT: {str(each.get("key")): each.get("value") for each in taints_of(target)},
        Place.CONDITION: {str(each.get("type")): each.get("status") for each in _all_conditions(target)},
    }
    for place, name, mark in marks_on(present, marks):
        if not (mark.is_record and keeps_records):
            yield (place, name), None


def _without(found: Iterable[tuple[Place, str]]) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for place, name in found:
        if place in (Place.LABEL, Place.ANNOTATION):
            metadata.setdefault(f"{place.value}s", {})[name] = None
    return metadata


def _conditions(target: Json, found: Iterable[tuple[Place, str]]) -> list[Json] | None:
    gone = {name for place, name in found if place is Place.CONDITION}
    return [each for each in _all_conditions(target) if each.get("type") not in gone] if gone else None


def _all_conditions(target: Json) -> list[Json]:
    return list((target.get("status") or {}).get("conditions") or ())


def _metadata(target: Json) -> Json:
    metadata: Json = target.get("metadata") or {}
    return metadata


def _names(found: Iterable[tuple[Place, str]]) -> tuple[str, ...]:
    return tuple(name for _, name in found)


def _text(place: Place, name: str) -> str:
    return f"{place.value} {name}"
