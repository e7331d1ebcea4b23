"""`haulout start`: takes a node out of service for maintenance."""

from __future__ import annotations

from typing import Any

import click

from haulout.cli import completions
from haulout.cli.options import KubectlFlags, act_options, node_name


@click.command("start", cls=KubectlFlags, short_help="Take a node out of service for maintenance.")
@click.argument("node", metavar="node/NAME", shell_complete=completions.nodes)
@click.option("--with", "way", default="", metavar="SURFACE", help="nodemaintenance, notify, or profile=NAME.")
@act_options
def command(node: str, way: str, reason: str, dry_run: bool, output: str, **cluster: Any) -> int:
    """Starts a maintenance of a node: a NodeMaintenance, a NotifyMaintenance, or a maintenance profile.

    Exit codes: 0 done; 1 refused or failed.
    """
    from haulout.acts.commands import run_order
    from haulout.acts.orders import Order
    from haulout.acts.prepare import Target

    args = {"with": way} if way else {}
    return run_order(Order("start", Target("Node", "", node_name(node)), args, reason, dry_run), cluster, output)
