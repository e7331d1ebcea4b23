"""Colors for what commands print on a terminal. Pipes and NO_COLOR get none."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from haulout.base.visible import page, visible_line
from haulout.runtime.live_console import LiveConsole

# The style of a line by how it begins. The first that matches counts.
STYLES = (
    (re.compile(r"NO OPERATOR|NO RUNNING OPERATOR|\d+ OPERATORS|failed:$"), "bold red"),
    (re.compile(r"INCOMPLETE|It is unknown|are not installed|not read: "), "yellow"),
    (re.compile(r"\s*what would help"), "bold green"),
    (re.compile(r"blocked by:$|what waits, by cause:$"), "bold yellow"),
    (re.compile(r"[a-z][a-z ,]*:$|\d+ nodes: |node \S+"), "bold"),
    (re.compile(r"look up: "), "dim"),
    (re.compile(r"\S+:\d+:\d+: error"), "red"),
    (re.compile(r"\S+:\d+:\d+: warning"), "yellow"),
)


def style_of(line: str) -> str:
    """Return the style of a line in rich's words; empty if it has none."""
    return next((style for pattern, style in STYLES if pattern.match(line)), "")


def rich_text(lines: Iterable[str]) -> object:
    """Return the lines as a rich text, each in its style. A foreign text can neither begin a line nor set a style."""
    from rich.text import Text

    return Text("\n").join(Text(visible_line(line), style_of(line)) for line in lines)


def echo(text: str) -> None:
    """Print a text that has been made by `page`, in colors if stdout is a terminal."""
    console = LiveConsole(highlight=False)
    if not console.is_terminal or console.no_color:
        click.echo(text)
        return
    console.print(rich_text(text.split("\n")), soft_wrap=True)


def echo_lines(lines: Iterable[str]) -> None:
    """Print lines, in colors if stdout is a terminal."""
    echo(page(lines))
