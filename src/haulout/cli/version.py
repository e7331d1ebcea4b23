"""`haulout version`."""

import click

from haulout import BUILT, COMMIT, __version__
from haulout.base import interpreter


@click.command("version", short_help="Print the version.")
def command() -> None:
    """Prints the version of Haulout, the commit from which it was built, and which Python runs it."""
    click.echo(f"haulout {__version__}")
    if COMMIT != "unknown":
        click.echo(f"commit {COMMIT}, built {BUILT}")
    click.echo(interpreter.description())
