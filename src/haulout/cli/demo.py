"""`haulout demo`: a rolling maintenance and a rolled back package on an embedded cluster, to look at."""

from __future__ import annotations

import click

from haulout.cli import completions
from haulout.settings.settings import DemoSettings


@click.command("demo", short_help="Watch a rolling maintenance on an embedded cluster.")
@click.option("--nodes", default=60, type=click.IntRange(1, 2000), show_default=True, help="Number of nodes.")
@click.option("--zones", default=3, type=click.IntRange(1, 20), show_default=True, help="Number of zones.")
@click.option("--once", is_flag=True, help="Stop after one round, and print a summary.")
@click.option(
    "--write-kubeconfig",
    "kubeconfig",
    default="",
    metavar="FILE",
    shell_complete=completions.files,
    help="Where to write the kubeconfig of the cluster.",
)
@click.option(
    "--svg",
    default="",
    metavar="FILE",
    shell_complete=completions.files,
    help="Where to write a picture of the second act.",
)
def command(nodes: int, zones: int, once: bool, kubeconfig: str, svg: str) -> DemoSettings:
    """Rolls a maintenance over the nodes of an embedded cluster, then a package, again and again, until interrupted.

    The package comes in waves. Its second version fails on some nodes: a wave fails its gate, and the first
    version is restored.

    No Kubernetes is needed. The cluster has workloads and disruption budgets, and can be looked at with kubectl from
    another terminal while it goes on. Without a terminal, it prints its progress as plain lines.
    """
    # Before anything is imported that takes a while.
    click.echo(f"starting an embedded cluster with {nodes} nodes in {zones} zones, and an operator on it ...")
    return DemoSettings(nodes=nodes, zones=zones, once=once, kubeconfig=kubeconfig, svg=svg)
