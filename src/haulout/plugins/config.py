"""Reads configuration blocks into typed structs, with the coercions and error messages of elastic/go-ucfg."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec

from haulout.base import duration, variables, yaml
from haulout.base.yaml import Node, Place, Scalar
from haulout.plugins.shape import (
    TEXTS,
    Block,
    Config,
    Field,
    Kind,
    ListOf,
    MapOf,
    Min,
    Nested,
    Shape,
    coerce,
    missing,
    plan,
    span,
    text_of,
    type_name,
    zero,
)

__all__ = [
    "Block",
    "Config",
    "ConfigProblem",
    "Context",
    "Fields",
    "GoDuration",
    "GoDurationText",
    "Min",
    "Reading",
    "examine",
    "read",
]

# Values can refer to top-level blocks that refer to others. These limits stop endless references; no real configuration
# is as large.
_MOST_VALUES = 100_000
_DEEPEST = 100


class ConfigProblem(Exception):
    """A configuration is wrong. `text` is the message of the original operator, the rest is for our linter.

    A plugin's `validate` raises it with the text only, and the reader adds path and place.
    `what`: the message for the linter. `right`: what would be right. `is_syntax`: the file could not be parsed.
    """

    def __init__(
        self,
        text: str,
        *,
        what: str = "",
        right: str = "",
        path: tuple[str, ...] = (),
        place: Place | None = None,
        is_syntax: bool = False,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.what = what or text
        self.right = right
        self.path = path
        self.place = place
        self.is_syntax = is_syntax

    def at(self, path: tuple[str, ...], place: Place | None) -> ConfigProblem:
        """Return the same problem with this path and place, unless it has its own."""
        return ConfigProblem(
            self.text, what=self.what, right=self.right, path=self.path or path, place=self.place or place
        )


GoDuration = Annotated[timedelta, Kind.DURATION]
"""A number of seconds, or text that Go's ParseDuration understands."""

GoDurationText = Annotated[timedelta, Kind.DURATION_TEXT]
"""Text that Go's ParseDuration understands; a number has no unit, and is refused."""

Fields = Annotated[dict[str, Any], Kind.FIELDS]
"""All of the block itself, whatever its keys, as plain values."""


class Context(msgspec.Struct, frozen=True):
    """The context of a block: the file's name for messages, the whole document, and the values of variables."""

    source: str = ""
    document: Node | None = None
    scope: variables.Scope = variables.Scope()
    path: tuple[str, ...] = ()

    def at(self, *path: str) -> Context:
        return msgspec.structs.replace(self, path=path)


C = TypeVar("C", bound=Config)


class Reading(msgspec.Struct, Generic[C], frozen=True):
    """The result of reading a block. If there are problems, `value` has gaps, and only serves to find more problems."""

    value: C
    problems: tuple[ConfigProblem, ...]
    warnings: tuple[ConfigProblem, ...]


def read(kind: type[C], block: Block | Node | None, context: Context) -> C:
    """Return the block as `kind`. Raises ConfigProblem with the first problem."""
    reading = examine(kind, block, context)
    if reading.problems:
        raise reading.problems[0]
    return reading.value


def examine(kind: type[C], block: Block | Node | None, context: Context) -> Reading[C]:
    """Return the block as `kind`, with all problems in it, in the order in which the original operator finds them."""
    node, path = (block.node, block.path) if isinstance(block, Block) else (block, context.path)
    place = node.place if node else yaml.place_of(context.document, path)
    reader = _Reader(context)
    value = reader.block(kind, node, _Spot(path, path, sourced=not yaml.is_null(node), place=place))
    return Reading(value, tuple(reader.problems), tuple(reader.warnings))


class _Spot(NamedTuple):
    """The position of a value in the configuration.

    `shown_path`: the path in messages of the original operator, which leaves out the names of absent blocks.
    `sourced`: whether the value is in the file. `place`: its line and column.
    """

    path: tuple[str, ...]
    shown_path: tuple[str, ...]
    sourced: bool
    place: Place | None

    def down(self, step: str, node: Node | None) -> _Spot:
        return _Spot((*self.path, step), (*self.shown_path, step), self.sourced, node.place if node else self.place)


_RIGHT: dict[Shape, str] = {
    Kind.STRING: "a text",
    Kind.INT: "a whole number",
    Kind.FLOAT: "a number",
    Kind.BOOL: "true or false",
    Kind.DURATION: "a duration such as 90s or 1h30m, or a number of seconds",
    Kind.DURATION_TEXT: "a duration such as 90s or 1h30m",
}


