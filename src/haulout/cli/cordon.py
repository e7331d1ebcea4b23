"""`haulout cordon`: keeps new pods off nodes, and notes why."""

from __future__ import annotations

from typing import Any

import click

from haulout.cli import completions
from haulout.cli.options import KubectlFlags, cluster_options, label_selector, node_names


@click.command("cordon", cls=KubectlFlags, short_help="Keep new pods off nodes.")
@click.argument("nodes", nargs=-1, callback=node_names, shell_complete=completions.nodes, metavar="NODE...")
@click.option(
    "-l", "--selector", default="", callback=label_selector, metavar="LABELS", help="Nodes with these labels."
)
@click.option("--reason", default="", metavar="TEXT", help="The reason, which explain, status and uncordon show.")
@click.option("--dry-run", is_flag=True, help="Show what would happen without changing anything.")
@cluster_options
def command(nodes: tuple[str, ...], selector: str, reason: str, dry_run: bool, **cluster: Any) -> int:
    """Makes the nodes unschedulable, and stores the reason in the annotation haulout.dev/cordon-reason of each.

    Exit codes: 0 all are cordoned; 1 at least one could not be changed. `haulout uncordon NODE...` brings them back.
    """
    if bool(nodes) == bool(selector):
        raise click.UsageError("name nodes or give a --selector" + (", not both" if nodes else ""))
    from haulout.byhand.cordon import cordon_nodes

    return cordon_nodes(nodes, selector, reason, cluster, dry_run=dry_run)
