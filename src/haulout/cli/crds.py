"""`haulout crds`: the custom resource definitions of surfaces, as YAML."""

from __future__ import annotations

import click

from haulout.cli.manifests import picked
from haulout.manifests.documents import crd

# What each surface brings; profiles live on Nodes alone, and the definitions of Cluster API and Metal3 are theirs.
CRDS: dict[str, tuple[str, ...]] = {
    "kernel": ("nodedisruptionbudgets",),
    "nodemaintenance": ("nodemaintenances",),
    "packages": ("skyhooks", "deploymentpolicies"),
}


@click.command("crds", short_help="Print the custom resource definitions of surfaces.")
@click.argument("surfaces", nargs=-1, metavar="[SURFACE]...")
def command(surfaces: tuple[str, ...]) -> None:
    """Prints the custom resource definitions of the SURFACEs, or of all of them, as YAML."""
    for surface in picked(surfaces):
        for name in CRDS.get(surface, ()):
            click.echo(f"---\n{crd(name)}", nl=False)
