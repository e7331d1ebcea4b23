"""Shows characters that a terminal would obey or hide, so that a foreign text can do nothing but be read."""

from __future__ import annotations

from collections.abc import Iterable


def visible(text: str) -> str:
    """Return the text with an escape for each character that cannot be seen, except line breaks and tabs.

    These are control characters and with them escape sequences, marks that change the direction of text, and lone
    surrogates. An escape has the form of JSON, so that a JSON document still means the same.
    """
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in "\n\t" else _escape(sign) for sign in text)


def visible_line(text: str) -> str:
    """Return the text as `visible` does, with escapes for line breaks and tabs, too: a foreign text begins no new line."""
    return text if text.isprintable() else visible(text).replace("\n", "\\n").replace("\t", "\\t")


def page(lines: Iterable[str]) -> str:
    """Return the lines of a text that is printed, each as one line whatever is in it."""
    return "\n".join(map(visible_line, lines))


def _escape(sign: str) -> str:
    units = sign.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
