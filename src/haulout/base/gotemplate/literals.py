"""Number and character constants of templates: the kinds of Go numbers that each can be, and its default kind."""

from __future__ import annotations

from haulout.base.gotemplate.lex import Item, Kind
from haulout.base.gotemplate.text import quote, unquote
from haulout.base.gotemplate.tree import Number
from haulout.base.number import INT64_MAX, INT64_MIN, UINT64_MAX, parse_float, parse_int


def read_number(item: Item) -> Number:
    text = item.text
    if item.kind is Kind.CHAR_CONSTANT:
        character = unquote(text)
        if not character:
            raise ValueError("invalid syntax")
        if len(character) != 1:
            raise ValueError(f"malformed character constant: {text}")
        return Number(item.pos, text, ord(character))
    if text.endswith("i"):
        return _imaginary(item)
    whole = parse_int(text)
    if whole is not None and INT64_MIN <= whole <= INT64_MAX:
        return Number(item.pos, text, whole)
    if whole is not None and whole <= UINT64_MAX and whole > 0:
        return Number(item.pos, text, OverflowError())
    value = parse_float(text)
    if value is None:
        raise ValueError(f"illegal number syntax: {quote(text)}")
    if not {*text} & {*".eEpP"}:
        raise ValueError(f"integer overflow: {quote(text)}")
    return Number(item.pos, text, value)


def _imaginary(item: Item) -> Number:
    try:
        value = complex(item.text.replace("_", "")[:-1] + "j")
    except ValueError:
        raise ValueError(f"illegal number syntax: {quote(item.text)}") from None
    return Number(item.pos, item.text, value)
