"""Flags as kubectl's plugins have them: before, between and behind the words of the command, long or short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from haulout.base.duration import DurationError, parse, quote
from haulout.base.number import parse_bool, parse_int

# Kinds of values, by pflag's names for them, which help shows.
BOOL, TEXT, TEXTS, NUMBER, DURATION = "bool", "string", "stringArray", "int", "duration"


class Flag(NamedTuple):
    """A flag of the command line. `short`: its one-letter form; empty if it has none."""

    name: str
    help: str
    kind: str = TEXT
    default: Any = ""
    short: str = ""


class FlagError(Exception):
    """A malformed command line, or one with an unknown flag."""


class Parsed(NamedTuple):
    """A parsed command line: the arguments that are not flags, and the values of the flags in it, by name."""

    words: tuple[str, ...]
    values: Mapping[str, Any]


def read_flags(words: Iterable[str], flags: Iterable[Flag]) -> Parsed:
    """Parse a command line. Raises FlagError for an unknown flag or a value that does not fit."""
    long = {flag.name: flag for flag in flags}
    short = {flag.short: flag for flag in long.values() if flag.short}
    plain: list[str] = []
    values: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word == "--":
            plain += rest
        elif word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
            if name not in long:
                raise FlagError(f"unknown flag: --{name}")
            _take(values, long[name], f"--{name}", value if has_value else None, rest)
        elif word.startswith("-") and word != "-":
            _take_short(values, short, word, rest)
        else:
            plain.append(word)
    return Parsed(tuple(plain), values)


def _take_short(values: dict[str, Any], short: Mapping[str, Flag], word: str, rest: Iterator[str]) -> None:
    """Parse an argument of short flags: several switches (`-yv`), or a flag with its value (`-ojson`)."""
    letters = word[1:]
    while letters:
        flag = short.get(letters[0])
        if flag is None:
            raise FlagError(f"unknown shorthand flag: {_letter(letters[0])} in -{letters}")
        name, letters = f"-{letters[0]}, --{flag.name}", letters[1:]
        if flag.kind == BOOL and not letters.startswith("="):
            values[flag.name] = True
            continue
        _take(values, flag, name, letters.removeprefix("=") if letters else None, rest)
        return


def _take(values: dict[str, Any], flag: Flag, name: str, value: str | None, rest: Iterator[str]) -> None:
    if value is None:
        if flag.kind == BOOL:
            values[flag.name] = True
            return
        value = next(rest, None)
        if value is None:
            raise FlagError(f"flag needs an argument: {name}")
    read = _value(flag, name, value)
    values[flag.name] = (*values.get(flag.name, ()), read) if flag.kind == TEXTS else read


def _value(flag: Flag, name: str, text: str) -> Any:
    match flag.kind:
        case "bool":
            read: Any = parse_bool(text)
        case "int":
            read = parse_int(text)
        case "duration":
            try:
                read = parse(text)
            except DurationError as error:
                raise FlagError(f"invalid argument {quote(text)} for {quote(name)} flag: {error}") from None
        case _:
            read = text
    if read is None:
        raise FlagError(f"invalid argument {quote(text)} for {quote(name)} flag: invalid syntax")
    return read


def _letter(letter: str) -> str:
    return f"'{letter}'"
