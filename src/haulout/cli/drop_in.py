"""`haulout as NAME`: one of the originals, with its own flags, environment, files, ports and exit codes."""

from __future__ import annotations

import importlib

import click

from haulout.cli.settings import Settings

DROP_INS = {
    "maintenance-controller": "haulout.cli.as_maintenance_controller",
    "node-maintenance-operator": "haulout.cli.as_node_maintenance_operator",
}


@click.command(
    "as",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
    short_help="Start as one of the originals, with its own flags.",
)
@click.argument("name", required=False, default="")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(name: str, words: tuple[str, ...]) -> int | Settings:
    """Starts as the original NAME, with its own flags, environment, files, ports and exit codes."""
    if name in ("-h", "--help", ""):
        click.echo(f"Usage: haulout as NAME [FLAGS]\n\nNames: {', '.join(DROP_INS)}", err=not name)
        return 0 if name else 2
    if name not in DROP_INS:
        raise click.UsageError(f"there is no original named {name!r}; there are: {', '.join(DROP_INS)}")
    made: int | Settings = importlib.import_module(DROP_INS[name]).main(words)
    return made
