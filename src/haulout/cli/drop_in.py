"""`haulout as NAME`: one of the originals, with its own flags, environment, files, ports and exit codes."""

from __future__ import annotations

import click

from haulout.settings.settings import AGENT, ORIGINALS_TO_COME, Settings
from haulout.surfaces.registry import originals, surface


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
    known = originals()
    if name in ("-h", "--help", ""):
        click.echo(f"Usage: haulout as NAME [FLAGS]\n\nNames: {', '.join([*known, AGENT])}", err=not name)
        return 0 if name else 2
    if name not in known:
        is_coming = name in ORIGINALS_TO_COME
        what = f"{name} is not part of this version yet" if is_coming else f"there is no original named {name!r}"
        raise click.UsageError(f"{what}; there are: {', '.join(known)}")
    from haulout.cli.original import start

    return start(surface(known[name]), words)
