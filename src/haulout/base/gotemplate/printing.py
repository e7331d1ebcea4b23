"""Go's fmt: Sprint, Sprintln and Sprintf over the values of templates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from haulout.base.gotemplate.text import quote, to_bytes
from haulout.base.gotemplate.values import (
    Named,
    Object,
    items,
    kind,
    sorted_entries,
    type_name,
)
from haulout.base.number import digits, format_float

_VERB = re.compile(
    r"%(?P<flags>[+\-# 0]*)(?P<width_index>\[\d+\](?=\*))?(?P<width>\d+|\*)?"
    r"(?:(?P<dot>\.)(?P<precision_index>\[\d+\](?=\*))?(?P<precision>\d+|\*)?)?(?P<index>\[[^\]]*\])?(?P<verb>.)?",
    re.DOTALL,
)
_INTEGERS = {"d": "d", "b": "b", "o": "o", "x": "x", "X": "X", "O": "o"}
_PREFIXES = {"b": "0b", "o": "0", "x": "0x", "X": "0X", "O": "0o"}
# The largest width and precision. Go accepts no larger ones, either.
_WIDEST = 1_000_000


class Flags(NamedTuple):
    """The flags between `%` and the verb of a Printf directive. `width` and `precision` are None if not written."""

    plus: bool = False
    minus: bool = False
    sharp: bool = False
    space: bool = False
    zero: bool = False
    width: int | None = None
    precision: int | None = None


PLAIN = Flags()


def sprint(values: Sequence[Any]) -> str:
    """Print values with a space between neighbours of which neither is text."""
    text = ""
    for number, value in enumerate(values):
        if number and kind(value) != "string" and kind(values[number - 1]) != "string":
            text += " "
        text += format_value(value)
    return text


def sprintln(values: Sequence[Any]) -> str:
    return " ".join(map(format_value, values)) + "\n"


def format_value(value: Any) -> str:
    return _formatted("v", PLAIN, value, 0)


def sprintf(template: str, values: Sequence[Any]) -> str:
    text, at, number, reordered = [], 0, 0, False
    for found in _VERB.finditer(template):
        text.append(template[at : found.start()])
        at = found.end()
        piece, number, moved = _directive(found, values, number)
        reordered = reordered or moved
        text.append(piece)
    text.append(template[at:])
    if number < len(values) and not reordered:
        extra = ", ".join(_typed(value) for value in values[number:])
        text.append(f"%!(EXTRA {extra})")
    return "".join(text)


def _directive(found: re.Match[str], values: Sequence[Any], number: int) -> tuple[str, int, bool]:
    verb, reordered = found["verb"], False
    for group in ("width_index", "precision_index", "index"):
        if found[group]:
            reordered = True
    flags, number, problem = _flags(found, values, number)
    if verb is None:
        return f"{problem}%!(NOVERB)", number, reordered
    if verb == "%":
        return f"{problem}%", number, reordered
    if found["index"]:
        inner = found["index"][1:-1]
        position = digits(inner)
        if position is None or not 1 <= position <= len(values):
            return f"{problem}%!{verb}(BADINDEX)", number, reordered
        number = position - 1
    if number >= len(values):
        return f"{problem}%!{verb}(MISSING)", number, reordered
    return problem + _formatted(verb, flags, values[number], 0), number + 1, reordered


def _span(text: str | None) -> int | None:
    number = digits(text) if text is not None else None
    return number if number is not None and number <= _WIDEST else None


def _flags(found: re.Match[str], values: Sequence[Any], number: int) -> tuple[Flags, int, str]:
    written, problem = found["flags"], ""
    width, precision = found["width"], found["precision"]
    minus = "-" in written
    if width == "*":
        if found["width_index"]:
            number = (digits(found["width_index"][1:-1]) or 0) - 1
        value = values[number] if 0 <= number < len(values) else None
        number += 1
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _WIDEST:
            minus, width = minus or value < 0, str(abs(value))
        else:
            problem, width = "%!(BADWIDTH)", None
    if precision == "*":
        if found["precision_index"]:
            number = (digits(found["precision_index"][1:-1]) or 0) - 1
        value = values[number] if 0 <= number < len(values) else None
        number += 1
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _WIDEST:
            precision = str(value)
        else:
            problem, precision = problem + "%!(BADPREC)", None
    elif found["dot"] and precision is None:
        precision = "0"
    spans = [_span(width), _span(precision)]
    flags = Flags("+" in written, minus, "#" in written, " " in written, "0" in written and not minus, *spans)
    return flags, number, problem


def _formatted(verb: str, flags: Flags, value: Any, depth: int) -> str:
    if verb == "T":
        return _padded(type_name(value), flags)
    if verb == "p":
        return _bad(verb, value)
    return _BY_KIND[kind(value)](verb, flags, value, depth)


def _padded(text: str, flags: Flags, *, zeros: bool = True) -> str:
    if flags.width is None or len(text) >= flags.width:
        return text
    if flags.minus:
        return text.ljust(flags.width)
    return text.rjust(flags.width, "0" if flags.zero and zeros else " ")


def _bad(verb: str, value: Any) -> str:
    return f"%!{verb}({_typed(value)})" if value is not None else f"%!{verb}(<nil>)"


def _typed(value: Any) -> str:
    return f"{type_name(value)}={_formatted('v', PLAIN, _bare(value), 0)}" if value is not None else "<nil>"


def _bare(value: Any) -> Any:
    """Return a value that prints as a word, such as a weekday, as a plain number; any other value as it is."""
    return int(value) if isinstance(value, Named) else value


def _nothing(verb: str, flags: Flags, value: Any, depth: int) -> str:
    if verb == "v":
        return _padded("<nil>", flags, zeros=False)
    return f"%!{verb}(<nil>)"


def _pointer(verb: str, flags: Flags, value: Any, depth: int) -> str:
    return _padded("<nil>", flags, zeros=False) if verb in "vs" else f"%!{verb}({type_name(value)}=<nil>)"


def _boolean(verb: str, flags: Flags, value: bool, depth: int) -> str:
    if verb not in "tv":
        return _bad(verb, value)
    return _padded("true" if value else "false", flags)


def _integer(verb: str, flags: Flags, value: int, depth: int) -> str:
    if isinstance(value, Named) and verb in "vsqxX" and not (verb == "v" and flags.sharp):
        return _string(verb, flags, value.text, depth)
    value = int(value)
    match verb:
        case "v":
            return _digits("d", flags, value)
        case "c":
            return _padded(_character(value), flags)
        case "q":
            return _padded(quote(_character(value), "'"), flags)
        case "U":
            return _padded(f"U+{value:04X}", flags)
    return _digits(verb, flags, value) if verb in _INTEGERS else _bad(verb, value)


def _digits(verb: str, flags: Flags, value: int) -> str:
    digits = format(abs(value), _INTEGERS[verb])
    if flags.precision is not None:
        digits = digits.rjust(flags.precision, "0") if flags.precision or value else ""
    prefix = _PREFIXES[verb] if verb == "O" or (flags.sharp and verb != "d") else ""
    sign = "-" if value < 0 else "+" if flags.plus else " " if flags.space else ""
    if flags.zero and flags.width is not None and flags.precision is None:
        digits = digits.rjust(flags.width - len(sign), "0")
    return _padded(sign + prefix + digits, flags, zeros=False)


def _character(code: int) -> str:
    is_valid = 0 <= code <= 0x10FFFF and not 0xD800 <= code < 0xE000
    return chr(code) if is_valid else "\ufffd"


def _float(verb: str, flags: Flags, value: float, depth: int) -> str:
    if verb not in "vgGeEfF":
        return _bad(verb, value)
    if not math.isfinite(value):
        text, zeros = "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf", False
        if value == math.inf and not flags.plus and verb in "vgGeEfF":
            text = "+Inf"
    else:
        text, zeros = _finite("g" if verb == "v" else verb, flags, value), True
    if not text.startswith("-"):
        text = ("+" if flags.plus and not text.startswith("+") else " " if flags.space else "") + text
    if flags.zero and zeros and flags.width is not None and text[:1] in "+-" and text[:1]:
        return text[0] + text[1:].rjust(flags.width - 1, "0")
    return _padded(text, flags, zeros=zeros)


def _finite(verb: str, flags: Flags, value: float) -> str:
    if verb in "gG" and flags.precision is None:
        text = format_float(value)
    else:
        precision = 6 if flags.precision is None else flags.precision
        text = format(value, f"{'#' if flags.sharp else ''}.{precision}{verb}")
    if "e" in text or "E" in text:
        mantissa, sign, power = re.split(r"[eE]([+-])", text)
        text = f"{mantissa}{'E' if verb in 'GE' else 'e'}{sign}{power.rjust(2, '0')}"
    return text


def _complex(verb: str, flags: Flags, value: complex, depth: int) -> str:
    if verb not in "vgGeEfF":
        return _bad(verb, value)
    imaginary = _float(verb, flags._replace(plus=True), value.imag, depth)
    return f"({_float(verb, flags, value.real, depth)}{imaginary}i)"


def _string(verb: str, flags: Flags, value: str, depth: int) -> str:
    value = str(value)
    if flags.precision is not None and verb not in "xX":
        value = value[: flags.precision]
    match verb:
        case "v" if flags.sharp:
            return _padded(quote(value), flags)
        case "v" | "s":
            return _padded(value, flags)
        case "q":
            raw = flags.sharp and "`" not in value and value.isprintable()
            text = f"`{value}`" if raw else quote(value)
            return _padded(_ascii(text) if flags.plus else text, flags)
        case "x" | "X":
            data = to_bytes(value)[: flags.precision]
            prefix = _PREFIXES[verb] if flags.sharp else ""
            digits = [format(byte, f"02{verb}") for byte in data]
            text = f" {prefix}".join(digits) if flags.space else "".join(digits)
            return _padded(prefix + text if digits else "", flags)
    return _bad(verb, value)


def _ascii(text: str) -> str:
    return "".join(
        character
        if character.isascii()
        else f"\\u{ord(character):04x}"
        if ord(character) < 0x10000
        else f"\\U{ord(character):08x}"
        for character in text
    )


def _map(verb: str, flags: Flags, value: Any, depth: int) -> str:
    shown_entries = (
        f"{_formatted(verb, flags, name, depth + 1)}:{_formatted(verb, flags, entry, depth + 1)}"
        for name, entry in sorted_entries(value)
    )
    if verb == "v" and flags.sharp:
        return f"{type_name(value)}{{{', '.join(shown_entries)}}}"
    return f"map[{' '.join(shown_entries)}]"


def _slice(verb: str, flags: Flags, value: Any, depth: int) -> str:
    shown_items = [_formatted(verb, flags, item, depth + 1) for item in items(value)]
    if verb == "v" and flags.sharp:
        return f"{type_name(value)}{{{', '.join(shown_items)}}}"
    return f"[{' '.join(shown_items)}]"


def _struct(verb: str, flags: Flags, value: Object, depth: int) -> str:
    if value.text is not None and verb in "vsqxX":
        return _string(verb, flags, value.text, depth)
    named = flags.plus or flags.sharp
    shown_fields = (
        f"{name}:{_formatted(verb, flags, field, depth + 1)}" if named else _formatted(verb, flags, field, depth + 1)
        for name, field in value.fields.items()
    )
    return f"{{{' '.join(shown_fields)}}}"


def _function(verb: str, flags: Flags, value: Any, depth: int) -> str:
    return _bad(verb, value) if depth else "func"


_BY_KIND: dict[str, Callable[[str, Flags, Any, int], str]] = {
    "invalid": _nothing,
    "ptr": _pointer,
    "bool": _boolean,
    "int": _integer,
    "float": _float,
    "complex": _complex,
    "string": _string,
    "map": _map,
    "slice": _slice,
    "struct": _struct,
    "func": _function,
}
