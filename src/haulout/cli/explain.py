"""`haulout explain`: who holds a node, what it waits for, and what would have to change."""

from __future__ import annotations

import click

from haulout.cli.options import cluster_options


@click.command("explain", short_help="Say what a node waits for, and why.")
@click.argument("node")
@click.option("--config", default="", metavar="FILE", help="haulout.yaml, or the profiles' own file.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
@cluster_options
def command(node: str, config: str, output: str, **cluster: str) -> int:
    """Asks the decisions about NODE afresh, against the cluster as it is now, and prints their reasons.

    Nothing is changed. The configuration is the operator's, so that the answer is the operator's too.
    """
    from haulout.cli.explaining import explain_node

    return explain_node(node, config, output, cluster)
