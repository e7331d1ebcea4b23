"""`haulout as NAME`: one of the originals, with its own flags, environment, files, ports and exit codes."""

from __future__ import annotations

import click

from haulout.settings.settings import AGENT, Settings
from haulout.surfaces.registry import load, originals, surface

# Command lines of originals, which are no surfaces, each with its function. kubectl finds plugins by their names.
COMMAND_LINES = dict.fromkeys(("skyhook", "kubectl-skyhook"), "haulout.cli.skyhook.command:main")


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
    if name in COMMAND_LINES:
        code: int = load(COMMAND_LINES[name])(words)
        return code
    known = originals()
    if name in ("-h", "--help", ""):
        click.echo(
            f"Usage: haulout as NAME [FLAGS]\n\nNames: {', '.join([*known, *COMMAND_LINES, AGENT])}", err=not name
        )
        return 0 if name else 2
    if name not in known:
        raise click.UsageError(f"there is no original named {name!r}; there are: {', '.join([*known, *COMMAND_LINES])}")
    from haulout.cli.original import start

    return start(surface(known[name]), words)
