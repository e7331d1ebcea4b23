"""`haulout crds`: the custom resource definitions of surfaces, as YAML."""

from __future__ import annotations

import click

from haulout.cli import completions
from haulout.cli.manifests import say_definitions, surfaces_in_order


@click.command("crds", short_help="Print the custom resource definitions of surfaces.")
@click.argument("surfaces", nargs=-1, metavar="[SURFACE]...", shell_complete=completions.surfaces)
def command(surfaces: tuple[str, ...]) -> None:
    """Prints, as YAML, the custom resource definitions of the SURFACEs (default: all)."""
    say_definitions(surfaces_in_order(surfaces))
