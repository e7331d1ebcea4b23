"""`haulout completion`: prints the script by which a shell completes our command lines."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Prints the completion script of a shell, to be sourced: `source <(haulout completion bash)`."""
    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root().command
    click.echo(kind(root, {}, "haulout", "_HAULOUT_COMPLETE").source())
