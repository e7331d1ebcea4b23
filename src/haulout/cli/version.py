"""`haulout version`."""

import click

from haulout import __version__


@click.command("version", short_help="Print the version.")
def command() -> None:
    """Prints the version."""
    click.echo(f"haulout {__version__}")
