"""Prints the results of `skyhook` commands: tables as Go's tabwriter, JSON as Go indents it, YAML with sorted keys."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec
import yaml

from haulout.base.visible import visible, visible_line
from haulout.surfaces.packages.entries.entry import go_json

TABLE, JSON, YAML, WIDE = FORMATS = ("table", "json", "yaml", "wide")


def show(value: Any, output: str) -> None:
    """Print a value as JSON or YAML."""
    if output == JSON:
        click.echo(msgspec.json.format(go_json(value), indent=2))
    else:
        click.echo(_yaml(value), nl=False)


def _yaml(value: Any) -> str:
    """Return a value as YAML. Texts with characters that cannot be seen are written with the escapes of YAML."""
    text: str = yaml.safe_dump(value, sort_keys=True, allow_unicode=True, default_flow_style=False)
    is_seen = visible(text) == text
    return text if is_seen else yaml.safe_dump(value, sort_keys=True, default_flow_style=False)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print columns with two spaces between them, below their names and a line of dashes."""
    cells = [[visible_line(cell) for cell in row] for row in rows]
    lines = [columns, ["-" * len(column) for column in columns], *cells]
    widths = [max(len(line[number]) for line in lines) for number in range(len(columns))]
    for line in lines:
        padded = [cell.ljust(width + 2) for cell, width in zip(line[:-1], widths[:-1], strict=True)]
        click.echo("".join([*padded, line[-1]]))


def confirm() -> bool:
    """Ask the user whether to go on. Return True for `y` or `yes`, also in capitals. Raises Failed at the end of input."""
    click.echo("Continue? [y/N]: ", nl=False)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        raise Failed("reading confirmation: EOF")
    if answer.strip().lower() in ("y", "yes"):
        return True
    click.echo("Aborted")
    return False


def show_errors(heading: str, errors: Iterable[str]) -> None:
    listed = list(errors)
    if listed:
        click.echo(f"\n{heading}")
        for error in listed:
            click.echo(f"  - {error}")


class Failed(Exception):
    """A command failed. The text is printed to the user."""
