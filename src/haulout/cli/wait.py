"""`haulout wait`: waits until a node is in a state, for scripts."""

from __future__ import annotations

from datetime import timedelta

import click

from haulout.cli import completions
from haulout.cli.options import cluster_options, config_option, node_name


def _seconds(ctx: click.Context, param: click.Parameter, text: str) -> float:
    from haulout.base.duration import DurationError, parse

    try:
        seconds = parse(text) / timedelta(seconds=1)
    except DurationError as error:
        raise click.BadParameter(str(error)) from None
    if seconds < 0:
        raise click.BadParameter("it must not be negative")
    return seconds


@click.command("wait", short_help="Wait until a node is maintained, has returned or is blocked.")
@click.argument("node", metavar="node/NAME", shell_complete=completions.nodes)
@click.option(
    "--for", "state", type=click.Choice(["maintained", "returned", "blocked"]), required=True, help="What to wait for."
)
@click.option(
    "--timeout",
    default="10m",
    metavar="DURATION",
    show_default=True,
    callback=_seconds,
    help="Give up after this long.",
)
@config_option
@cluster_options
def command(node: str, state: str, timeout: float, config: str, **cluster: str) -> int:
    """Waits until the node is `maintained` (out of service and ready for the work), has `returned` (in service,
    with no maintenance pending) or is `blocked` (it waits for something that needs action).

    Exit codes: 0 the node is in that state; 4 timed out; 1 no operator is running, or not everything can be read.
    """
    from haulout.explain.status import wait_for

    return wait_for(node_name(node), state, timeout, config, cluster)
