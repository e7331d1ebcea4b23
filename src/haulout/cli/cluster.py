"""`haulout cluster`: an embedded cluster for kubectl and any other client."""

from __future__ import annotations

import click

from haulout.cli import completions
from haulout.settings.settings import ClusterSettings


@click.command("cluster", short_help="Start an embedded cluster to try things on.")
@click.option("--nodes", default=60, type=click.IntRange(0, 10000), show_default=True, help="Number of nodes.")
@click.option("--zones", default=3, type=click.IntRange(1, 100), show_default=True, help="Number of zones.")
@click.option(
    "--workloads",
    default="",
    metavar="FILE",
    shell_complete=completions.files,
    help="Manifests to apply at the start (YAML).",
)
@click.option(
    "--speed",
    default=1.0,
    type=click.FloatRange(0.1, 1000),
    show_default=True,
    help="Seconds that pass in the cluster for each real second.",
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
    """Serves an in-memory cluster with the Kubernetes API until interrupted, and prints how to reach it.

    It has a scheduler, workload controllers and simulated kubelets. Nothing is stored on disk: its objects are gone
    when the command ends.
    """
    return ClusterSettings(**options)  # type: ignore[arg-type]
