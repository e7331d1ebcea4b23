"""Boolean expressions of names: parsing, evaluation, and the names that decide the result."""

from __future__ import annotations

import pytest

from haulout.base import expression
from haulout.base.expression import And, Expression, ExpressionError, Mention, Name, Not, Or

A, B, C = Name("a"), Name("b"), Name("c")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a", A),
        ("!a", Not(A)),
        ("!!a", Not(Not(A))),
        ("a && b", And((A, B))),
        ("a&&b", And((A, B))),
        ("a || b && c", Or((A, And((B, C))))),
        ("a && b || c", Or((And((A, B)), C))),
        ("(a || b) && c", And((Or((A, B)), C))),
        ("a && (b||c)", And((A, Or((B, C))))),
        ("a && !(b || c)", And((A, Not(Or((B, C)))))),
        ("!a && b", And((Not(A), B))),
        ("a && b && c", And((A, B, C))),
        ("a && (b && c)", And((A, B, C))),
        ("((a))", A),
        ("\n a\n\t&& b\n", And((A, B))),
        ("a-b&&!c.d", And((Name("a-b"), Not(Name("c.d"))))),
        ("1a", Name("1a")),
        ("in || date", Or((Name("in"), Name("date")))),
        ("größe_1", Name("größe_1")),
    ],
)
def test_parse(text: str, wanted: Expression) -> None:
    assert expression.parse(text) == wanted


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("", "unexpected end", 1),
        ("   ", "unexpected end", 4),
        ("a &&", "unexpected end", 5),
        ("&& a", "unexpected '&&'", 1),
        ("a b", "unexpected 'b'", 3),
        ("a & b", "unexpected '&'", 3),
        ("a % b", "unexpected '%'", 3),
        ("(a", "unexpected end instead of ')'", 3),
        ("(a && b", "unexpected end instead of ')'", 8),
        ("a)", "unexpected ')'", 2),
        ("()", "unexpected ')'", 2),
        ("a !b", "unexpected '!'", 3),
        ("!" * 200 + "a", "nested deeper than 100", 101),
        ("(" * 200 + "a" + ")" * 200, "nested deeper than 100", 101),
    ],
    ids=lambda value: str(value)[:12],
)
def test_errors_have_a_column(text: str, message: str, column: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        expression.parse(text)
    assert str(caught.value) == f"parsing error: {message} at column {column}"
    assert caught.value.column == column


def test_names_in_textual_order_with_repetitions() -> None:
    assert expression.names(expression.parse("b && !(a || b) && c")) == ("b", "a", "b", "c")


def test_mentions_are_found_in_any_text() -> None:
    assert [mention.name for mention in expression.mentions("go&&(a % !b||c:d")] == ["go", "a", "%", "b", "c:d"]
    assert expression.mentions("go && a")[1] == Mention("a", "a", 7)


@pytest.mark.parametrize(
    ("text", "true", "wanted"),
    [
        ("a && b", "ab", True),
        ("a && b", "a", False),
        ("a || b", "b", True),
        ("!a", "", True),
        ("a && !(b || c)", "a", True),
        ("a && !(b || c)", "ac", False),
        ("a || b && c", "a", True),
    ],
)
def test_evaluate(text: str, true: str, wanted: bool) -> None:
    values = {name: name in true for name in "abc"}
    assert expression.evaluate(expression.parse(text), values) is wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a", {"a"}),
        ("a && b", {"a", "b"}),
        ("a && (b && c)", {"a", "b", "c"}),
        ("a && !b", {"a"}),
        ("a && (b || c)", {"a"}),
        ("a || b", set()),
        ("!a", set()),
        ("a && !a", set()),
        ("a && b && a", {"b"}),
        ("a && (b || !a)", set()),
    ],
)
def test_conjuncts(text: str, wanted: set[str]) -> None:
    assert expression.conjuncts(expression.parse(text)) == wanted


def test_a_long_expression_is_not_a_deep_one() -> None:
    parsed = expression.parse(" && ".join(["a"] * 20_000))
    assert len(expression.names(parsed)) == 20_000


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ()),
        ("a", (Mention("a", "a", 1),)),
        ("a&&b", (Mention("a", "a", 1), Mention("b", "b", 4))),
        ("a && b.c-d", (Mention("a", "a ", 1), Mention("b.c-d", " b.c-d", 6))),
        ("a || !b", (Mention("a || !b", "a || !b", 1),)),
        ("a &&", (Mention("a", "a ", 1), Mention("", "", 5))),
        ("\ta", (Mention("\ta", "\ta", 1),)),
    ],
)
def test_chains(text: str, wanted: tuple[Mention, ...]) -> None:
    assert expression.parse_chain(text) == wanted


@pytest.mark.parametrize(
    ("text", "true", "wanted"),
    [
        ("a", "a", {}),
        ("a", "", {"a": True}),
        ("!a", "a", {"a": False}),
        ("a && b && c", "b", {"a": True, "c": True}),
        ("a || b", "", {"a": True, "b": True}),
        ("a || b", "b", {}),
        ("!(a || b) && c", "a", {"a": False, "c": True}),
        ("!(a && b)", "ab", {"a": False, "b": False}),
        ("(a || b) && (a || c)", "b", {"a": True, "c": True}),
        ("a && !a", "", {"a": True}),
    ],
)
def test_culprits(text: str, true: str, wanted: dict[str, bool]) -> None:
    """What would have to change, and to what."""
    values = {name: name in true for name in "abc"}
    assert dict(expression.culprits(expression.parse(text), values)) == wanted
