"""`haulout plugins`: prints a page about every plugin of the surfaces, with its settings."""

from __future__ import annotations

import click


@click.command("plugins", short_help="Describe the plugins that surfaces run.")
def command() -> None:
    """Prints a Markdown page that documents every installed check, trigger and notification."""
    from haulout.surfaces.registry import load, surfaces

    for each in surfaces():
        for line in load(each.plugins)() if each.plugins else ():
            click.echo(line)
