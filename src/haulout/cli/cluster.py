"""`haulout cluster`: an embedded cluster for kubectl and any other client."""

from __future__ import annotations

import click

from haulout.cli import completions
from haulout.settings.settings import ClusterSettings


@click.command("cluster", short_help="Start an embedded cluster to play with.")
@click.option("--nodes", default=60, type=click.IntRange(0, 10000), show_default=True, help="How many nodes.")
@click.option("--zones", default=3, type=click.IntRange(1, 100), show_default=True, help="In how many zones.")
@click.option(
    "--workloads",
    default="",
    metavar="FILE",
    shell_complete=completions.files,
    help="Manifests to begin with, as YAML.",
)
@click.option(
    "--speed",
    default=1.0,
    type=click.FloatRange(0.1, 1000),
    show_default=True,
    help="How many seconds pass in the cluster for each real one.",
)
@click.option("--listen", default="127.0.0.1:0", metavar="ADDRESS", show_default=True, help="Where to serve its API.")
@click.option(
    "--write-kubeconfig",
    "kubeconfig",
    default="",
    metavar="FILE",
    shell_complete=completions.files,
    help="Where to write its kubeconfig.",
)
def command(**options: object) -> ClusterSettings:
    """Serves a Kubernetes-shaped cluster from memory until interrupted, and says how to reach it.

    It has a scheduler, workload controllers and simulated kubelets. Nothing is stored: its objects are lost when it ends.
    """
    return ClusterSettings(**options)  # type: ignore[arg-type]
