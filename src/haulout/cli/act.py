"""`haulout act`: lists what can be done to an object now, by the person who asks, and why the rest cannot."""

from __future__ import annotations

from typing import Any

import click

from haulout.cli import completions
from haulout.cli.options import act_target, cluster_options


@click.command("act", short_help="List the actions for an object, and why others are unavailable.")
@click.argument(
    "target", required=False, default="", metavar="[KIND/[NAMESPACE/]NAME]", shell_complete=completions.act_targets
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@cluster_options
def command(target: str, output: str, **cluster: Any) -> int:
    """Lists the actions for an object, with what each would write, what it would disrupt, and which right is
    missing.

    Without an object, it lists all actions. It writes nothing. Each action is a command of its own, such as
    `haulout start`.
    """
    from haulout.acts.commands import list_acts, list_all_acts

    if not target:
        return list_all_acts(cluster, output)
    return list_acts(act_target(target, cluster["namespace"]), cluster, output)
