"""`haulout bundle`: what a support engineer needs, in one archive."""

from __future__ import annotations

import click

from haulout.cli import completions
from haulout.cli.options import cluster_options, config_option, node_names


@click.command("bundle", short_help="Collect what a support engineer needs.")
@click.argument("nodes", nargs=-1, callback=node_names, shell_complete=completions.nodes, metavar="[NODE...]")
@click.option(
    "-o",
    "--output",
    default="",
    metavar="FILE",
    shell_complete=completions.files,
    help="Archive to write (default: haulout-bundle-TIME.tar.gz).",
)
@config_option
@cluster_options
def command(nodes: tuple[str, ...], output: str, config: str, **cluster: str) -> int:
    """Writes maintenance objects, nodes, their pods and budgets, leases, events, logs of our own pods, explanations,
    versions and the configuration into a tar.gz.

    Without NODE, the archive has details of the nodes that are cordoned or in maintenance. It contains only what is
    known to be harmless: no variables, commands or arguments of containers, no annotations except Haulout's, no
    label values of workloads. Logs and configuration are read from Haulout's own namespace only (-n, default
    haulout-system). The archive lists what could not be read.
    """
    from haulout.support.bundle import write_bundle

    return write_bundle(nodes, output, config, cluster)
