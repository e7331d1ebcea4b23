"""The conversion of plain values to typed blocks.

It continues after an error, so that all errors are reported at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from haulout.plugins.file_lint import similar
from haulout.surfaces.notify.config_file.spans import Span, read

Path = tuple[str, ...]
# A problem in the file: where it is, what is wrong, and what would be right.
Flaw = tuple[Path, str, str]
# Kubernetes' integers have 32 bits.
LARGEST = 2**31 - 1
DURATION = "text with a unit, as 90s or 1h30m"
# For each type, the text for a value of another type, and what would be right.
_WORDS: dict[Any, tuple[str, str]] = {
    bool: ("not a truth value", "true or false"),
    int: ("not a whole number", f"digits, at most {LARGEST}"),
    float: ("not a number", "digits, as 0.5"),
    str: ("not a text", "a single value, in quotes where in doubt"),
    tuple: ("a list belongs here", "write - one entry a line, or [a, b]"),
    dict: ("a map of settings belongs here", "write name: value"),
    (int, str): ("neither a number nor a percentage", "3 or 10%"),
    (bool, str): ("neither a truth value nor a text", "true, false or a word"),
}
# For each type, the example value in the text about a missing key.
_EXAMPLES: dict[Any, str] = {str: "TEXT", int: "NUMBER", tuple: "[...]"}
_GAP: Any = object()


class Reader:
    """A reader of typed blocks that collects the problems with types in `flaws`.

    A key without a value counts as absent. An unknown key is a problem if the block forbids it.
    """

    def __init__(self) -> None:
        self.flaws: list[Flaw] = []

    def block(self, kind: type[Any], content: Any, path: Path) -> Any | None:
        """Return the block as far as it can be read; None if a required key is missing or wrong."""
        made = self._block(kind, content, path)
        return None if made is _GAP else made

    def _block(self, kind: type[Any], content: Any, path: Path) -> Any:
        entries = {} if content is None else content
        if not isinstance(entries, dict):
            return self._wrong(path, *_WORDS[dict])
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        if kind.__struct_config__.forbid_unknown_fields:
            self._unknown(entries, fields, path)
        values = {}
        for name, field in fields.items():
            if entries.get(name) is not None:
                values[field.name] = self._value(field.type, entries[name], (*path, name))
            elif field.required:
                values[field.name] = self._wrong((*path, name), "is missing", f"add {name}: {_example(field.type)}")
        if any(values[field.name] is _GAP for field in fields.values() if field.required):
            return _GAP
        return kind(**{name: value for name, value in values.items() if value is not _GAP})

    def _unknown(self, entries: Iterable[Any], known: Iterable[str], path: Path) -> None:
        for name in entries:
            if name not in known:
                right = similar(str(name), known) or f"known: {', '.join(known)}"
                self._wrong((*path, str(name)), "there is no such key", right)

    def _value(self, annotation: Any, value: Any, path: Path) -> Any:
        kinds = _kinds(annotation)
        kind, origin = kinds[0], get_origin(kinds[0])
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self._block(kind, value, path)
        if origin is tuple:
            return self._items(get_args(kind)[0], value, path)
        if origin is dict:
            return self._map(get_args(kind)[1], value, path)
        if kind is Any:
            return value
        return self._scalar(kinds, value, path)

    def _items(self, item: Any, value: Any, path: Path) -> Any:
        if not isinstance(value, list):
            return self._wrong(path, *_WORDS[tuple])
        made = tuple(self._value(item, each, (*path, str(number))) for number, each in enumerate(value))
        return _GAP if _GAP in made else made

    def _map(self, item: Any, value: Any, path: Path) -> Any:
        if not isinstance(value, dict):
            return self._wrong(path, *_WORDS[dict])
        made = {name: self._value(item, each, (*path, str(name))) for name, each in value.items()}
        return _GAP if _GAP in made.values() else made

    def _scalar(self, kinds: tuple[Any, ...], value: Any, path: Path) -> Any:
        if isinstance(kinds[0], type) and issubclass(kinds[0], Span):
            try:
                return read(kinds[0], value)
            except ValueError as error:
                return self._wrong(path, str(error), DURATION)
        for kind in kinds:
            made = _typed(kind, value)
            if made is not _GAP:
                return made
        return self._wrong(path, *_WORDS[kinds if len(kinds) > 1 else kinds[0]])

    def _wrong(self, path: Path, what: str, right: str) -> Any:
        self.flaws.append((path, what, right))
        return _GAP


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """Return the types that a value may have, without null."""
    if get_origin(annotation) in (Union, UnionType):
        return tuple(kind for kind in get_args(annotation) if kind is not NoneType)
    return (annotation,)


def _typed(kind: Any, value: Any) -> Any:
    """Return the value converted to this type, or `_GAP`. Like in JSON, a whole number may be written as 3.0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is float and is_number:
        return float(value)
    if kind is int and is_number and value == int(value) and abs(value) <= LARGEST:
        return int(value)
    return value if kind in (bool, str) and isinstance(value, kind) else _GAP


def _example(annotation: Any) -> str:
    kind = _kinds(annotation)[0]
    return _EXAMPLES.get(get_origin(kind) or kind, "{...}")
