"""`haulout crds`: the custom resource definitions of surfaces, as YAML."""

from __future__ import annotations

import click

# What each surface brings; profiles live on Nodes alone.
CRDS: dict[str, tuple[str, ...]] = {"profiles": ()}


@click.command("crds", short_help="Print the custom resource definitions of surfaces.")
@click.argument("surfaces", nargs=-1, metavar="[SURFACE]...")
def command(surfaces: tuple[str, ...]) -> None:
    """Prints the custom resource definitions of the SURFACEs, or of all of them, as YAML."""
    unknown = [name for name in surfaces if name not in CRDS]
    if unknown:
        raise click.UsageError(f"there is no surface {unknown[0]!r}; there are: {', '.join(CRDS)}")
    for name in surfaces or CRDS:
        for text in CRDS[name]:
            click.echo(f"---\n{text}", nl=False)
