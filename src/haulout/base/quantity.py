"""Kubernetes quantities, as exact numbers and in the canonical form that the API server returns."""

from __future__ import annotations

import functools
import re
from fractions import Fraction

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE](?P<exponent>[+-]?[0-9]{1,3})|(?P<suffix>[a-zA-Z]*))"
)
_FORM = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
_DECIMAL = {-3: "n", -2: "u", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P", 6: "E"}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SUFFIXES = {
    **{suffix: Fraction(1000) ** power for power, suffix in _DECIMAL.items()},
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(_BINARY) if suffix},
}
_SMALLEST = Fraction(1, 10**9)
# The longest text of a quantity. No real quantity is longer, and Python refuses numbers of some thousand digits.
_LONGEST = 400


class QuantityError(ValueError):
    """A text is not a quantity. The message is that of Kubernetes' own parser."""


@functools.lru_cache(maxsize=4096)
def amount(text: str | int | float) -> Fraction:
    """Return a quantity as an exact number. JSON numbers are quantities, too.

    It is rounded to a billionth, away from zero.
    """
    return _read(str(text))[0]


@functools.lru_cache(maxsize=4096)
def whole(text: str | int | float) -> int:
    """Return a quantity as an integer, rounded up, like `Quantity.Value()`. For bytes and pods."""
    return -int(-amount(text) // 1)


@functools.lru_cache(maxsize=4096)
def thousandths(text: str | int | float) -> int:
    """Return a quantity in thousandths, rounded up, like `Quantity.MilliValue()`. For CPUs."""
    return -int(-amount(text) * 1000 // 1)


@functools.lru_cache(maxsize=65536)
def canonical(text: str) -> str:
    """Return the canonical form, without a fraction: `0.5` is `500m`, `1.5Gi` is `1536Mi`."""
    value, found = _read(text)
    if not value:
        return "0"
    if found["exponent"] is not None:
        mantissa, power = _shortened(value, 1000, -3, 3 * 128)
        return f"{mantissa}e{power * 3}" if power else str(mantissa)
    # Binary quantities that are small or not whole are written with decimal suffixes.
    if found["suffix"] in _BINARY[1:] and abs(value) >= 1024 and value.denominator == 1:
        mantissa, power = _shortened(value, 1024, 0, 6)
        return f"{mantissa}{_BINARY[power]}"
    mantissa, power = _shortened(value, 1000, -3, 6)
    return f"{mantissa}{_DECIMAL[power]}"


def _read(text: str) -> tuple[Fraction, re.Match[str]]:
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if not found or found["suffix"] not in (None, *_SUFFIXES):
        if _FORM.fullmatch(text) and found:
            raise QuantityError("unable to parse quantity's suffix")
        raise QuantityError(f"quantities must match the regular expression '^{_FORM.pattern}$'")
    number = Fraction(found["number"])
    value = number * (
        Fraction(10) ** int(found["exponent"]) if found["exponent"] is not None else _SUFFIXES[found["suffix"]]
    )
    if value % _SMALLEST:
        steps = -(-abs(value) // _SMALLEST)
        value = steps * _SMALLEST * (1 if value > 0 else -1)
    return value, found


def _shortened(value: Fraction, base: int, least: int, most: int) -> tuple[int, int]:
    """Return an integer and a power of the base, with the power as large as possible."""
    mantissa, power = value / Fraction(base) ** least, least
    while power < most and not mantissa % base:
        mantissa, power = mantissa / base, power + 1
    return int(mantissa), power
