"""`haulout start`: takes nodes out of service for maintenance."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from haulout.cli import completions
from haulout.cli.object_act import NAMESPACE, WITH, ActCommand, arguments, with_arguments
from haulout.cli.options import act_options, act_target, label_selector, node_name

if TYPE_CHECKING:
    from haulout.acts.orders import Order

# The arguments of the act for several nodes. The nodes themselves are arguments of the command.
SEVERAL = ("max", "name", "startAt", "ttl", "setAsideAfter")


@click.command("start", cls=ActCommand, short_help="Take nodes out of service for maintenance.")
@click.argument("targets", nargs=-1, metavar="node/NAME...", shell_complete=completions.act_targets)
@click.option(
    "-l", "--selector", default="", callback=label_selector, metavar="LABELS", help="Nodes with these labels."
)
@partial(with_arguments, "start")
@act_options
def command(
    targets: tuple[str, ...], selector: str, way: str, reason: str, dry_run: bool, output: str, **options: Any
) -> int:
    """Starts a maintenance of a node: a NodeMaintenance, a NotifyMaintenance, or a maintenance profile.

    Several nodes, or a --selector, make a NodeMaintenanceSet: the operator takes --max of the nodes at a time. A
    selector picks the nodes that have the labels now.

    Exit codes: 0 done; 1 refused or failed; 2 wrong command line or arguments.
    """
    from haulout.acts.commands import select_nodes
    from haulout.acts.orders import Order
    from haulout.acts.prepare import NOTHING

    if bool(targets) == bool(selector):
        raise click.UsageError("name a node or give a --selector" + (", not both" if targets else ""))
    args = arguments("start", way, options)
    if not selector and len(targets) == 1 and not any(args.get(each) for each in SEVERAL):
        word = targets[0] if "/" in targets[0] else f"node/{targets[0]}"
        order = Order("start", act_target(word, options[NAMESPACE]), args, reason, dry_run)
        return _run(order, options, output)
    nodes = select_nodes(selector, options) if selector else tuple(map(node_name, targets))
    if not nodes:
        raise click.ClickException("no node has these labels")
    args = {name: value for name, value in args.items() if name in (*SEVERAL, WITH)} | {"nodes": ",".join(nodes)}
    return _run(Order("start", NOTHING, args, reason, dry_run), options, output)


def _run(order: Order, options: dict[str, Any], output: str) -> int:
    """Carry out the order, and warn if no operator runs that would begin the maintenance."""
    from haulout.acts.commands import run_order
    from haulout.explain.operators import print_absence

    code = run_order(order, options, output)
    if code == 0:
        print_absence(options, "the maintenance begins once one runs")
    return code
