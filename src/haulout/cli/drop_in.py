"""`haulout as NAME`: one of the originals, with its own flags, environment, files, ports and exit codes."""

from __future__ import annotations

import importlib

import click

from haulout.settings.settings import AGENT, ORIGINALS_TO_COME, Settings

DROP_INS = {
    "maintenance-controller": "haulout.cli.as_maintenance_controller",
    "node-maintenance-operator": "haulout.cli.as_node_maintenance_operator",
    "runtime-extension-maintenance-controller": "haulout.cli.as_runtime_extension_maintenance_controller",
}


class Untouched(click.Command):
    """Hands all words on as they are: even `--` is for the originals to understand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--", *args])


@click.command(
    "as",
    cls=Untouched,
    add_help_option=False,
    short_help="Start as one of the originals, with its own flags.",
)
@click.argument("name", required=False, default="")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(name: str, words: tuple[str, ...]) -> int | Settings:
    """Starts as the original NAME, with its own flags, environment, files, ports and exit codes."""
    if name in ("-h", "--help", ""):
        click.echo(f"Usage: haulout as NAME [FLAGS]\n\nNames: {', '.join([*DROP_INS, AGENT])}", err=not name)
        return 0 if name else 2
    if name not in DROP_INS:
        is_coming = name in ORIGINALS_TO_COME
        what = f"{name} is not part of this version yet" if is_coming else f"there is no original named {name!r}"
        raise click.UsageError(f"{what}; there are: {', '.join(DROP_INS)}")
    made: int | Settings = importlib.import_module(DROP_INS[name]).main(words)
    return made
