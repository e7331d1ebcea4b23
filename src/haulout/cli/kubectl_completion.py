"""Shell completion of `kubectl haulout`, in the protocol by which kubectl asks its plugins for candidates."""

from __future__ import annotations

from collections.abc import Sequence

import click
from click.shell_completion import ShellComplete

from haulout.cli.root import root

# Directives to kubectl's shell functions: whether the shell offers file names if there is no other candidate.
FILES, NO_FILES = ":0", ":4"


def complete(words: Sequence[str]) -> int:
    """Print the candidates for the last argument, one a line, and then the directive for the shell."""
    *before, begun = words or [""]
    found = ShellComplete(root, {}, "haulout", "_HAULOUT_COMPLETE").get_completions(before, begun)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(NO_FILES if all(item.type == "plain" for item in found) else FILES)
    return 0
