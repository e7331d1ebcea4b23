"""`haulout override`: break glass. One budget does not hold one object back, for a limited time."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from haulout.cli import completions
from haulout.cli.options import KubectlFlags, act_options, act_target


@click.command("override", cls=KubectlFlags, short_help="Let one object exceed a budget for a limited time.")
@click.argument("target", metavar="KIND/[NAMESPACE/]NAME", shell_complete=completions.act_targets)
@click.option("--limit", required=True, metavar="BUDGET", help="The NodeDisruptionBudget that blocks it.")
@click.option("--for", "span", required=True, metavar="DURATION", help="How long it lasts, such as 2h; at most 24h.")
@partial(act_options, needs_reason=True)
def command(target: str, limit: str, span: str, reason: str, dry_run: bool, output: str, **cluster: Any) -> int:
    """Lets an object take its nodes out of service even if a NodeDisruptionBudget is full or its windows are
    closed.

    It requires the right to `override` that budget, expires automatically, and is recorded. A pause still applies.

    Exit codes: 0 done; 1 refused or failed; 2 wrong command line or arguments.
    """
    from haulout.acts.commands import run_order
    from haulout.acts.orders import Order

    if not reason.strip():
        raise click.UsageError("--reason is missing: an override is recorded with its reason")
    args = {"limit": limit, "for": span}
    return run_order(
        Order("override", act_target(target, cluster["namespace"]), args, reason, dry_run), cluster, output
    )
