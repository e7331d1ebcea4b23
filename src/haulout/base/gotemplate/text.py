"""Quotes and unquotes texts as Go does. A byte that is no valid UTF-8 is kept as a lone surrogate."""

from __future__ import annotations

import re

_SHORT = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_LETTERS = {character: letter for letter, character in _SHORT.items()}
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{3})|x(?P<hex>[0-9a-fA-F]{2})|u(?P<four>[0-9a-fA-F]{4})|U(?P<eight>[0-9a-fA-F]{8})|(?P<one>.))",
    re.DOTALL,
)


def to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def quote(text: str, mark: str = '"') -> str:
    """Quote a text like strconv.Quote."""
    return mark + "".join(_quoted(character, mark) for character in text) + mark


def unquote(quoted: str) -> str:
    """Unquote a text like strconv.Unquote. Raises ValueError if it is not well-formed."""
    mark, inner = quoted[:1], quoted[1:-1]
    if len(quoted) < 2 or mark != quoted[-1]:
        raise ValueError("invalid syntax")
    if mark == "`":
        return inner.replace("\r", "")
    return to_text(b"".join(_pieces(inner, mark)))


def is_printable(character: str) -> bool:
    return character == " " or (character.isprintable() and not character.isspace())


def _pieces(inner: str, mark: str) -> list[bytes]:
    pieces: list[bytes] = []
    at = 0
    while at < len(inner):
        if inner[at] in {mark, "\n"}:
            raise ValueError("invalid syntax")
        if inner[at] != "\\":
            pieces.append(to_bytes(inner[at]))
            at += 1
            continue
        found = _ESCAPE.match(inner, at)
        if found is None:
            raise ValueError("invalid syntax")
        pieces.append(_unescaped(found, mark))
        at = found.end()
    return pieces


def _unescaped(found: re.Match[str], mark: str) -> bytes:
    if digits := found["octal"] or found["hex"]:
        value = int(digits, 8 if found["octal"] else 16)
        if value > 255:
            raise ValueError("invalid syntax")
        return bytes([value])
    if digits := found["four"] or found["eight"]:
        value = int(digits, 16)
        if value > 0x10FFFF or 0xD800 <= value < 0xE000:
            raise ValueError("invalid syntax")
        return chr(value).encode()
    one = found["one"]
    if one == mark:
        return one.encode()
    if one not in _SHORT:
        raise ValueError("invalid syntax")
    return _SHORT[one].encode()


def _quoted(character: str, mark: str) -> str:
    code = ord(character)
    if character in {mark, "\\"}:
        return f"\\{character}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if is_printable(character):
        return character
    if character in _LETTERS:
        return f"\\{_LETTERS[character]}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