class _Reader:
    """A reader of one block, which continues after a problem."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._values = 0
        self.problems: list[ConfigProblem] = []
        self.warnings: list[ConfigProblem] = []

    def block(self, kind: type[C], node: Node | None, spot: _Spot) -> C:
        """Read every field in the order of the class; then run the checks of the class itself."""
        found_before = len(self.problems)
        entries = node.entries if isinstance(node, yaml.Mapping) else {}
        self._note_unknown(kind, node, spot)
        values = {field.name: self._field(field, node, entries.get(field.wire), spot) for field in plan(kind)}
        is_fine = len(self.problems) == found_before
        for field in plan(kind):
            if field.shape is Kind.DURATION_TEXT and isinstance(values[field.name], str):
                inner = spot.down(field.wire, entries.get(field.wire))
                values[field.name] = self._duration_text(values[field.name], inner) if is_fine else timedelta(0)
        config = kind(**values)
        if len(self.problems) == found_before:
            try:
                config.validate()
            except ConfigProblem as problem:
                self.problems.append(problem.at(spot.path, spot.place))
        return config

    def _field(self, field: Field, around: Node | None, node: Node | None, spot: _Spot) -> Any:
        try:
            if field.shape is Kind.FIELDS:
                return self._plain(around, spot) if isinstance(around, yaml.Mapping) else {}
            if node is None or yaml.is_null(node):
                return self._absent(field, node, spot)
            return self._present(field, node, spot)
        except ConfigProblem as problem:
            self.problems.append(problem)
            return field.default

    def _present(self, field: Field, node: Node, spot: _Spot) -> Any:
        node, inner = self._resolved(node, spot.down(field.wire, node), field.shape)
        if yaml.is_null(node):
            return self._absent(field, node, spot)
        value = self._value(field.shape, node, inner, is_required=field.is_required)
        self._check(field, value, inner, is_present=True)
        return value

    def _absent(self, field: Field, node: Node | None, spot: _Spot) -> Any:
        """Return the value of an absent field. Null counts as absent, but then messages still name the block."""
        inner = spot.down(field.wire, node)
        if isinstance(field.shape, Nested) and field.is_required:
            shown_path = inner.shown_path if node else spot.shown_path
            return self.block(field.shape.kind, None, inner._replace(shown_path=shown_path, sourced=False))
        self._check(field, field.default, inner, is_present=False)
        return field.default

    def _check(self, field: Field, value: Any, spot: _Spot, *, is_present: bool) -> None:
        if field.is_required and (lack := missing(field.shape, value, is_present=is_present)):
            raise self._problem(lack, spot, right=f"needed: {_RIGHT.get(field.shape, 'an entry')}")
        if field.minimum is not None and value < field.minimum:
            raise self._problem(f"requires value >= {field.minimum}", spot)

    def _value(self, shape: Shape, node: Node, spot: _Spot, *, is_required: bool = False) -> Any:
        match shape:
            case ListOf(item):
                return self._list(item, node, spot, is_required=is_required)
            case MapOf(item):
                return self._map(item, node, spot)
            case Nested(kind):
                return self.block(kind, self._object(node, spot), spot)
            case Kind.BLOCK:
                return Block(self._object(node, spot), spot.path)
            case Kind.ANY:
                return self._plain(node, spot)
            case _:
                return self._scalar(shape, node, spot)

    def _list(self, item: Shape, node: Node, spot: _Spot, *, is_required: bool) -> tuple[Any, ...]:
        """Return the entries of a list. A single value counts as a list of one, and a map as an empty list."""
        match node:
            case yaml.Sequence(items):
                spots = [spot.down(str(number), element) for number, element in enumerate(items)]
            case yaml.Mapping():
                items, spots = (), []
                what = "a map in the place of a list counts as an empty list"
                self.warnings.append(self._problem(what, spot, right="put a dash before each entry"))
            case _:
                items, spots = (node,), [spot]
        return tuple(self._item(item, element, at, is_required) for element, at in zip(items, spots, strict=True))

    def _item(self, shape: Shape, node: Node, spot: _Spot, is_required: bool) -> Any:
        try:
            node, spot = self._resolved(node, spot, shape)
            if yaml.is_null(node):
                return self._null_item(shape, spot)
            value = self._value(shape, node, spot)
            if is_required and (lack := missing(shape, value, is_present=True)):
                raise self._problem(lack, spot)
        except ConfigProblem as problem:
            self.problems.append(problem)
            return zero(shape)
        return value

    def _null_item(self, shape: Shape, spot: _Spot) -> Any:
        if isinstance(shape, Nested):
            return self.block(shape.kind, None, spot._replace(sourced=False))
        return zero(shape)

    def _map(self, item: Shape, node: Node, spot: _Spot) -> dict[str, Any]:
        node = self._object(node, spot)
        entries = node.entries if isinstance(node, yaml.Mapping) else {}
        return {name: self._item(item, value, spot.down(name, value), False) for name, value in entries.items()}

    def _note_unknown(self, kind: type[Config], node: Node | None, spot: _Spot) -> None:
        """Add a warning for each unknown key, which is ignored. At the top of a file, unknown keys are variables."""
        known = {field.wire for field in plan(kind)}
        takes_all = any(field.shape is Kind.FIELDS for field in plan(kind))
        if not isinstance(node, yaml.Mapping) or takes_all or not spot.path:
            return
        what, right = "this key is not known, and ignored", f"known: {', '.join(sorted(known))}"
        for name in node.entries:
            if name not in known:
                path, place = (*spot.path, name), node.keys[name]
                self.warnings.append(ConfigProblem(what, right=right, path=path, place=place))

    def _object(self, node: Node, spot: _Spot) -> Node:
        """Return a node that is a map or a list, which counts as an empty map. Raises ConfigProblem for a scalar."""
        if not isinstance(node, Scalar):
            return node
        what = f"required 'object', but found '{type_name(node)}' in field '{'.'.join(spot.shown_path)}'"
        raise ConfigProblem(
            what + self._source(spot), what=what, right="a map of settings", path=spot.path, place=spot.place
        )

    def _scalar(self, kind: Kind, node: Node, spot: _Spot) -> Any:
        if kind is Kind.DURATION:
            return self._duration(node, spot)
        value = coerce(kind, node.value) if isinstance(node, Scalar) else None
        if value is None:
            target = "string" if kind is Kind.DURATION_TEXT else kind.value
            what = f"can not convert '{type_name(node)}' into '{target}'"
            raise self._problem(what, spot, right=_RIGHT[kind])
        if kind in TEXTS and type_name(node) == "bool":
            what = f'an unquoted boolean is read as the text "{value}"'
            self.warnings.append(self._problem(what, spot, right="put it in quotes"))
        return value

    def _duration(self, node: Node, spot: _Spot) -> timedelta:
        try:
            return span(node.value if isinstance(node, Scalar) else None)
        except duration.DurationError as error:
            raise self._problem(str(error), spot, right=_RIGHT[Kind.DURATION]) from None

    def _duration_text(self, text: str, spot: _Spot) -> timedelta:
        """Parse a duration. In the original the plugin itself does that, so the message has no path."""
        try:
            return duration.parse(text)
        except duration.DurationError as error:
            right = _RIGHT[Kind.DURATION_TEXT]
            self.problems.append(ConfigProblem(str(error), right=right, path=spot.path, place=spot.place))
            return timedelta(0)

    def _plain(self, node: Node, spot: _Spot, depth: int = 0) -> Any:
        self._values += 1
        if self._values > _MOST_VALUES or depth > _DEEPEST:
            raise self._problem("values refer to each other without end", spot)
        node, spot = self._resolved(node, spot, Kind.ANY)
        match node:
            case yaml.Mapping(entries):
                return {name: self._plain(value, spot.down(name, value), depth + 1) for name, value in entries.items()}
            case yaml.Sequence(items):
                return [self._plain(value, spot.down(str(at), value), depth + 1) for at, value in enumerate(items)]
            case Scalar(value):
                return value

    def _resolved(
        self, node: Node, spot: _Spot, shape: Shape, seen: frozenset[str] = frozenset()
    ) -> tuple[Node, _Spot]:
        """Return the value with its variables expanded. A value that is just `${KEY}` becomes that top-level value."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str) or "$" not in node.value:
            return node, spot
        is_text = shape in TEXTS
        try:
            template = variables.parse(node.value)
            name = variables.bare_name(template)
            target = self._top_level(name) if name and name not in seen else None
            if name and target is not None:
                at = _Spot((name,), (name,), sourced=True, place=target.place)
                target, at = self._resolved(target, at, shape, seen | {name})
                if is_text and isinstance(target, Scalar) and target.value is not None:
                    target = Scalar(text_of(target.value), target.place)
                return target, at
            text = variables.expand(template, self._context.scope)
            if is_text or variables.literal(template) is not None:
                return Scalar(text, node.place), spot
            return _node(variables.parse_value(text, objects=name is None), node.place), spot
        except variables.SpliceError as error:
            raise self._problem(f"{error} parsing splice", spot) from None
        except variables.MissingError as error:
            right = f"set the variable {error.name}, or give a default: ${{{error.name}:default}}"
            raise self._problem(str(error), spot, right=right) from None
        except variables.ExpandError as error:
            raise self._problem(str(error), spot) from None

    def _top_level(self, name: str) -> Node | None:
        document = self._context.document
        node = document.entries.get(name) if isinstance(document, yaml.Mapping) else None
        return None if yaml.is_null(node) else node

    def _problem(self, what: str, spot: _Spot, right: str = "") -> ConfigProblem:
        path = f"'{'.'.join(spot.shown_path)}'" if spot.shown_path else "config"
        text = f"{what} accessing {path}{self._source(spot)}"
        return ConfigProblem(text, what=what, right=right, path=spot.path, place=spot.place)

    def _source(self, spot: _Spot) -> str:
        return f" (source:'{self._context.source}')" if spot.sourced and self._context.source else ""


def _node(value: variables.Value, place: Place) -> Node:
    match value:
        case dict():
            return yaml.Mapping(
                {name: _node(inner, place) for name, inner in value.items()}, dict.fromkeys(value, place), place
            )
        case list():
            return yaml.Sequence(tuple(_node(inner, place) for inner in value), place)
        case _:
            return Scalar(value, place)
