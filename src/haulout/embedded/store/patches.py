"""Patches as the API server applies them: JSON patch, and strategic merge patch with its directives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from haulout.base import patch as json_patches
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import refusals
from haulout.embedded.rules.fields import Field, fields_of, is_struct
from haulout.embedded.rules.refusals import cannot_unmarshal

_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def apply_operations(obj: Json, operations: list[Any]) -> Any:
    """Apply a JSON patch as Go's library does. Raises `PatchFailed` with its message."""
    changed: Any = obj
    for operation in operations:
        if not isinstance(operation, dict):
            raise json_patches.PatchFailed(cannot_unmarshal(operation, "jsonpatch.Operation"))
        act, path = operation.get("op"), operation.get("path")
        try:
            changed = json_patches.apply(changed, _strictly(operation, changed))
        except json_patches.PatchFailed:
            text = f'{act} operation does not apply: doc is missing path: "{path}": missing value'
            raise json_patches.PatchFailed(
                f"testing value {path} failed: test failed" if act == "test" else text
            ) from None
    return changed


def _strictly(operation: Json, obj: Any) -> list[Json]:
    """Return operations that have the effect of Go's library under the strict rules of RFC 6902.

    For copy, replace and test, Go's library treats a missing member as null.
    """
    act = operation.get("op")
    place = str(operation.get("from" if act == "copy" else "path"))
    if act not in {"copy", "replace", "test"} or not _is_absent(obj, place):
        return [operation]
    if act == "copy":
        return [{**operation, "op": "add", "value": None}]
    if act == "replace":
        return [{**operation, "op": "add"}]
    return [] if operation.get("value", "") is None else [operation]


def _is_absent(obj: Any, path: str) -> bool:
    """Whether the object that the path leads to lacks its last member."""
    parent, _, name = path.rpartition("/")
    try:
        holder = json_patches.apply(obj, [{"op": "copy", "from": parent, "path": ""}])
    except json_patches.PatchFailed:
        return False
    return isinstance(holder, dict) and name.replace("~1", "/").replace("~0", "~") not in holder


def strategic_merge(type_name: str, original: Any, patch: Json) -> Any:
    """Return the value of this type after a strategic merge patch. The original is not changed."""
    return _merge_object(type_name, original if isinstance(original, dict) else {}, patch)


def _merge_object(type_name: str, original: Json, patch: Json) -> Json:
    match patch.get("$patch"):
        case "replace":
            return {name: value for name, value in patch.items() if name != "$patch"}
        case "delete":
            return {}
        case "merge" | None:
            pass
        case other:
            raise refusals.unclassified_error(f"unknown patch type: {other} in map: {_go_map(patch)}")
    retained = patch.get("$retainKeys")
    result = dict(original) if retained is None else {name: original[name] for name in retained if name in original}
    fields: Mapping[str, Field] = fields_of(type_name) if is_struct(type_name) else {}
    for name, value in patch.items():
        if name.startswith("$"):
            _merge_directive(name, value, patch, fields, result)
        elif value is None or (name not in result and _is_directive(value)):
            result.pop(name, None)
        else:
            order = patch.get(_ORDER + name)
            result[name] = _merge_value(_field(type_name, fields, name), result.get(name), value, order)
    return result


def _merge_directive(name: str, value: Any, patch: Json, fields: Mapping[str, Field], result: Json) -> None:
    """Apply a directive about a list that the patch itself does not contain."""
    if name.startswith(_DELETE):
        member = name.removeprefix(_DELETE)
        result[member] = [item for item in result.get(member, ()) if item not in value]
    elif name.startswith(_ORDER):
        member = name.removeprefix(_ORDER)
        field = fields.get(member)
        if member not in patch and field is not None and field.merge_key is not None and member in result:
            result[member] = _reorder(result[member], value, result[member], field.merge_key)


def _field(type_name: str, fields: Mapping[str, Field], name: str) -> Field:
    if name in fields:
        return fields[name]
    # The value of a map, or an unknown field.
    item = type_name.removeprefix("{}") if type_name.startswith("{}") else "any"
    return Field(item, False, "", None, False)


def _merge_value(field: Field, original: Any, value: Any, order: list[Any] | None) -> Any:
    if original is None:
        return without_directives(value)
    if isinstance(value, dict):
        return _merge_object(field.type, original if isinstance(original, dict) else {}, value)
    if isinstance(value, list) and field.merge_key is not None:
        before = original if isinstance(original, list) else []
        if order is not None:
            _check_order(value, order, field.merge_key)
        if field.merge_key:
            merged = _merge_list(field, before, value)
        else:
            merged = before + [item for item in dict.fromkeys(value) if item not in before]
        merged = _reorder(merged, value, before, field.merge_key)
        return merged if order is None else _reorder(merged, order, before, field.merge_key)
    return value


def _check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """Refuse a patch whose list items are not in the order of its $setElementOrder, or are missing there."""
    identities = iter([_identity(item, key) for item in order])
    if not all(_identity(item, key) in identities for item in patch if not _is_directive(item)):
        text = f"The order in patch list:\n{_go_map(patch)}\n doesn't match $setElementOrder list:\n{_go_map(order)}\n"
        raise refusals.unclassified_error(text)


def without_directives(value: Any) -> Any:
    """Return a value that a patch adds, without directives and without the list items that have one."""
    if isinstance(value, dict):
        kept = {name: item for name, item in value.items() if item is not None and not name.startswith("$")}
        return {name: without_directives(item) for name, item in kept.items() if not _is_directive(item)}
    if isinstance(value, list):
        return [without_directives(item) for item in value if not _is_directive(item)]
    return value


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and "$patch" in value


def _merge_list(field: Field, original: list[Any], patch: list[Any]) -> list[Any]:
    key, item_type = field.merge_key or "", field.type.removeprefix("[]")
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    result = list(original)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise refusals.unclassified_error(f"map: {_go_map(item)} does not contain declared merge key: {key}")
        places = [index for index, other in enumerate(result) if other.get(key) == item[key]]
        if item.get("$patch") == "delete":
            result = [other for other in result if other.get(key) != item[key]]
        elif places:
            result[places[0]] = _merge_object(item_type, result[places[0]], item)
        else:
            result.append(_merge_object(item_type, {}, item))
    return result


def _reorder(merged: list[Any], order: list[Any], server: list[Any], key: str) -> list[Any]:
    """Return the patch's items in the patch's order, merged with the items that only the server has.

    Such an item is placed before the first item that followed it on the server.
    """

    def identity(item: Any) -> Any:
        return _identity(item, key)

    wanted = [identity(item) for item in order]
    stood = {identity(item): index for index, item in enumerate(server)}
    right = sorted((item for item in merged if identity(item) in wanted), key=lambda item: wanted.index(identity(item)))
    others = [item for item in merged if identity(item) not in wanted]
    result: list[Any] = []
    for item in others:
        while right and stood.get(identity(right[0]), -1) < stood.get(identity(item), len(stood)):
            result.append(right.pop(0))
        result.append(item)
    return result + right


def _identity(item: Any, key: str) -> Any:
    """Return the identity of a list item: its merge key or, in a list of plain values, the value itself."""
    return item.get(key) if key and isinstance(item, dict) else item


def _go_map(value: Any) -> str:
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{_go_map(item)}' for name, item in sorted(value.items()))}]"
    return f"[{' '.join(map(_go_map, value))}]" if isinstance(value, list) else str(value)
