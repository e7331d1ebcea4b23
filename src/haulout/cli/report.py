"""`haulout report`: prints what maintenances took, waited for and failed by."""

from __future__ import annotations

from datetime import timedelta

import click

from haulout.cli.options import cluster_options, span_option


@click.command("report", short_help="Summarize the maintenances of a period.")
@span_option("--since", "How far back to report.", default="30d")
@click.option(
    "--chronic",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    metavar="NUMBER",
    help="List nodes with at least this many maintenances as recurring.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json", "markdown"]), default="text", help="Output format.")
@cluster_options
def command(since: timedelta, chronic: int, output: str, **cluster: str) -> int:
    """Summarizes the maintenances in the logbook that ended within a period: how many there were and how they
    ended, how long each phase took (p50 and p95), what they waited for most, what failed, and which nodes keep
    coming back.
    """
    from haulout.explain.report import show_report

    return show_report(since, chronic, output, cluster)
