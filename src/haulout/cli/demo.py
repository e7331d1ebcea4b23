"""`haulout demo`: a rolling maintenance on an embedded cluster, to look at."""

from __future__ import annotations

import click

from haulout.settings.settings import DemoSettings


@click.command("demo", short_help="Watch a rolling maintenance on an embedded cluster.")
@click.option("--nodes", default=60, type=click.IntRange(1, 2000), show_default=True, help="How many nodes.")
@click.option("--zones", default=3, type=click.IntRange(1, 20), show_default=True, help="In how many zones.")
@click.option("--once", is_flag=True, help="End after one roll, with a summary.")
@click.option(
    "--write-kubeconfig", "kubeconfig", default="", metavar="FILE", help="Where to leave the kubeconfig of the cluster."
)
@click.option("--svg", default="", metavar="FILE", help="Where to leave the last picture.")
def command(nodes: int, zones: int, once: bool, kubeconfig: str, svg: str) -> DemoSettings:
    """Rolls a maintenance over the nodes of an embedded cluster, again and again, until interrupted.

    No Kubernetes is needed. The cluster has workloads and disruption budgets, and can be looked at with kubectl from
    another terminal while it goes on. Without a terminal, plain lines tell of the progress.
    """
    return DemoSettings(nodes=nodes, zones=zones, once=once, kubeconfig=kubeconfig, svg=svg)
