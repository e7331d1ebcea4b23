"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902) on plain JSON values; no argument is ever changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any


class PatchFailed(ValueError):
    """A patch cannot be applied, or is not a valid patch. The message names the operation and the place."""


class NotRepresentable(ValueError):
    """A change that no merge patch can express.

    A merge patch cannot set a member to null: null is how it removes one.
    """


def same(a: Any, b: Any) -> bool:
    """Whether values are equal as JSON: numbers by value, but unlike in Python true is not 1."""
    # Values that differ in Python differ in JSON, too. Only equal ones may have true in place of 1.
    return bool(a == b) and _same_booleans(a, b)


def _same_booleans(a: Any, b: Any) -> bool:
    """Whether two values that are equal in Python have true and false in the same places."""
    if a is b:
        return True
    if isinstance(a, dict):
        return all(_same_booleans(value, b[name]) for name, value in a.items())
    if isinstance(a, list):
        return all(map(_same_booleans, a, b))
    return isinstance(a, bool) is isinstance(b, bool)


def merge(target: Any, patch: Any) -> Any:
    """Return the value after the merge patch. Parts that the patch leaves as they are stay the same objects."""
    if not isinstance(patch, dict):
        return patch
    before: dict[str, Any] = target if isinstance(target, dict) else {}
    result = before
    for name, value in patch.items():
        old = before.get(name)
        new = merge(old, value) if isinstance(value, dict) else value
        if new is old and (new is not None or name not in before):
            continue
        if result is before:
            result = dict(before)
        if new is None:
            del result[name]
        else:
            result[name] = new
    return result


def merge_diff(old: Any, new: Any) -> Any:
    """Return the smallest merge patch that turns `old` into `new`; `{}` if both are equal objects."""
    if not isinstance(new, dict):
        return new
    if not isinstance(old, dict):
        _reject_nulls(new, "")
        return new
    return _diff(old, new, "")


def _diff(old: Mapping[str, Any], new: Mapping[str, Any], place: str) -> dict[str, Any]:
    patch: dict[str, Any] = dict.fromkeys(name for name in old if name not in new)
    for name, value in new.items():
        if name in old and same(old[name], value):
            continue
        here = f"{place}/{_escape(name)}"
        if isinstance(value, dict) and isinstance(old.get(name), dict):
            patch[name] = _diff(old[name], value, here)
        else:
            _reject_nulls(value, here)
            patch[name] = value
    return patch


def _reject_nulls(value: Any, place: str) -> None:
    """Raise `NotRepresentable` for a null in a value. Nulls in lists are fine: a merge patch replaces a whole list."""
    if value is None:
        raise NotRepresentable(f"{place}: a merge patch cannot set null")
    if isinstance(value, dict):
        for name, member in value.items():
            _reject_nulls(member, f"{place}/{_escape(name)}")


def apply(document: Any, ops: Sequence[Mapping[str, Any]]) -> Any:
    """Return the document after all operations of a JSON patch. Raises `PatchFailed` if one of them fails."""
    for index, op in enumerate(ops):
        if not isinstance(op, Mapping):
            raise PatchFailed(f"operation {index} is {_show(op)}, not an object")
        try:
            document = _operate(document, op)
        except PatchFailed as error:
            name, path = op.get("op", "?"), op.get("path", "?")
            raise PatchFailed(f"operation {index} ({name} {path}): {error}") from None
    return document


def _operate(document: Any, op: Mapping[str, Any]) -> Any:
    path = _pointer(op, "path")
    match op.get("op"):
        case "add":
            return _add(document, path, _value(op))
        case "remove":
            return _remove(document, path)
        case "replace":
            return _replace(document, path, _value(op))
        case "move":
            source = _pointer(op, "from")
            value = _look(document, source)
            if path == source:
                return document
            if path[: len(source)] == source:
                raise PatchFailed(f"{op['from']} cannot be moved into itself")
            return _add(_remove(document, source), path, value)
        case "copy":
            return _add(document, path, _look(document, _pointer(op, "from")))
        case "test":
            found, expected = _look(document, path), _value(op)
            if not same(found, expected):
                raise PatchFailed(f"the value is {_show(found)}, not {_show(expected)}")
            return document
        case None:
            raise PatchFailed("no op is given")
        case other:
            raise PatchFailed(f"unknown op {_show(other)}; there are add, remove, replace, move, copy and test")


def _value(op: Mapping[str, Any]) -> Any:
    if "value" not in op:
        raise PatchFailed("no value is given")
    return op["value"]


def _pointer(op: Mapping[str, Any], member: str) -> list[str]:
    text = op.get(member)
    if not isinstance(text, str):
        raise PatchFailed(f"no {member} is given")
    if text and not text.startswith("/"):
        raise PatchFailed(f'{member} "{text}" does not begin with "/"')
    return [_unescape(token) for token in text.split("/")[1:]]


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _unescape(token: str) -> str:
    if "~" in token.replace("~0", "").replace("~1", ""):
        raise PatchFailed(f'"~" in "{token}" is followed by neither 0 nor 1')
    return token.replace("~1", "/").replace("~0", "~")


def _look(document: Any, path: Sequence[str]) -> Any:
    for depth, token in enumerate(path):
        document = document[_key(document, token, path[:depth])]
    return document


def _add(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    document, parent = _unshare(document, path)
    key = _key(parent, path[-1], path[:-1], adding=True)
    if isinstance(parent, list):
        parent.insert(int(key), value)
    else:
        parent[key] = value
    return document


def _replace(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    document, parent = _unshare(document, path)
    parent[_key(parent, path[-1], path[:-1])] = value
    return document


def _remove(document: Any, path: Sequence[str]) -> Any:
    if not path:
        raise PatchFailed("the whole document cannot be removed")
    document, parent = _unshare(document, path)
    del parent[_key(parent, path[-1], path[:-1])]
    return document


def _unshare(document: Any, path: Sequence[str]) -> tuple[Any, Any]:
    """Return a document whose containers along the path are copies, and the last of these containers."""
    document = parent = copy.copy(document)
    for depth, token in enumerate(path[:-1]):
        key = _key(parent, token, path[:depth])
        parent[key] = copy.copy(parent[key])
        parent = parent[key]
    return document, parent


def _key(container: Any, step: str, place: Sequence[str], *, adding: bool = False) -> str | int:
    """Return a step of a path as a key or index of its container. It must exist there, unless `adding`."""
    where = "".join(f"/{_escape(name)}" for name in place) or "the document"
    if isinstance(container, dict):
        if not adding and step not in container:
            raise PatchFailed(f'{where} has no member "{step}"')
        return step
    if not isinstance(container, list):
        raise PatchFailed(f"{where} is {_show(container)}, neither object nor list")
    if step == "-" and adding:
        return len(container)
    if not (step.isascii() and step.isdecimal()) or (len(step) > 1 and step[0] == "0"):
        raise PatchFailed(f'"{step}" is no index of the list {where}')
    if len(step) > 9 or int(step) >= len(container) + adding:
        raise PatchFailed(f"index {step} is beyond the {len(container)} items of {where}")
    return int(step)


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
