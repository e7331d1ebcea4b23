"""Reads plain values of a file into typed structs, and collects everything that is wrong with them.

The reader of each file format adds its own rules: which keys and values it accepts, and in which words it refuses others
(decision 0171).
"""

from __future__ import annotations

from collections.abc import Collection
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

Path = tuple[str, ...]
# A problem in the file: where it is, what is wrong, and what would be right.
Flaw = tuple[Path, str, str]
NO_LIST = ("a list belongs here", "write - one entry a line, or [a, b]")
NO_MAP = ("a map of settings belongs here", "write name: value")
# The result for a value that cannot be read.
GAP: Any = object()
# For each type, the example value in the text about a missing key.
_EXAMPLES: dict[Any, str] = {str: "TEXT", int: "NUMBER", tuple: "[...]"}


class StructReader:
    """A reader of structs that continues after a problem. It collects the problems in `flaws`.

    A key without a value counts as absent. `has_empty_blocks`: a block without settings counts as an empty one instead, and
    so does a value that is no block, after it has been reported.
    """

    has_empty_blocks = False

    def __init__(self) -> None:
        self.flaws: list[Flaw] = []

    def check_key(self, kind: type[Any], name: str, known: Collection[str], path: Path) -> None:
        """Report a key that the struct `kind` must not have."""
        raise NotImplementedError

    def scalar(self, annotation: Any, value: Any, path: Path) -> Any:
        """Return a single value in the type of its field; GAP, or a value in its place, after it has been reported."""
        raise NotImplementedError

    def check(self, annotation: Any, value: Any, path: Path) -> None:
        """Report a value, or the default of an absent one, that the field's type allows and the field does not."""

    def wrong(self, path: Path, what: str, right: str) -> Any:
        self.flaws.append((path, what, right))
        return GAP

    def struct(self, kind: type[Any], content: Any, path: Path) -> Any:
        """Return the struct as far as it can be read; GAP if a required key is missing or wrong."""
        if content is not None and not isinstance(content, dict):
            self.wrong(path, *NO_MAP)
            if not self.has_empty_blocks:
                return GAP
        entries = content if isinstance(content, dict) else {}
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        for name in entries:
            self.check_key(kind, name, fields, path)
        values = {field.name: self._field(field, entries, (*path, name)) for name, field in fields.items()}
        if any(values[field.name] is GAP for field in fields.values() if field.required):
            return GAP
        return kind(**{name: value for name, value in values.items() if value is not GAP})

    def _field(self, field: msgspec.structs.FieldInfo, entries: dict[str, Any], path: Path) -> Any:
        value, kind = entries.get(field.encode_name), kinds(field.type)[0]
        is_list = get_origin(kind) is tuple
        is_empty = self.has_empty_blocks and field.encode_name in entries and (is_list or _is_struct(kind))
        if value is not None or is_empty:
            made = self._value(field.type, value, path)
            if made is not GAP:
                self.check(field.type, made, path)
            return made
        if field.required:
            return self.wrong(path, "is missing", f"add {field.encode_name}: {_example(kind)}")
        if not is_list:
            self.check(field.type, field.default, path)
        return GAP

    def _value(self, annotation: Any, value: Any, path: Path) -> Any:
        kind = kinds(annotation)[0]
        if _is_struct(kind):
            return self.struct(kind, value, path)
        if get_origin(kind) is tuple:
            return self._items(get_args(kind)[0], value, path)
        if get_origin(kind) is dict:
            return self._map(get_args(kind)[1], value, path)
        return value if kind is Any else self.scalar(annotation, value, path)

    def _items(self, item: Any, value: Any, path: Path) -> Any:
        if not isinstance(value, list):
            return self.wrong(path, *NO_LIST)
        made = tuple(self._value(item, each, (*path, str(number))) for number, each in enumerate(value))
        return GAP if GAP in made else made

    def _map(self, item: Any, value: Any, path: Path) -> Any:
        if not isinstance(value, dict):
            return self.wrong(path, *NO_MAP)
        made = {name: self._value(item, each, (*path, name)) for name, each in value.items()}
        return GAP if GAP in made.values() else made


def kinds(annotation: Any) -> tuple[Any, ...]:
    """Return the types that an annotation allows, without null."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return tuple(kind for kind in get_args(annotation) if kind is not NoneType)
    return (annotation,)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _example(kind: Any) -> str:
    return _EXAMPLES.get(get_origin(kind) or kind, "{...}")
