"""YAML as Go's yaml.v2 understands it, as a tree that remembers where everything stands.

Only the first document is read. The last of equal keys wins, and so does a merge (`<<`) over the keys above it.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import yaml

from haulout.base.number import INT64_MIN, UINT64_MAX, parse_float, parse_int

_Loader: Any = getattr(yaml, "CLoader", yaml.Loader)

# Deeper than any configuration, and shallow enough for whoever walks the tree by recursion.
_DEEPEST = 100
_LARGEST = 1 << 40

_TAG = "tag:yaml.org,2002:"
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_CONSTANTS: dict[str, bool | float | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}


class Place(msgspec.Struct, frozen=True):
    """Where something stands in a file; both count from 1."""

    line: int
    column: int


class YamlError(ValueError):
    """Not YAML, or not YAML that we read: what is wrong, and where."""

    def __init__(self, problem: str, place: Place | None = None) -> None:
        super().__init__(f"yaml: line {place.line}: {problem}" if place else f"yaml: {problem}")
        self.problem = problem
        self.place = place


class Scalar(msgspec.Struct, frozen=True):
    """`text`: as written, where a word was read as true or false."""

    value: str | int | float | bool | None
    place: Place
    text: str = ""


class Sequence(msgspec.Struct, frozen=True):
    items: tuple[Node, ...]
    place: Place


class Mapping(msgspec.Struct, frozen=True):
    """`keys` says where each key stands, `entries` what belongs to it.

    `earlier`: where those stand that a later one of the same name has replaced, the last of them.
    """

    entries: dict[str, Node]
    keys: dict[str, Place]
    place: Place
    earlier: dict[str, Place] = {}


Node = Scalar | Sequence | Mapping


def parse(data: bytes | str, *, any_keys: bool = False) -> Node | None:
    """The first document; None if there is none. `any_keys`: numbers and truth values are keys, too, as they are written."""
    with _typed_errors():
        return _Builder(any_keys=any_keys).document(_events(data))


def second_document(data: bytes | str) -> Place | None:
    """Where one begins that `parse` does not read; an empty one is none."""
    with _typed_errors():
        events = _events(data)
        starts = (event for event in events if isinstance(event, yaml.DocumentStartEvent))
        next(starts, None)
        for start in starts:
            content = next(events)
            if not isinstance(content, yaml.ScalarEvent) or content.value:
                return _mark(start)
    return None


def _events(data: bytes | str) -> Iterator[Any]:
    yield from yaml.parse(data.encode(errors="surrogatepass") if isinstance(data, str) else data, Loader=_Loader)


@contextlib.contextmanager
def _typed_errors() -> Iterator[None]:
    try:
        yield
    except yaml.MarkedYAMLError as error:
        raise YamlError(error.problem or error.context or "unreadable", _place(error.problem_mark)) from None
    except yaml.reader.ReaderError as error:
        raise YamlError(f"{error.reason} at position {error.position}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        if isinstance(error, YamlError):
            raise
        raise YamlError(str(error)) from None


def resolve(text: str) -> str | int | float | bool | None:
    """What an unquoted scalar means."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] == ".":
        return text if (number := parse_float(text)) is None else number
    if text[0] not in "+-0123456789":
        return text
    digits = text.replace("_", "")
    integer = parse_int(digits)
    if integer is not None and INT64_MIN <= integer <= UINT64_MAX:
        return integer
    # More than 64 bits, and octal numbers with an 8 or 9, are floats like any other row of digits.
    number = parse_float(digits) if _FLOAT.fullmatch(digits) else None
    return text if number is None else number


def is_null(node: Node | None) -> bool:
    return node is None or (isinstance(node, Scalar) and node.value is None)


def place_of(node: Node | None, path: Iterable[str]) -> Place | None:
    """Where the value at a path stands, or else the innermost block around it."""
    place = node.place if node else None
    for step in path:
        node = _child(node, step)
        place = node.place if node else place
    return place


def node_at(node: Node | None, path: Iterable[str]) -> Node | None:
    for step in path:
        node = _child(node, step)
    return node


def _child(node: Node | None, step: str) -> Node | None:
    if isinstance(node, Mapping):
        return node.entries.get(step)
    if isinstance(node, Sequence) and step.isdecimal() and int(step) < len(node.items):
        return node.items[int(step)]
    return None


class _Open(msgspec.Struct):
    """A collection under construction; of a mapping, the members are keys and values in turn."""

    place: Place
    anchor: str | None
    is_mapping: bool
    members: list[_Built] = []


class _Built(msgspec.Struct, frozen=True):
    """A node with its measures: `size` counts what aliases stand for, `own` counts them as one each."""

    node: Node
    height: int = 1
    size: int = 1
    own: int = 1
    is_merge: bool = False


