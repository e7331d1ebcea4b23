"""`haulout uncordon`: makes nodes schedulable again, and warns of surfaces that still hold them."""

from __future__ import annotations

from typing import Any

import click

from haulout.cli import completions
from haulout.cli.options import KubectlFlags, cluster_options, label_selector, node_names


@click.command("uncordon", cls=KubectlFlags, short_help="Put nodes back into service.")
@click.argument("nodes", nargs=-1, callback=node_names, shell_complete=completions.nodes, metavar="NODE...")
@click.option(
    "-l", "--selector", default="", callback=label_selector, metavar="LABELS", help="Nodes with these labels."
)
@click.option("--dry-run", is_flag=True, help="Show what would happen without changing anything.")
@cluster_options
def command(nodes: tuple[str, ...], selector: str, dry_run: bool, **cluster: Any) -> int:
    """Makes the nodes schedulable, and warns about each node that a surface still holds.

    Exit codes: 0 all are schedulable; 1 at least one could not be changed.
    """
    if bool(nodes) == bool(selector):
        raise click.UsageError("name nodes or give a --selector" + (", not both" if nodes else ""))
    from haulout.byhand.uncordon import uncordon_nodes

    return uncordon_nodes(nodes, selector, cluster, dry_run=dry_run)
