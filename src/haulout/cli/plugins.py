"""`haulout plugins`: every plugin of profiles with its settings, as a page."""

from __future__ import annotations

import click


@click.command("plugins", short_help="Describe the plugins of profiles.")
def command() -> None:
    """Prints a page in Markdown about every check, trigger and notification that is installed, in its own words."""
    from haulout.surfaces.profiles.reference import page
    from haulout.surfaces.profiles.surface import known_plugins

    for line in page(known_plugins()):
        click.echo(line)
