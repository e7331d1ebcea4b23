"""`haulout start`: takes a node out of service for maintenance."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from haulout.cli import completions
from haulout.cli.object_act import ActCommand, arguments, with_arguments
from haulout.cli.options import act_options, act_target


@click.command("start", cls=ActCommand, short_help="Take a node out of service for maintenance.")
@click.argument("target", metavar="node/NAME", shell_complete=completions.acted)
@partial(with_arguments, "start")
@act_options
def command(target: str, way: str, reason: str, dry_run: bool, output: str, **options: Any) -> int:
    """Starts a maintenance of a node: a NodeMaintenance, a NotifyMaintenance, or a maintenance profile.

    Exit codes: 0 done; 1 refused or failed.
    """
    from haulout.acts.commands import run_order
    from haulout.acts.orders import Order

    word = target if "/" in target else f"node/{target}"
    order = Order("start", act_target(word, options["namespace"]), arguments("start", way, options), reason, dry_run)
    return run_order(order, options, output)
