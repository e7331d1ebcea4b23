"""`haulout status`: prints the state of a whole fleet: nodes, claims, budgets, waits and the installation."""

from __future__ import annotations

import click

from haulout.cli.options import cluster_options, config_option


@click.command("status", short_help="Show the fleet: nodes, budgets, and what blocks them.")
@config_option
@click.option(
    "--group-by",
    default="topology.kubernetes.io/zone",
    metavar="LABEL",
    show_default=True,
    help="The label of nodes by which they are grouped.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="Output format.")
@click.option("-w", "--watch", is_flag=True, help="Keep running, and update the screen.")
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit 0 if nothing waits, 3 if something is blocked, 1 if something failed, no operator runs or not all can be read.",
)
@cluster_options
def command(config: str, group_by: str, output: str, watch: bool, exit_code: bool, **cluster: str) -> int:
    """Runs the operator's decisions about all nodes and shows the fleet: the state of each node and which surfaces
    hold it, what each budget has left, the progress of every maintenance, and what is blocked, by root cause with
    the one action that helps.

    It changes nothing and uses the operator's settings.
    """
    from haulout.explain.status import Request, show_status

    if watch and output != "text":
        raise click.UsageError("--watch draws a picture; without it, -o json and -o yaml print a document")
    return show_status(Request(config, group_by, output, watch, exit_code), cluster)
