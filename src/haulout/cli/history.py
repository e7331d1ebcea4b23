"""`haulout history`: prints what happened to nodes, from records of maintenances and from events."""

from __future__ import annotations

from datetime import timedelta

import click

from haulout.cli import completions
from haulout.cli.options import cluster_options, span_option

FORMS = ("text", "wide", "json", "csv")


@click.command("history", short_help="Show what happened to nodes.")
@click.argument("what", metavar="[NODE|KIND/NAME]", default=None, shell_complete=completions.nodes)
@span_option("--since", "Only show what happened within this time, such as 36h or 7d.")
@click.option(
    "-o", "--output", type=click.Choice(FORMS), default="text", help="Output format; csv prints records only."
)
@cluster_options
def command(what: str | None, since: timedelta | None, output: str, **cluster: str) -> int:
    """Shows what happened to NODE or to the object KIND/[NAMESPACE/]NAME, oldest first. Without either, it shows
    all maintenances.

    Maintenances come from the logbook: MaintenanceRecords, which outlive their objects and nodes (marked with *).
    Events about a node and its objects last only as long as the API server keeps them. Warnings are marked with !.
    """
    from haulout.explain.history import show_history

    if what is not None and not what:
        # A variable of a script that is not set must not show the history of all nodes.
        raise click.UsageError("the name is empty")
    return show_history(what or "", since, output, cluster)
