"""`haulout version`."""

import click

from haulout import __version__
from haulout.base import interpreter


@click.command("version", short_help="Print the version.")
def command() -> None:
    """Prints the version of Haulout, and which Python runs it."""
    click.echo(f"haulout {__version__}")
    click.echo(interpreter.description())
