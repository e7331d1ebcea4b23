"""Boolean expressions over names, and chains of names: how configurations combine plugin instances."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, assert_never

import msgspec

from haulout.base.tokens import DEEPEST, Token, Tokens

_WORD = re.compile(r"&&|\|\||(?P<word>(?:(?!&&|\|\|)[^\s!()])+)")
_TOKEN = re.compile(r"\s*(?:(?P<name>[\w.-]+)|(?P<symbol>&&|\|\||[!()])|(?P<other>\S))")


class ExpressionError(ValueError):
    """A text is not an expression. `column` counts from 1."""

    def __init__(self, problem: str, column: int) -> None:
        super().__init__(f"parsing error: {problem} at column {column}")
        self.column = column


class Name(msgspec.Struct, frozen=True, tag=True):
    """A leaf of an expression: the name of a plugin instance, whose answer is the value of the leaf."""

    name: str


class Not(msgspec.Struct, frozen=True, tag=True):
    """An expression that is true when its operand is false."""

    operand: Expression


class And(msgspec.Struct, frozen=True, tag=True):
    """An expression that is true when all of its terms are."""

    terms: tuple[Expression, ...]


class Or(msgspec.Struct, frozen=True, tag=True):
    """An expression that is true when at least one of its terms is."""

    terms: tuple[Expression, ...]


Expression = Name | Not | And | Or
# Names with a fixed value. A check of that name is ignored.
CONSTANTS = {"true": True, "false": False}


class Mention(NamedTuple):
    """A use of a name in a text. `name`: without spaces. `written`: as it stands there. `column`: counts from 1."""

    name: str
    written: str
    column: int


_POWERS = {"||": 1, "&&": 2}
_HIGHEST = 3


def parse(text: str) -> Expression:
    """Parse an expression. `!` binds strongest, then `&&`, then `||`. Names hold letters, digits, `_`, `-` and `.`."""
    parser = _Parser(text)
    expression = parser.operand(0)
    parser.expect_end()
    return expression


def mentions(text: str) -> tuple[Mention, ...]:
    """Return all words of a text that could be names, even if the text is not a valid expression."""
    return tuple(Mention(found[0], found[0], found.start() + 1) for found in _WORD.finditer(text) if found["word"])


def names(expression: Expression) -> tuple[str, ...]:
    """Return the names in textual order, with repetitions."""
    match expression:
        case Name(name):
            return (name,)
        case Not(operand):
            return names(operand)
        case And(terms) | Or(terms):
            return tuple(name for term in terms for name in names(term))
        case _:
            assert_never(expression)


def evaluate(expression: Expression, values: Mapping[str, bool]) -> bool:
    # Plain tests and loops, because it runs for each transition in each decision about a node.
    if isinstance(expression, Name):
        return CONSTANTS.get(expression.name, values[expression.name])
    if isinstance(expression, And):
        for term in expression.terms:  # noqa: SIM110 - a loop is half as expensive as a generator
            if not evaluate(term, values):
                return False
        return True
    if isinstance(expression, Or):
        for term in expression.terms:  # noqa: SIM110
            if evaluate(term, values):
                return True
        return False
    return not evaluate(expression.operand, values)


def culprits(expression: Expression, values: Mapping[str, bool], wanted: bool = True) -> tuple[tuple[str, bool], ...]:
    """Return the names that keep the expression from having the value `wanted`, each with the value that it needs."""
    match expression:
        case Name(name):
            return () if CONSTANTS.get(name, values[name]) == wanted else ((name, wanted),)
        case Not(operand):
            return culprits(operand, values, not wanted)
        case And(terms) | Or(terms):
            if evaluate(expression, values) == wanted:
                return ()
            return tuple(dict.fromkeys(found for term in terms for found in culprits(term, values, wanted)))
        case _:
            assert_never(expression)


def conjuncts(expression: Expression) -> frozenset[str]:
    """Return the names that must be true for the expression to be true: those joined by `&&` only, and used once.

    The expression does not become true when such a name becomes false. So its check may wait in the queue of a limit
    instead of being run again and again.
    """
    terms = expression.terms if isinstance(expression, And) else (expression,)
    mentioned = Counter(names(expression))
    found = (term.name for term in terms if isinstance(term, Name) and mentioned[term.name] == 1)
    return frozenset(name for name in found if name not in CONSTANTS)


def parse_chain(text: str) -> tuple[Mention, ...]:
    """Parse names joined by `&&`, perhaps with spaces around them. An empty text is an empty chain."""
    if not text:
        return ()
    chain = []
    column = 1
    for piece in text.split("&&"):
        name = piece.strip(" ")
        chain.append(Mention(name, piece, column + piece.index(name)))
        column += len(piece) + len("&&")
    return tuple(chain)


class _Parser:
    """A Pratt parser: an operator takes further operands as long as the operators after it bind more strongly."""

    def __init__(self, text: str) -> None:
        self._tokens = Tokens(_TOKEN, text)
        self._depth = 0

    def operand(self, power: int) -> Expression:
        left = self._prefix()
        while (binding := _POWERS.get(operator := self._tokens.peek().text, 0)) > power:
            terms = [left]
            while self._tokens.peek().text == operator:
                self._tokens.take()
                terms.append(self.operand(binding))
            left = _flat(And if operator == "&&" else Or, terms)
        return left

    def expect_end(self) -> None:
        if self._tokens.peek().kind != "end":
            raise _unexpected(self._tokens.peek())

    def _prefix(self) -> Expression:
        token = self._tokens.take()
        self._depth += 1
        if self._depth > DEEPEST:
            raise ExpressionError(f"nested deeper than {DEEPEST}", token.column)
        expression = self._one(token)
        self._depth -= 1
        return expression

    def _one(self, token: Token) -> Expression:
        if token.kind == "name":
            return Name(token.text)
        if token.text == "!":
            return Not(self.operand(_HIGHEST))
        if token.text != "(":
            raise _unexpected(token)
        inner = self.operand(0)
        if self._tokens.peek().text != ")":
            raise _unexpected(self._tokens.peek(), instead_of=")")
        self._tokens.take()
        return inner


def _flat(kind: type[And | Or], terms: list[Expression]) -> Expression:
    """Return an expression without nesting of the same operator: `(a && b) && c` becomes one `And` of three terms."""
    return kind(tuple(inner for term in terms for inner in (term.terms if isinstance(term, kind) else (term,))))


def _unexpected(token: Token, instead_of: str = "") -> ExpressionError:
    found = token.error
    return ExpressionError(f"{found} instead of '{instead_of}'" if instead_of else found, token.column)
