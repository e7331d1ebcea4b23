"""Reads YAML as Go's yaml.v2 does, with limits on the size of a file. All YAML in Haulout is read here.

`parse` returns a tree in which each node has its line and column. `load` and `load_all` return plain values. Of equal
keys the last one counts. A merge (`<<`) replaces equal keys that stand above it.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import yaml

from haulout.base.number import INT64_MIN, UINT64_MAX, parse_float, parse_int

_Loader: Any = getattr(yaml, "CLoader", yaml.Loader)

# The longest text that may be a number. Converting a row of digits takes quadratic time, and no real number is longer.
_LONGEST_NUMBER = 400

_ALIASING = "document contains excessive aliasing"
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
    """A place in a file. Line and column count from 1."""

    line: int
    column: int


class YamlError(ValueError):
    """A text is not YAML, or not YAML that we accept. `problem` says why, `place` says where."""

    def __init__(self, problem: str, place: Place | None = None) -> None:
        super().__init__(f"yaml: line {place.line}: {problem}" if place else f"yaml: {problem}")
        self.problem = problem
        self.place = place


ScalarValue = str | int | float | bool | None


class Scalar(msgspec.Struct, frozen=True):
    """A single value of a parsed document, with the place at which it begins.

    `text`: the word as written, if it was read as true or false.
    """

    value: ScalarValue
    place: Place
    text: str = ""


class Sequence(msgspec.Struct, frozen=True):
    """A list of a parsed document, with the place at which it begins."""

    items: tuple[Node, ...]
    place: Place


class Mapping(msgspec.Struct, frozen=True):
    """A mapping of a parsed document: its keys and values, each with its place.

    `entries`: the value of each key. `keys`: the place of each key.
    `earlier`: for each key that is there more than once, the place of the last one but one, which is ignored.
    """

    entries: dict[str, Node]
    keys: dict[str, Place]
    place: Place
    earlier: dict[str, Place] = {}


Node = Scalar | Sequence | Mapping


class Bounds(msgspec.Struct, frozen=True):
    """Limits on a file. Reading stops with a `YamlError` at the first limit that is exceeded.

    `size`: the bytes of the file.
    `nodes`: the number of scalars, lists and mappings. An alias counts as everything that it refers to.
    `text`: the characters of all scalars, counted in the same way.
    `depth`: how deep lists and mappings may be nested. `aliases`: whether aliases are allowed.
    """

    size: int
    nodes: int
    text: int
    depth: int = 100
    aliases: bool = True


# For configuration that a person wrote. The depth is small enough for code that walks the tree by recursion.
CONFIGURATION = Bounds(size=2**24, nodes=10**6, text=2**25)
# For a dump of a whole cluster, from its administrator.
SNAPSHOT = Bounds(size=2**31, nodes=10**8, text=2**32)
# For a document from an untrusted source. Reading one takes a few milliseconds at most.
FOREIGN = Bounds(size=2**18, nodes=2000, text=2**18, depth=32, aliases=False)


def parse(data: bytes | str, *, any_keys: bool = False, bounds: Bounds = CONFIGURATION) -> Node | None:
    """Return the first document, or None if there is none.

    `any_keys`: numbers and truth values are accepted as keys, spelled as they are written.
    """
    with _typed_errors():
        return _Builder(bounds, any_keys=any_keys, meaning=resolve).document(_events(data, bounds))


def parse_all(data: bytes | str, *, bounds: Bounds = CONFIGURATION) -> list[Node]:
    """Return all documents with their places, and their scalars as kubectl reads them. Empty documents are left out."""
    with _typed_errors():
        events, builder = _events(data, bounds), _Builder(bounds, any_keys=True, meaning=_usual_meaning)
        found: list[Node] = []
        while (tree := builder.document(events)) is not None:
            found.append(tree)
        return found


def load(data: bytes | str, *, bounds: Bounds = CONFIGURATION) -> Any:
    """Return the first document as plain values, or None if there is none.

    An unquoted `y` or `n` is a text here, as in kubectl. `parse` reads it as true or false, as yaml.v2 does, because
    the profiles surface needs that.
    """
    with _typed_errors():
        tree = _Builder(bounds, any_keys=True, meaning=_usual_meaning).document(_events(data, bounds))
    return None if tree is None else plain(tree)


def load_all(data: bytes | str, *, bounds: Bounds = CONFIGURATION, only_texts: bool = False) -> list[Any]:
    """Return all documents as plain values. `only_texts`: scalars stay as they are written."""
    with _typed_errors():
        meaning = _as_written if only_texts else _usual_meaning
        events, builder = _events(data, bounds), _Builder(bounds, any_keys=True, meaning=meaning)
        found: list[Any] = []
        while (tree := builder.document(events)) is not None:
            found.append(plain(tree))
        return found


def plain(node: Node) -> Any:
    """Return a node as plain values."""
    match node:
        case Scalar():
            return node.value
        case Sequence():
            return [plain(item) for item in node.items]
        case Mapping():
            return {name: plain(entry) for name, entry in node.entries.items()}


def second_document(data: bytes | str) -> Place | None:
    """Return where a second document begins, which `parse` ignores; None if there is none, or only empty ones."""
    with _typed_errors():
        events = _events(data, CONFIGURATION)
        starts = (event for event in events if isinstance(event, yaml.DocumentStartEvent))
        next(starts, None)
        for start in starts:
            content = next(events)
            if not isinstance(content, yaml.ScalarEvent) or content.value:
                return _mark(start)
    return None


def _events(data: bytes | str, bounds: Bounds) -> Iterator[Any]:
    data = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    if len(data) > bounds.size:
        raise YamlError(f"the file has {len(data)} bytes (at most {bounds.size} are read)")
    try:
        yield from yaml.parse(data, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        line, column = data.count(b"\n", 0, error.position) + 1, error.position - data.rfind(b"\n", 0, error.position)
        raise YamlError(error.reason, Place(line, column)) from None


@contextlib.contextmanager
def _typed_errors() -> Iterator[None]:
    try:
        yield
    except yaml.MarkedYAMLError as error:
        raise YamlError(error.problem or error.context or "unreadable", _place(error.problem_mark)) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        if isinstance(error, YamlError):
            raise
        raise YamlError(str(error)) from None


def resolve(text: str) -> ScalarValue:
    """Return the value of an unquoted scalar, by the rules of yaml.v2."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] == "." and len(text) <= _LONGEST_NUMBER:
        return text if (number := parse_float(text)) is None else number
    if text[0] not in "+-0123456789":
        return text
    if len(text) > _LONGEST_NUMBER:
        return text
    digits = text.replace("_", "")
    integer = parse_int(digits)
    if integer is not None and INT64_MIN <= integer <= UINT64_MAX:
        return integer
    # Integers of more than 64 bits, and octal ones with an 8 or 9, become floats, as in yaml.v2.
    number = parse_float(digits) if _FLOAT.fullmatch(digits) else None
    return text if number is None else number


