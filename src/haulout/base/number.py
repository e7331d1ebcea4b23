"""Numbers and truth values in text, as Go's strconv and fmt read and write them."""

from __future__ import annotations

import math
import re
from decimal import Decimal

INT64_MIN, INT64_MAX, UINT64_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1

_INT = re.compile(
    r"([+-]?)(?:0[xX](?P<hex>(?:_?[0-9a-fA-F])+)|0[oO](?P<oct>(?:_?[0-7])+)|0[bB](?P<bin>(?:_?[01])+)"
    r"|0(?P<old>(?:_?[0-7])*)|(?P<dec>[1-9](?:_?[0-9])*))"
)
_BASES = {"hex": 16, "oct": 8, "bin": 2, "old": 8, "dec": 10}
_DIGITS = r"[0-9](?:_?[0-9])*"
_DECIMAL = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEX = re.compile(r"[+-]?0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*[pP][+-]?[0-9]+")
_WORDS = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)

# The longest text of an integer. No 64-bit number is longer, and Python's int() refuses very long ones.
_LONGEST = 400


# The most digits of a count. All numbers of so many digits fit into 64 bits.
_MOST_DIGITS = 18


def digits(text: str, most: int = _MOST_DIGITS) -> int | None:
    """Return the number that ASCII digits spell; None for any other text and for more than `most` digits."""
    return int(text) if len(text) <= most and text.isascii() and text.isdecimal() else None


def parse_int(text: str) -> int | None:
    """Parse an integer of any size with Go's prefixes and underscores; None if it is not one. `010` is octal."""
    if len(text) > _LONGEST or not (found := _INT.fullmatch(text)):
        return None
    base, digits = next((base, found[name]) for name, base in _BASES.items() if found[name] is not None)
    value = int(digits.replace("_", "") or "0", base)
    return -value if found[1] == "-" else value


def parse_float(text: str) -> float | None:
    """Parse a floating-point number; None if it is not one, or too large for 64 bits."""
    if len(text) <= _LONGEST and _WORDS.fullmatch(text):
        return float(text)
    if len(text) <= _LONGEST and _DECIMAL.fullmatch(text):
        value = float(text)
    elif len(text) <= _LONGEST and _HEX.fullmatch(text):
        try:
            value = float.fromhex(text.replace("_", ""))
        except (OverflowError, ValueError):
            return None
    else:
        return None
    return value if math.isfinite(value) else None


def parse_bool(text: str) -> bool | None:
    if text in {"1", "t", "T", "TRUE", "true", "True"}:
        return True
    if text in {"0", "f", "F", "FALSE", "false", "False"}:
        return False
    return None


def format_float(value: float) -> str:
    """Format a number like Go's `%v`: with as few digits as identify it, and an exponent if it is large or small."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    shortest = Decimal(repr(value)).normalize()
    power = shortest.adjusted()
    if -4 <= power < 6 or not value:
        return f"{shortest:f}"
    return f"{shortest.scaleb(-power):f}e{power:+03d}"
