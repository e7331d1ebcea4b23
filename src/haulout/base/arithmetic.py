"""Arithmetic and comparisons over named numbers: `value > 3 && value / 2 <= 10`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from haulout.base.tokens import DEEPEST, Token, Tokens

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<symbol>\*\*|&&|\|\||[=!<>]=|[-+*/%<>!()])|(?P<other>\S))"
)

Number = float | bool
# The longest expression, in characters. Expressions may come from untrusted users, and one of this length takes a few
# milliseconds at most.
LONGEST = 4096


class FormulaError(ValueError):
    """A text is not an expression, or the expression has no result. `column` counts from 1."""

    def __init__(self, problem: str, column: int) -> None:
        super().__init__(f"{problem} at column {column}")
        self.column = column


# How strongly each operator binds, as in Go expressions. All are left-associative.
_POWERS = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
    "**": 6,
}


def truth(text: str, values: Mapping[str, float]) -> bool:
    """Whether the result of an expression is true. A number is true unless it is zero."""
    if len(text) > LONGEST:
        raise FormulaError(f"longer than {LONGEST} characters", LONGEST)
    parser = _Parser(text, values)
    result = parser.operand(0)
    parser.expect_end()
    return bool(result)


class _Parser:
    """A Pratt parser that computes the result while it parses.

    It builds no tree, because an expression is seldom evaluated more than once.
    """

    def __init__(self, text: str, values: Mapping[str, float]) -> None:
        self._tokens = Tokens(_TOKEN, text)
        self._values = values
        self._depth = 0

    def operand(self, power: int) -> Number:
        left = self._prefix()
        while (binding := _POWERS.get(self._tokens.peek().text, 0)) > power:
            operator = self._tokens.take()
            left = _combined(operator, left, self.operand(binding))
        return left

    def expect_end(self) -> None:
        if self._tokens.peek().kind != "end":
            raise _unexpected(self._tokens.peek())

    def _prefix(self) -> Number:
        token = self._tokens.take()
        self._depth += 1
        if self._depth > DEEPEST:
            raise FormulaError(f"nested deeper than {DEEPEST}", token.column)
        result = self._one(token)
        self._depth -= 1
        return result

    def _one(self, token: Token) -> Number:
        match token.kind, token.text:
            case "number", text:
                return float(text)
            case "name", "true" | "false":
                return token.text == "true"
            case "name", name:
                if name not in self._values:
                    raise FormulaError(f"unknown parameter {name}", token.column)
                return self._values[name]
            case _, "!":
                return not self._prefix()
            case _, "-":
                return -_number(self._prefix(), token)
            case _, "(":
                inner = self.operand(0)
                if self._tokens.peek().text != ")":
                    raise _unexpected(self._tokens.peek())
                self._tokens.take()
                return inner
            case _:
                raise _unexpected(token)


def _combined(operator: Token, left: Number, right: Number) -> Number:
    match operator.text:
        case "&&":
            return bool(left) and bool(right)
        case "||":
            return bool(left) or bool(right)
        case "==" | "!=":
            same = isinstance(left, bool) == isinstance(right, bool) and left == right
            return same == (operator.text == "==")
    return _OPERATIONS[operator.text](_number(left, operator), _number(right, operator))


def _number(value: Number, operator: Token) -> float:
    if isinstance(value, bool):
        raise FormulaError(f"'{operator.text}' needs numbers, not {str(value).lower()}", operator.column)
    return value


def _over(left: float, right: float) -> float:
    """Divide by the rules of IEEE 754: a division by zero gives infinity, or NaN for 0/0."""
    if right:
        return left / right
    return math.nan if not left or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)


def _remainder(left: float, right: float) -> float:
    return math.fmod(left, right) if right and math.isfinite(left) else math.nan


def _to_the(left: float, right: float) -> float:
    try:
        return math.pow(left, right)
    except OverflowError:
        return -math.inf if left < 0 and right % 2 else math.inf
    except ValueError:
        return math.inf if not left else math.nan


_OPERATIONS: dict[str, Callable[[float, float], Number]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _over,
    "%": _remainder,
    "**": _to_the,
}


def _unexpected(token: Token) -> FormulaError:
    return FormulaError(f"parsing error: {token.error}", token.column)
