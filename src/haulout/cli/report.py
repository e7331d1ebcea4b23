"""`haulout report`: prints what maintenances took, waited for and failed by."""

from __future__ import annotations

from datetime import timedelta

import click

from haulout.cli.options import cluster_options, span_option


@click.command("report", short_help="Report on the maintenances of a time.")
@span_option("--since", "The time to report on, until now.", default="30d")
@click.option(
    "--chronic",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    metavar="NUMBER",
    help="From so many maintenances on, a node is listed as coming back again and again.",
)
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "markdown"]), default="text", help="How to print it."
)
@cluster_options
def command(since: timedelta, chronic: int, output: str, **cluster: str) -> int:
    """Reports on the maintenances that ended within a time, from the logbook: how many and how they ended, how long each
    phase took (p50 and p95), what they waited for most, what failed, and which nodes come back again and again.
    """
    from haulout.explain.report import show_report

    return show_report(since, chronic, output, cluster)
