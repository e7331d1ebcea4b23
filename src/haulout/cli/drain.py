"""`haulout drain`: cordons nodes and evicts their pods at the pace of the budgets, all nodes together."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from haulout.cli import completions
from haulout.cli.options import KubectlFlags, cluster_options, label_selector, node_names

# The largest number of seconds that the API server accepts, far above any grace period in use.
MOST_SECONDS = 2**31 - 1


def _span(ctx: click.Context, param: click.Parameter, text: str) -> timedelta:
    from haulout.base.duration import DurationError, parse

    try:
        span = parse(text)
    except DurationError as error:
        raise click.BadParameter(f"{error} (a duration such as 90s or 5m)") from None
    if span < timedelta():
        raise click.BadParameter("it must not be negative")
    return span


@click.command("drain", cls=KubectlFlags, short_help="Empty nodes for maintenance.")
@click.argument("nodes", nargs=-1, callback=node_names, shell_complete=completions.nodes, metavar="NODE...")
@click.option(
    "-l", "--selector", default="", callback=label_selector, metavar="LABELS", help="Nodes with these labels."
)
@click.option("--force", is_flag=True, help="Also evict pods that no controller would start elsewhere.")
@click.option("--ignore-daemonsets", is_flag=True, help="Leave pods of DaemonSets where they are.")
@click.option("--delete-emptydir-data", is_flag=True, help="Also evict pods with emptyDir volumes, whose data is lost.")
@click.option(
    "--grace-period",
    default=-1,
    type=click.IntRange(-1, MOST_SECONDS),
    metavar="SECONDS",
    help="Grace period for every pod; -1 uses each pod's own.",
)
@click.option(
    "--timeout", default="0s", callback=_span, metavar="DURATION", help="Give up after this long; 0s means never."
)
@click.option(
    "--pod-selector", default="", callback=label_selector, metavar="LABELS", help="Only pods with these labels."
)
@click.option("--disable-eviction", is_flag=True, help="Delete pods instead of evicting them, regardless of budgets.")
@click.option(
    "--skip-wait-for-delete-timeout",
    default=0,
    type=click.IntRange(0, MOST_SECONDS),
    metavar="SECONDS",
    help="Skip pods whose deletion is overdue by this long; 0 waits for all.",
)
@click.option("--reason", default="", metavar="TEXT", help="Why; explain, status, uncordon and the record show it.")
@click.option("--no-wait", is_flag=True, help="End as soon as the drain cannot go on without help (exit code 3).")
@click.option(
    "--dry-run", is_flag=True, help="Show what would be evicted, and what would block it, without changing anything."
)
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format of the result."
)
@cluster_options
def command(nodes: tuple[str, ...], selector: str, **choices: Any) -> int:
    """Cordons the nodes and evicts their pods, as many at a time as their disruption budgets allow across all
    nodes.

    Exit codes: 0 all are drained; 3 blocked; 4 timed out; 1 failed; 130 interrupted. It waits for pods behind a
    closed budget until --timeout. The nodes stay cordoned: `haulout uncordon NODE...` brings them back.
    """
    if bool(nodes) == bool(selector):
        raise click.UsageError("name nodes or give a --selector" + (", not both" if nodes else ""))
    from haulout.base.selector import parse
    from haulout.byhand.drain import Order, drain_nodes
    from haulout.core.drain.options import DrainOptions
    from haulout.core.logbook.wire import LONGEST_REASON

    options = DrainOptions(
        force=choices["force"],
        ignore_daemonsets=choices["ignore_daemonsets"],
        delete_local_data=choices["delete_emptydir_data"],
        grace_for=choices["grace_period"] if choices["grace_period"] >= 0 else None,
        selector=parse(choices["pod_selector"]) if choices["pod_selector"] else None,
        disable_eviction=choices["disable_eviction"],
        skip_ending_for=choices["skip_wait_for_delete_timeout"],
    )
    order = Order(
        nodes,
        options,
        selector=selector,
        timeout_for=choices["timeout"],
        wait=not choices["no_wait"],
        dry_run=choices["dry_run"],
        json=choices["output"] == "json",
        reason=choices["reason"][:LONGEST_REASON],
    )
    return drain_nodes(order, choices)
