"""Variables in configuration values, `${NAME:fallback}`, as elastic/go-ucfg reads them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping

import msgspec

from haulout.base.number import INT64_MIN, UINT64_MAX, parse_float, parse_int

# Values of variables can contain variables. These limits keep a few lines of configuration from filling the memory.
_DEEPEST = 50
_MOST_LOOKUPS = 10_000
_LONGEST = 1 << 20

_TOKEN = re.compile(r"\$[{$}]|:[+?]?|\}")

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]


class ExpandError(ValueError):
    """A value that cannot be expanded."""


class SpliceError(ExpandError):
    """The variables in a value are not written correctly. That is an error even if the value is never used."""


class MissingError(ExpandError):
    """A variable that is set nowhere and has no fallback. `name` is the variable."""

    def __init__(self, name: str) -> None:
        super().__init__("missing field")
        self.name = name


class Variable(msgspec.Struct, frozen=True):
    """A variable within a text: `${name}`, `${name:text}`, `${name:+text}` or `${name:?text}`.

    `text` is the value if the variable is not set (`:`), the value if it is set (`:+`), or the error if it is not set
    (`:?`). Both `name` and `text` may contain variables again.
    """

    name: Template
    operator: str = ""
    text: Template = ()


Template = tuple[str | Variable, ...]


class Scope(msgspec.Struct, frozen=True):
    """The values of variables: the top-level keys of the file, and after these the environment."""

    keys: Mapping[str, Template] = {}
    environment: Mapping[str, str] = {}


class _Open(msgspec.Struct):
    """A part of a text that is being parsed: the whole text, or the part between `${` and `}`."""

    pieces: list[str | Variable] = []
    name: list[str | Variable] = []
    operator: str = ""


def parse(text: str) -> Template:
    stack = [_Open()]
    at = 0
    for token in _TOKEN.finditer(text):
        stack[-1].pieces.append(text[at : token.start()])
        at = token.end()
        match token[0]:
            case "${":
                stack.append(_Open())
            case "$$" | "$}":
                stack[-1].pieces.append(token[0][1])
            case "}" if len(stack) > 1:
                variable = _variable(stack.pop())
                stack[-1].pieces.append(variable)
            case ":" | ":+" | ":?" if len(stack) > 1 and not stack[-1].operator:
                stack[-1] = _Open(name=stack[-1].pieces, operator=token[0])
            case other:
                stack[-1].pieces.append(other)
        if len(stack) > _DEEPEST:
            raise SpliceError(f"variables nested deeper than {_DEEPEST}")
    if len(stack) > 1:
        raise SpliceError("missing '}'")
    return _joined([*stack[0].pieces, text[at:]])


def literal(template: Template) -> str | None:
    """Return the text of a template; None if it has variables."""
    match template:
        case ():
            return ""
        case (str() as text,):
            return text
        case _:
            return None


def bare_name(template: Template) -> str | None:
    """Return NAME if the template is just `${NAME}`, else None."""
    match template:
        case (Variable(name=(str() as name,), operator=""),):
            return name
        case _:
            return None


def expand(template: Template, scope: Scope) -> str:
    return _Expansion(scope).text(template, frozenset())


def parse_value(text: str, *, objects: bool = True) -> Value:
    """Parse expanded text as ucfg does for a field that is no string: `a,b`, `[1, on]`, `{k: v}`.

    `objects`: whether `{` begins an object. It does not in a text that is a single environment variable.
    """
    return _Words(text, objects=objects).whole()


def _variable(done: _Open) -> Variable:
    name = _joined(done.name if done.operator else done.pieces)
    if not name:
        raise SpliceError("empty expansion")
    return Variable(name, done.operator, _joined(done.pieces) if done.operator else ())


def _joined(pieces: list[str | Variable]) -> Template:
    joined: list[str | Variable] = []
    for is_text, group in itertools.groupby(pieces, lambda piece: isinstance(piece, str)):
        if not is_text:
            joined.extend(group)
        elif text := "".join(map(str, group)):
            joined.append(text)
    return tuple(joined)


class _Expansion:
    """The expansion of one value, with counters for its limits."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._depth = 0
        self._lookups = 0
        self._length = 0

    def text(self, template: Template, active: frozenset[str]) -> str:
        if self._depth > _DEEPEST:
            raise _LimitError(f"variables nested deeper than {_DEEPEST}")
        self._depth += 1
        try:
            return "".join([piece if isinstance(piece, str) else self._variable(piece, active) for piece in template])
        finally:
            self._depth -= 1

    def _variable(self, variable: Variable, active: frozenset[str]) -> str:
        match variable.operator:
            case ":":
                return self._found(variable, active) or self.text(variable.text, active)
            case ":+":
                return self.text(variable.text, active) if self._found(variable, active) is not None else ""
            case ":?":
                if found := self._found(variable, active):
                    return found
                raise ExpandError(self.text(variable.text, active))
            case _:
                return self._value(self.text(variable.name, active), active)

    def _found(self, variable: Variable, active: frozenset[str]) -> str | None:
        try:
            return self._value(self.text(variable.name, active), active)
        except _LimitError:
            raise
        except ExpandError:
            return None

    def _value(self, name: str, active: frozenset[str]) -> str:
        value = self._lookup(name, active)
        self._lookups += 1
        self._length += len(value)
        if self._lookups > _MOST_LOOKUPS or self._length > _LONGEST:
            raise _LimitError(f"more than {_MOST_LOOKUPS} variables or {_LONGEST} characters in one value")
        return value

    def _lookup(self, name: str, active: frozenset[str]) -> str:
        template = self._scope.keys.get(name)
        if template is not None and name not in active:
            return self.text(template, active | {name})
        if found := self._scope.environment.get(name):
            return found
        if template is not None:
            raise ExpandError(f"cyclic reference detected for key: '{name}'")
        raise MissingError(name)