class _Builder:
    """Turns events into nodes, with a stack of its own: depth costs a message, never a crash."""

    def __init__(self, *, any_keys: bool) -> None:
        self._any_keys = any_keys
        self._anchors: dict[str, _Built | None] = {}
        self._stack: list[_Open] = []

    def document(self, events: Iterator[Any]) -> Node | None:
        for event in events:
            built = self._event(event)
            if built is None:
                continue
            if not self._stack:
                _check_aliasing(built)
                next(events)  # the end of the document: what is wrong before it is still ours
                return built.node
            self._stack[-1].members.append(built)
        return None

    def _event(self, event: Any) -> _Built | None:
        match event:
            case yaml.ScalarEvent():
                built = _scalar(event)
                self._remember(event.anchor, built)
                return built
            case yaml.AliasEvent():
                return self._alias(event)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._remember(event.anchor, None)
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                self._stack.append(_Open(_mark(event), event.anchor, is_mapping))
                if len(self._stack) > _DEEPEST:
                    raise YamlError(f"exceeded max depth of {_DEEPEST}", _mark(event))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                return self._close(self._stack.pop())
        return None

    def _alias(self, event: Any) -> _Built:
        if event.anchor not in self._anchors:
            raise YamlError(f"unknown anchor '{event.anchor}' referenced", _mark(event))
        built = self._anchors[event.anchor]
        if built is None:
            raise YamlError(f"anchor '{event.anchor}' value contains itself", _mark(event))
        if len(self._stack) + built.height > _DEEPEST:
            raise YamlError(f"exceeded max depth of {_DEEPEST}", _mark(event))
        return msgspec.structs.replace(built, own=1, is_merge=False)

    def _close(self, done: _Open) -> _Built:
        node: Node
        if done.is_mapping:
            node = _mapping(done, any_keys=self._any_keys)
        else:
            node = Sequence(tuple([member.node for member in done.members]), done.place)
        height = size = own = 0
        for member in done.members:
            height = max(height, member.height)
            size += member.size
            own += member.own
        built = _Built(node, 1 + height, min(1 + size, _LARGEST), own=1 + own)
        self._remember(done.anchor, built)
        return built

    def _remember(self, anchor: str | None, built: _Built | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = built


def _scalar(event: Any) -> _Built:
    place, text = _mark(event), event.value
    plain, _ = event.implicit
    if event.tag is None:
        value = resolve(text) if plain else text
    else:
        value = _tagged(event.tag.removeprefix(_TAG), text, place)
    is_merge = text == "<<" and (plain or event.tag == f"{_TAG}merge")
    return _Built(Scalar(value, place, text if isinstance(value, bool) else ""), is_merge=is_merge)


def _tagged(tag: str, text: str, place: Place) -> str | int | float | bool | None:
    if tag == "binary":
        return _binary(text, place)
    if tag not in {"bool", "int", "float", "null"}:
        return text
    value = resolve(text)
    found = _kind(value)
    if tag == "float" and found == "int":
        assert isinstance(value, int)
        return float(value)
    if tag != found:
        raise YamlError(f"cannot decode !!{found} `{text}` as a !!{tag}", place)
    return value


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case _:
            return "str"


def _binary(text: str, place: Place) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        raise YamlError("!!binary value contains invalid base64 data", place) from None


def _mapping(done: _Open, *, any_keys: bool) -> Mapping:
    mapping = Mapping({}, {}, done.place)
    written: dict[str, Place] = {}
    members = iter(done.members)
    for key, value in zip(members, members, strict=True):
        if key.is_merge:
            for merged in reversed(_merged(value.node)):
                mapping.entries.update(merged.entries)
                mapping.keys.update(merged.keys)
            continue
        name = key.node.value if isinstance(key.node, Scalar) else None
        if any_keys and isinstance(key.node, Scalar) and isinstance(name, int):
            name = key.node.text or str(name)
        if not isinstance(name, str):
            found = _kind(key.node.value) if isinstance(key.node, Scalar) else "map or list"
            raise YamlError(f"string key required, but found {found}", key.node.place)
        if name in written:
            mapping.earlier[name] = written[name]
        mapping.entries[name] = value.node
        mapping.keys[name] = written[name] = key.node.place
    return mapping


def _merged(node: Node) -> list[Mapping]:
    sources = node.items if isinstance(node, Sequence) else (node,)
    mappings = [source for source in sources if isinstance(source, Mapping)]
    if len(mappings) != len(sources):
        raise YamlError("map merge requires map or sequence of maps as the value", node.place)
    return mappings


def _check_aliasing(document: _Built) -> None:
    """Refuse bombs, with yaml.v2's measure: a few aliases are fine, most of a large document is not."""
    aliased = document.size - document.own
    allowed = 0.99 - 0.89 * min(max(document.size - 400_000, 0) / 3_600_000, 1)
    if aliased > 100 and document.size > 1000 and aliased > allowed * document.size:
        raise YamlError("document contains excessive aliasing", document.node.place)


def _mark(event: Any) -> Place:
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


def _place(mark: Any) -> Place | None:
    return Place(mark.line + 1, mark.column + 1) if mark else None
