"""Command lines as Go's flag package reads them: `-name value`, `--name=value`, booleans that need `=` to be false."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import click

from haulout.base.duration import DurationError, parse, to_text
from haulout.base.number import digits, parse_bool
from haulout.core.surface import Flag

T = TypeVar("T")


class FlagProblem(Exception):
    """A command line that Go's flag package would refuse. The message is Go's."""


class HelpWanted(Exception):
    """The command line asks for help with -h or --help."""


def parse_flags(flags: Sequence[Flag], words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of flags by their names, and the arguments that follow the flags.

    Raises FlagProblem and HelpWanted.
    """
    known = {flag.name: flag for flag in flags}
    values = {flag.name: flag.default for flag in flags}
    rest = list(words)
    while rest:
        word = rest[0]
        if len(word) < 2 or not word.startswith("-"):
            break
        rest.pop(0)
        if word == "--":
            break
        name, equals, text = word.lstrip("-").partition("=")
        if not name or word.startswith("---"):
            raise FlagProblem(f"bad flag syntax: {word}")
        if name in ("h", "help") and name not in known:
            raise HelpWanted
        if name not in known:
            raise FlagProblem(f"flag provided but not defined: -{name}")
        flag = known[name]
        if not equals and flag.is_bool:
            text = "true"
        elif not equals:
            if not rest:
                raise FlagProblem(f"flag needs an argument: -{name}")
            text = rest.pop(0)
        values[name] = read_value(flag, text)
    return values, rest


def with_flags(
    program: str, flags: Sequence[Flag], words: Sequence[str], made: Callable[[dict[str, Any]], T]
) -> int | T:
    """Return `made` called with the values of the flags. On a problem print Go's usage and return Go's exit code."""
    try:
        values, _ = parse_flags(flags, words)
        return made(values)
    except HelpWanted:
        click.echo(usage(program, flags), err=True)
        return 0
    except FlagProblem as problem:
        click.echo(f"{problem}\n{usage(program, flags)}", err=True)
        return 2


def usage(program: str, flags: Sequence[Flag]) -> str:
    lines = [f"Usage of {program}:"]
    for flag in sorted(flags, key=lambda flag: flag.name):
        word = "" if flag.is_bool else f" {flag.word}"
        default = f" (default {_default_text(flag)})" if flag.default not in ("", False, 0) else ""
        lines.append(f"  -{flag.name}{word}\n    \t{flag.help}{default}")
    return "\n".join(lines)


def read_value(flag: Flag, text: str) -> Any:
    read: Callable[[str], Any] = str
    if flag.is_bool:
        read = parse_bool
    elif isinstance(flag.default, timedelta):
        read = parse
    elif isinstance(flag.default, int):
        read = _integer
    try:
        value = read(text)
    except DurationError as error:
        raise FlagProblem(f'invalid value "{text}" for flag -{flag.name}: {error}') from None
    if value is None and not flag.is_bool:
        raise FlagProblem(f'invalid value "{text}" for flag -{flag.name}: parse error')
    if value is None:
        raise FlagProblem(f'invalid boolean value "{text}" for -{flag.name}: parse error')
    return value


def _integer(text: str) -> int | None:
    number = digits(text.removeprefix("-"))
    return -number if number is not None and text.startswith("-") else number


def _default_text(flag: Flag) -> str:
    match flag.default:
        case bool():
            return str(flag.default).lower()
        case timedelta():
            return to_text(flag.default)
        case int():
            return str(flag.default)
        case _:
            return f'"{flag.default}"'
