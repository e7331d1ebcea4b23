"""`haulout as NAME`: starts as one of the originals, with its own flags, environment, files, ports and exit codes."""

from __future__ import annotations

import click

from haulout.cli import completions
from haulout.settings.settings import Settings
from haulout.surfaces.registry import load, originals, programs, surface


class Untouched(click.Command):
    """A click command that parses nothing: the original gets all arguments as they are, even `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--", *args])


@click.command(
    "as",
    cls=Untouched,
    add_help_option=False,
    short_help="Run as one of the originals, with its own flags.",
)
@click.argument("name", required=False, default="", shell_complete=completions.originals)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(name: str, words: tuple[str, ...]) -> int | Settings:
    """Starts as the original NAME, with its own flags, environment, files, ports and exit codes."""
    if name in programs():
        done: int | Settings = load(programs()[name])(words)
        return done
    known = originals()
    names = (*known, *programs())
    if name == "--names":
        # The container file makes a link to the program for each of these names.
        click.echo("\n".join(names))
        return 0
    if name in ("-h", "--help", ""):
        click.echo(f"Usage: haulout as NAME [FLAGS]\n\nNames: {', '.join(names)}", err=not name)
        return 0 if name else 2
    if name not in known:
        raise click.UsageError(f"there is no original named {name!r}; there are: {', '.join(names)}")
    from haulout.cli.original import start

    return start(surface(known[name]), words)