def _usual_meaning(text: str) -> ScalarValue:
    return text if text in {"y", "Y", "n", "N"} else resolve(text)


def _as_written(text: str) -> ScalarValue:
    return text


def is_null(node: Node | None) -> bool:
    return node is None or (isinstance(node, Scalar) and node.value is None)


def place_of(node: Node | None, path: Iterable[str]) -> Place | None:
    """Return the place of the value at a path. If it does not exist, return that of the innermost block around it."""
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
    """A list or mapping that is being read. The members of a mapping are keys and values in turn."""

    place: Place
    anchor: str | None
    is_mapping: bool
    members: list[_Built] = []


class _Built(msgspec.Struct, frozen=True):
    """A node that has been read, with its measures.

    `height`: how deep it is nested. `size`: the nodes in it, where an alias counts as everything that it refers to.
    `own`: the nodes in it, where an alias counts as one. `text`: its characters, counted like `size`.
    """

    node: Node
    height: int = 1
    size: int = 1
    own: int = 1
    text: int = 0
    is_merge: bool = False


class _Builder:
    """A builder of nodes from parser events. It uses no recursion, so deep nesting gives an error and never a crash."""

    def __init__(self, bounds: Bounds, *, any_keys: bool, meaning: Callable[[str], ScalarValue]) -> None:
        self._bounds = bounds
        self._any_keys = any_keys
        self._meaning = meaning
        # The nodes and characters read so far, including those to which aliases refer.
        self._nodes = self._text = 0
        self._anchors: dict[str, _Built | None] = {}
        self._stack: list[_Open] = []

    def document(self, events: Iterator[Any]) -> Node | None:
        self._anchors = {}
        for event in events:
            built = self._event(event)
            if built is None:
                continue
            if not self._stack:
                _check_aliasing(built)
                next(events)  # reads up to the end of the document, so that an error there is raised here
                return built.node
            self._stack[-1].members.append(built)
        return None

    def _event(self, event: Any) -> _Built | None:
        match event:
            case yaml.ScalarEvent():
                built = _scalar(event, self._meaning)
                self._spend(event, 1, built.text)
                self._remember(event.anchor, built)
                return built
            case yaml.AliasEvent():
                return self._alias(event)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._remember(event.anchor, None)
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                self._stack.append(_Open(_mark(event), event.anchor, is_mapping))
                self._spend(event, 1, 0)
                self._check_depth(event, len(self._stack))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                return self._close(self._stack.pop())
        return None

    def _spend(self, event: Any, nodes: int, text: int) -> None:
        self._nodes += nodes
        self._text += text
        if self._nodes <= self._bounds.nodes and self._text <= self._bounds.text:
            return
        if isinstance(event, yaml.AliasEvent):
            raise YamlError(_ALIASING, _mark(event))
        most = f"{self._bounds.nodes} values or {self._bounds.text} characters"
        raise YamlError(f"the file has more than {most}, aliases written out", _mark(event))

    def _check_depth(self, event: Any, depth: int) -> None:
        if depth > self._bounds.depth:
            raise YamlError(f"exceeded max depth of {self._bounds.depth}", _mark(event))

    def _alias(self, event: Any) -> _Built:
        if not self._bounds.aliases:
            raise YamlError("aliases are not accepted here (write the values out)", _mark(event))
        if event.anchor not in self._anchors:
            raise YamlError(f"unknown anchor '{event.anchor}' referenced", _mark(event))
        built = self._anchors[event.anchor]
        if built is None:
            raise YamlError(f"anchor '{event.anchor}' value contains itself", _mark(event))
        self._spend(event, built.size, built.text)
        self._check_depth(event, len(self._stack) + built.height)
        return msgspec.structs.replace(built, own=1, is_merge=False)

    def _close(self, done: _Open) -> _Built:
        node: Node
        if done.is_mapping:
            node = _mapping(done, any_keys=self._any_keys)
        else:
            node = Sequence(tuple([member.node for member in done.members]), done.place)
        height = size = own = text = 0
        for member in done.members:
            height = max(height, member.height)
            size += member.size
            own += member.own
            text += member.text
        built = _Built(node, 1 + height, 1 + size, own=1 + own, text=text)
        self._remember(done.anchor, built)
        return built

    def _remember(self, anchor: str | None, built: _Built | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = built


def _scalar(event: Any, meaning: Callable[[str], ScalarValue]) -> _Built:
    place, text = _mark(event), event.value
    plain, _ = event.implicit
    if event.tag is None or meaning is _as_written:
        value = meaning(text) if plain else text
    else:
        value = _tagged(event.tag.removeprefix(_TAG), text, place)
    is_merge = text == "<<" and (plain or event.tag == f"{_TAG}merge")
    return _Built(Scalar(value, place, text if isinstance(value, bool) else ""), text=len(text), is_merge=is_merge)


def _tagged(tag: str, text: str, place: Place) -> ScalarValue:
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
    """Refuse documents that consist mostly of aliases ("YAML bombs"), by the formula of yaml.v2."""
    aliased = document.size - document.own
    allowed = 0.99 - 0.89 * min(max(document.size - 400_000, 0) / 3_600_000, 1)
    if aliased > 100 and document.size > 1000 and aliased > allowed * document.size:
        raise YamlError(_ALIASING, document.node.place)


def _mark(event: Any) -> Place:
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


def _place(mark: Any) -> Place | None:
    return Place(mark.line + 1, mark.column + 1) if mark else None
