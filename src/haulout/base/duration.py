"""Durations as Go's time package reads and writes them."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
}
_PART = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>[^0-9.]*)")
_LIMIT = 1 << 63
# The longest text in characters. Go has no such limit, but reading a very long text would take long.
_LONGEST = 256


class DurationError(ValueError):
    """A text is not a duration. The message is that of Go's time.ParseDuration."""


def parse(text: str) -> timedelta:
    """Return the duration in whole microseconds, rounded towards zero. A duration other than 0 never becomes 0."""
    return from_nanoseconds(parse_nanoseconds(text))


def parse_nanoseconds(text: str) -> int:
    negative, rest = text.startswith("-"), text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0
    if not rest or len(rest) > _LONGEST:
        raise _invalid(text[:_LONGEST])
    total = at = 0
    while at < len(rest):
        part = _PART.match(rest, at)
        assert part is not None
        total += _part(part, text)
        at = part.end()
        if total > _LIMIT:
            raise _invalid(text)
    if total == _LIMIT and not negative:
        raise _invalid(text)
    return -total if negative else total


def from_nanoseconds(nanoseconds: int) -> timedelta:
    """Return a timedelta. Less than a microsecond becomes one, because 0 often means something else, such as "off"."""
    microseconds = max(abs(nanoseconds) // 1000, 1) if nanoseconds else 0
    return timedelta(microseconds=-microseconds if nanoseconds < 0 else microseconds)


def to_nanoseconds(span: timedelta) -> int:
    return (span.days * 86_400_000_000 + span.seconds * 1_000_000 + span.microseconds) * 1000


def to_text(span: timedelta) -> str:
    """Return a span like Go's Duration.String: `1h30m0s`, `1.5s`, `250ms`, `0s`."""
    nanoseconds = to_nanoseconds(span)
    sign, rest = "-" if nanoseconds < 0 else "", abs(nanoseconds)
    if rest == 0:
        return "0s"
    if rest < _UNITS["s"]:
        unit = "ns" if rest < _UNITS["us"] else "µs" if rest < _UNITS["ms"] else "ms"
        return f"{sign}{_decimal(rest, _UNITS[unit])}{unit}"
    minutes, rest = divmod(rest, _UNITS["m"])
    seconds = f"{_decimal(rest, _UNITS['s'])}s"
    if not minutes:
        return f"{sign}{seconds}"
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}h{minutes}m{seconds}" if hours else f"{sign}{minutes}m{seconds}"


def quote(text: str) -> str:
    """Quote a text as in the errors of Go's time package: bytes that are not printable ASCII are escaped."""
    written = [_quoted_byte(byte) for byte in text.encode(errors="surrogatepass")]
    return f'"{"".join(written)}"'


def _part(part: re.Match[str], text: str) -> int:
    whole, fraction, name = part["whole"], part["fraction"], part["unit"]
    if not whole and not fraction:
        raise _invalid(text)
    before = _whole(whole, text)
    if not name:
        raise DurationError(f"time: missing unit in duration {quote(text)}")
    if name not in _UNITS:
        raise DurationError(f"time: unknown unit {quote(name)} in duration {quote(text)}")
    unit = _UNITS[name]
    if before > _LIMIT // unit:
        raise _invalid(text)
    return before * unit + _fraction(fraction or "", unit)


def _whole(digits: str, text: str) -> int:
    significant = digits.lstrip("0")
    if len(significant) > 19 or int(significant or "0") > _LIMIT:
        raise _invalid(text)
    return int(significant or "0")


def _fraction(digits: str, unit: int) -> int:
    """Return the nanoseconds of a fraction as Go computes them: the digits that fit into 63 bits, rounded once."""
    value, scale = 0, 1.0
    for digit in digits:
        if value > (_LIMIT - 1) // 10 or value * 10 + int(digit) > _LIMIT:
            break
        value, scale = value * 10 + int(digit), scale * 10
    return int(float(value) * (unit / scale))


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    fraction = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{fraction}" if rest else str(whole)


def _quoted_byte(byte: int) -> str:
    if byte >= 0x80 or byte < 0x20:
        return f"\\x{byte:02x}"
    return f"\\{chr(byte)}" if chr(byte) in {'"', "\\"} else chr(byte)


def _invalid(text: str) -> DurationError:
    return DurationError(f"time: invalid duration {quote(text)}")
