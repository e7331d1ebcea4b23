"""Makes the commands that pause and resume: they take an object, a node, a selector of nodes, or all nodes."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from haulout.cli import completions
from haulout.cli.options import KubectlFlags, act_options, act_target, label_selector


def pausing_act(name: str, short: str, about: str, *, has_reason: bool = False) -> click.Command:
    """Return the command. `has_reason`: it refuses to run without a reason."""

    @click.command(
        name,
        cls=KubectlFlags,
        short_help=short,
        help=f"{about}\n\nExit codes: 0 done; 1 refused or failed; 2 wrong command line or arguments.",
    )
    @click.argument(
        "target", metavar="[NODE | KIND/[NAMESPACE/]NAME]", default="", shell_complete=completions.act_targets
    )
    @click.option("--all", "everything", is_flag=True, help="All nodes.")
    @click.option(
        "-l", "--selector", default="", metavar="SELECTOR", callback=label_selector, help="The nodes with these labels."
    )
    @partial(act_options, needs_reason=has_reason)
    def command(
        target: str, everything: bool, selector: str, reason: str, dry_run: bool, output: str, **cluster: Any
    ) -> int:
        from haulout.acts.commands import run_order
        from haulout.acts.orders import Order
        from haulout.acts.prepare import NOTHING

        if bool(target) + everything + bool(selector) != 1:
            raise click.UsageError("give one of: a node or KIND/NAME, --selector, --all")
        if has_reason and not reason.strip():
            raise click.UsageError("--reason is missing: people who find the pause have to know why")
        if target:
            word = target if "/" in target else f"node/{target}"
            order = Order(name, act_target(word, cluster["namespace"]), {}, reason, dry_run)
        else:
            order = Order(name, NOTHING, {"selector": selector} if selector else {}, reason, dry_run)
        return run_order(order, cluster, output)

    return command
