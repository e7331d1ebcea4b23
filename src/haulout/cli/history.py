"""`haulout history`: prints what happened to a node, by which controller and for which object."""

from __future__ import annotations

import click

from haulout.cli import completions
from haulout.cli.options import cluster_options, node_name


@click.command("history", short_help="Show what happened to a node.")
@click.argument("node", metavar="NODE", shell_complete=completions.nodes)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
@cluster_options
def command(node: str, output: str, **cluster: str) -> int:
    """Shows what happened to NODE, the oldest first: when, by which controller, for which object, and why.

    It is read from the events about the node and about the maintenance objects that concern it, for as long as the API server
    keeps them. Warnings are marked with !.
    """
    from haulout.explain.history import show_history

    return show_history(node_name(node), output, cluster)
