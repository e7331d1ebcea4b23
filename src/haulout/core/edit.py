"""Edits of one object: the row that they lead to, and the merge patch that makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

import msgspec

from haulout.cluster.rows import NodeRow, ObjectRow, Row, Taint
from haulout.core.action import Annotate, Cordon, Edit, Finalize, Label, Patch, SetTaint

replace = msgspec.structs.replace


def apply_edit(row: Row | None, edit: Edit) -> Row | None:
    """Return the row after an edit. An edit of a field that the row does not have changes nothing."""
    if isinstance(edit, Patch):
        return edit.becomes if edit.becomes is not None else row
    if not isinstance(row, ObjectRow):
        return row
    match edit:
        case Label():
            return replace(row, labels=_with(row.labels, edit.name, edit.value))
        case Annotate():
            return replace(row, annotations=_with(row.annotations, edit.name, edit.value))
        case Finalize():
            others = tuple(name for name in row.finalizers if name != edit.name)
            if not edit.present:
                return replace(row, finalizers=others)
            return row if edit.name in row.finalizers else replace(row, finalizers=(*others, edit.name))
        case Cordon():
            return replace(row, unschedulable=edit.unschedulable) if isinstance(row, NodeRow) else row
        case SetTaint():
            return replace(row, taints=_taints(row.taints, edit)) if isinstance(row, NodeRow) else row
        case _:
            assert_never(edit)


def apply_all(row: Row | None, edits: Iterable[Edit]) -> Row | None:
    for edit in edits:
        row = apply_edit(row, edit)
    return row


def between(before: NodeRow, after: NodeRow) -> tuple[Edit, ...]:
    """Return the edits that turn the node `before` into `after`."""
    key = before.key
    edits: list[Edit] = []
    for kind, old, new in ((Label, before.labels, after.labels), (Annotate, before.annotations, after.annotations)):
        if old is not new and old != new:
            changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
            edits += [kind(key, name, new.get(name)) for name in sorted(changed)]
    for name in (*before.finalizers, *after.finalizers):
        if (name in before.finalizers) != (name in after.finalizers):
            edits.append(Finalize(key, name, name in after.finalizers))
    if before.unschedulable != after.unschedulable:
        edits.append(Cordon(key, after.unschedulable))
    if before.taints != after.taints:
        edits += [SetTaint(key, taint, present=False) for taint in before.taints if taint not in after.taints]
        edits += [SetTaint(key, taint, present=True) for taint in after.taints if taint not in before.taints]
    return tuple(edits)


def merge_patch(row: Row | None, edits: Iterable[Edit]) -> dict[str, Any]:
    """Return one patch for several edits of one object.

    Lists are sent whole, which is safe because the patch names the resource version that it was made for.
    """
    body: dict[str, Any] = {}
    # Lists are computed from the row with all edits so far.
    current = row
    for edit in edits:
        match edit:
            case Label():
                _deep(body, ("metadata", "labels"))[edit.name] = edit.value
            case Annotate():
                _deep(body, ("metadata", "annotations"))[edit.name] = edit.value
            case Finalize():
                current = apply_edit(current, edit)
                names = current.finalizers if isinstance(current, ObjectRow) else ()
                _deep(body, ("metadata",))["finalizers"] = list(names) or None
            case Cordon():
                _deep(body, ("spec",))["unschedulable"] = edit.unschedulable or None
            case SetTaint():
                current = apply_edit(current, edit)
                taints = current.taints if isinstance(current, NodeRow) else ()
                _deep(body, ("spec",))["taints"] = [_taint_body(taint) for taint in taints] or None
            case Patch():
                current = apply_edit(current, edit)
                _merge_into(body, edit.body)
            case _:
                assert_never(edit)
    return body


def changes_nothing(row: Row | None, edits: Iterable[Edit]) -> bool:
    """Whether the row already has all that the edits set. A `Patch` is opaque and counts as a change."""
    edits = tuple(edits)
    return row is not None and not any(isinstance(edit, Patch) for edit in edits) and apply_all(row, edits) == row


def _with(values: Mapping[str, str], name: str, value: str | None) -> dict[str, str]:
    if value is not None:
        return {**values, name: value}
    return {key: kept for key, kept in values.items() if key != name}


def _taints(taints: tuple[Taint, ...], edit: SetTaint) -> tuple[Taint, ...]:
    same = [taint for taint in taints if (taint.key, taint.effect) == (edit.taint.key, edit.taint.effect)]
    others = tuple(taint for taint in taints if taint not in same)
    if not edit.present:
        return others
    if any(taint.value == edit.taint.value for taint in same):
        return taints
    return (edit.taint, *others) if edit.first else (*others, edit.taint)


def _taint_body(taint: Taint) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(taint)
    return {name: value for name, value in body.items() if value is not None and value != ""}


def _deep(body: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    for part in path:
        body = body.setdefault(part, {})
    return body


def _merge_into(body: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, Mapping) and isinstance(body.get(name), dict):
            _merge_into(body[name], value)
        else:
            body[name] = dict(value) if isinstance(value, Mapping) else value
