"""Makes the commands of acts that take one object and no arguments of their own."""

from __future__ import annotations

from typing import Any

import click

from haulout.cli import completions
from haulout.cli.options import KubectlFlags, act_options, act_target


def object_act(name: str, short: str, about: str) -> click.Command:
    """Return the command of an act."""

    @click.command(
        name, cls=KubectlFlags, short_help=short, help=f"{about}\n\nExit codes: 0 done; 1 refused or failed."
    )
    @click.argument("target", metavar="KIND/[NAMESPACE/]NAME", shell_complete=completions.acted)
    @click.option("--with", "way", default="", metavar="SURFACE", help="The surface, where several have this act.")
    @act_options
    def command(target: str, way: str, reason: str, dry_run: bool, output: str, **cluster: Any) -> int:
        from haulout.acts.commands import run_order
        from haulout.acts.orders import Order

        args = {"with": way} if way else {}
        return run_order(Order(name, act_target(target, cluster["namespace"]), args, reason, dry_run), cluster, output)

    return command