class _LimitError(ExpandError):
    """A limit was exceeded. Unlike for a missing variable, the fallback is not used."""


class _Words:
    """A parser of expanded text. `_at` is the position of the next character."""

    def __init__(self, text: str, *, objects: bool) -> None:
        self._text = text
        self._at = 0
        self._objects = objects

    def whole(self) -> Value:
        if not self._text.strip():
            return self._text
        values = [self._value(",")]
        while self._peek():
            self._expect(",")
            values.append(self._value(","))
        return values[0] if len(values) == 1 else values

    def _value(self, stops: str, depth: int = 0) -> Value:
        if depth > _DEEPEST:
            raise self._error(f"nested deeper than {_DEEPEST}")
        match self._peek():
            case "":
                return None
            case "[":
                return self._array(depth)
            case "{" if self._objects:
                return self._object(depth)
            case '"' | "'":
                return self._quoted()
            case _:
                return _primitive(self._unquoted(stops))

    def _array(self, depth: int) -> Value:
        self._at += 1
        values: list[Value] = []
        while not self._take("]"):
            values.append(self._value(",]", depth + 1))
            if self._take("]"):
                break
            if not self._peek():
                raise self._error("array closing ']' missing")
            if not self._take(","):
                raise self._error("array expected ',' or ']'")
        return values or None

    def _object(self, depth: int) -> Value:
        self._at += 1
        entries: dict[str, Value] = {}
        while not self._take("}"):
            if not self._peek():
                raise self._error("expected key")
            key = self._quoted() if self._peek() in {'"', "'"} else self._unquoted(":")
            self._expect(":")
            entries[key] = self._value(",}", depth + 1)
            if self._take("}"):
                break
            if not self._take(","):
                raise self._error("dictionary expected ',' or '}'")
        return entries or None

    def _quoted(self) -> str:
        quote, start = self._text[self._at], self._at + 1
        end = self._text.find(quote, start)
        while quote == '"' and end > 0 and self._text[end - 1] == "\\":
            end = self._text.find(quote, end + 1)
        if end < 0:
            raise self._error('Missing " to close string ' if quote == '"' else "missing ' to close string")
        self._at = end + 1
        inner = self._text[start:end]
        if quote == "'":
            return inner
        try:
            return str(json.loads(f'"{inner}"', strict=False))
        except ValueError:
            raise self._error("invalid syntax") from None

    def _unquoted(self, stops: str) -> str:
        found = re.compile(f"[^{re.escape(stops)}]*").match(self._text, self._at)
        assert found is not None
        if not found[0]:
            raise self._error(f"unexpected '{self._peek()}'" if self._peek() else "unexpected end")
        self._at = found.end()
        return found[0].strip()

    def _peek(self) -> str:
        """Skip blanks, and return the next character without taking it; empty at the end."""
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        taken = self._peek() == character
        self._at += taken
        return taken

    def _expect(self, character: str) -> None:
        if not self._take(character):
            raise self._error(f"expected '{character}'")

    def _error(self, problem: str) -> ExpandError:
        return ExpandError(f"{problem} when parsing '{self._text}'")


def _primitive(text: str) -> Value:
    if text == "null":
        return None
    if text in {"t", "T", "true", "TRUE", "True", "on", "ON"}:
        return True
    if text in {"f", "F", "false", "FALSE", "False", "off", "OFF"}:
        return False
    integer = parse_int(text)
    if integer is not None and INT64_MIN <= integer <= UINT64_MAX:
        return integer
    number = parse_float(text)
    return text if number is None else number
