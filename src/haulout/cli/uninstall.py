"""`haulout uninstall`: ends what is in flight, gives nodes back, and removes Haulout from a cluster."""

from __future__ import annotations

from typing import Any

import click

from haulout.cli import completions
from haulout.cli.manifests import surfaces_in_order
from haulout.cli.options import cluster_options
from haulout.manifests.documents import NAMESPACE
from haulout.surfaces.registry import KERNEL


@click.command("uninstall", short_help="Remove Haulout, or some of its surfaces, from a cluster.")
@click.argument("surfaces", nargs=-1, metavar="[SURFACE]...", shell_complete=completions.surfaces)
@click.option("--definitions", is_flag=True, help="Remove the definitions, too, and so all objects of their kinds.")
@click.option("--dry-run", is_flag=True, help="List what would be removed; touch nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@cluster_options
def command(surfaces: tuple[str, ...], definitions: bool, dry_run: bool, yes: bool, **cluster: Any) -> int:
    """Ends what is in flight, gives nodes back as they were, and removes Haulout; with SURFACEs, only what is theirs.

    The operator is stopped first. Objects of people, such as NodeMaintenances, stay without our marks unless
    --definitions is given. It can be interrupted at any point and run again. The rights are those of the kubeconfig.
    -n names the namespace of the operator (default haulout-system).

    Exit codes: 0 nothing is left; 1 refused, or something could not be removed.
    """
    from haulout.removal.command import uninstall
    from haulout.removal.survey import Wanted

    if KERNEL in surfaces:
        raise click.UsageError(f"{KERNEL} goes with the last surface: name no surface to remove everything")
    chosen = surfaces_in_order(surfaces) if surfaces else ()
    wanted = Wanted(chosen, cluster["namespace"] or NAMESPACE, definitions)

    def ask() -> bool:
        return yes or click.confirm("Remove all this?")

    return uninstall(wanted, cluster, ask, dry_run=dry_run)
