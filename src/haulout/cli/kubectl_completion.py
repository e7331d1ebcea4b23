"""The completion of `kubectl haulout`, in the protocol by which kubectl asks plugins."""

from __future__ import annotations

from collections.abc import Sequence

import click
from click.shell_completion import ShellComplete

from haulout.cli.root import root

# The directives of kubectl's shell functions: complete files where nothing else fits, or do not.
FILES, NO_FILES = ":0", ":4"


def complete(words: Sequence[str]) -> int:
    """Print what the last of the words may become, one candidate a line, and the directive for the shell."""
    *before, begun = words or [""]
    found = ShellComplete(root, {}, "haulout", "_HAULOUT_COMPLETE").get_completions(before, begun)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(NO_FILES if all(item.type == "plain" for item in found) else FILES)
    return 0
